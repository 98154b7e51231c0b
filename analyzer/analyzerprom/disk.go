package analyzerprom

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/schemas/metric"
	"github.com/509da70d/floodgate/store"
)

// DiskCollector is a prometheus.Collector of the directory in which an analyzer has its stores. NewDisk makes one. Any goroutine may
// use it.
type DiskCollector struct {
	dir        string
	used, free *prometheus.Desc
}

var _ prometheus.Collector = (*DiskCollector)(nil)

// NewDisk returns a DiskCollector of a directory, to be registered. While the directory cannot be looked at, it shows nothing.
func NewDisk(dir string) *DiskCollector {
	return &DiskCollector{
		dir:  dir,
		used: metric.Desc("store_bytes", "What the stores of all partitions that are here take on disk, those that were moved aside too."),
		free: metric.Desc("store_free_bytes", "What may still be written to the disk of the stores."),
	}
}

// Describe implements prometheus.Collector.
func (c *DiskCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.used
	out <- c.free
}

// Collect implements prometheus.Collector.
func (c *DiskCollector) Collect(out chan<- prometheus.Metric) {
	used, free, err := store.Disk(c.dir)
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, float64(used))
	if free != math.MaxInt64 {
		out <- prometheus.MustNewConstMetric(c.free, prometheus.GaugeValue, float64(free))
	}
}
