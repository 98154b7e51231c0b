package analyzerprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/schemas/metric"
)

// distribution is a histogram that is found in a snapshot.
type distribution struct {
	desc   *prometheus.Desc
	bounds []float64
	value  func(s *stats) histogram.Snapshot
}

// distributions are of all partitions together: with 16 of them these would be a third of all series.
func distributions() []distribution {
	return []distribution{
		{
			metric.Desc("overshoot_ratio", "The excess of a closed caller over its limit, divided by the limit, for each close by count that has ended."),
			histogram.Ratios(), func(s *stats) histogram.Snapshot { return s.Fold.Overs },
		},
		{
			metric.Desc("overshoot_bound_ratio", "The overshoot that at most one close in 200 exceeds while demand holds, as a share of the limit, of each close of a caller whose demand was known."),
			histogram.Ratios(), func(s *stats) histogram.Snapshot { return s.Fold.Bounds },
		},
		{
			metric.Desc("checkpoint_seconds", "How long it took to write a checkpoint to disk."),
			histogram.Seconds(), func(s *stats) histogram.Snapshot { return s.Commits },
		},
	}
}

func collectHistogram(out chan<- prometheus.Metric, desc *prometheus.Desc, v *histogram.Snapshot, labels ...string) {
	out <- prometheus.MustNewConstHistogram(desc, v.Count, v.Sum, v.Within, labels...)
}

// allDistributions are the distributions and their sums over the partitions.
type allDistributions struct {
	each []distribution
	sums *sums
}

func newAllDistributions() allDistributions { return allDistributions{distributions(), newSums()} }

func (a *allDistributions) descs() (descs []*prometheus.Desc) {
	for i := range a.each {
		descs = append(descs, a.each[i].desc)
	}
	return descs
}

// collect sends the sums over the partitions, and nothing if there are none.
func (a *allDistributions) collect(out chan<- prometheus.Metric, owners []stats) {
	now := make(counters)
	for i := range owners {
		for j := range a.each {
			d := &a.each[j]
			v := d.value(&owners[i])
			now[counted{owners[i].Partition, d.desc.String()}] = rowOf(&v, d.bounds)
		}
	}
	total := a.sums.add(now)
	for j := range a.each {
		if r := total[a.each[j].desc.String()]; r != nil {
			v := r.snapshot(a.each[j].bounds)
			collectHistogram(out, a.each[j].desc, &v)
		}
	}
}
