package analyzerprom

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/schemas/metric"
	"github.com/509da70d/floodgate/store"
)

// NewDisk returns a collector of the directory in which an analyzer has its stores, to be registered. While the directory cannot be
// looked at, it shows nothing.
func NewDisk(dir string) prometheus.Collector {
	used := metric.Desc("store_bytes", "What the stores of all partitions that are here take on disk, those that were moved aside too.")
	free := metric.Desc("store_free_bytes", "What may still be written to the disk of the stores.")
	return metric.Collector(func(out chan<- prometheus.Metric) {
		usedBytes, freeBytes, err := store.Disk(dir)
		if err != nil {
			return
		}
		out <- prometheus.MustNewConstMetric(used, prometheus.GaugeValue, float64(usedBytes))
		if freeBytes != math.MaxInt64 {
			out <- prometheus.MustNewConstMetric(free, prometheus.GaugeValue, float64(freeBytes))
		}
	}, used, free)
}
