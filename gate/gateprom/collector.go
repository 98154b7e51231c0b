package gateprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

// Set is what tells of gates; *gate.Set is one.
type Set interface{ Status() gate.Status }

// Recorder is what tells of recorded requests; *record.Recorder is one.
type Recorder interface{ Stats() record.Stats }

// Link is what tells of the connection to Kafka; *kafkalink.Link is one.
type Link interface{ Stats() kafkalink.Stats }

// Options say what is shown. What is nil is left out.
type Options struct {
	Set      Set
	Recorder Recorder // nil is the Link's
	Link     Link

	// Partitions adds series for each partition of decisions: its freshness, the age of what it said last, its owner's
	// epoch and lag. They are for finding out which partition is to blame; a large cluster of servers and many partitions
	// make many of them.
	Partitions bool
}

// Collector is a prometheus.Collector. New makes one. Any goroutine may use it.
type Collector struct{ parts []prometheus.Collector }

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector, to be registered. It panics if there is nothing to show, a mistake that shows at the first
// start.
func New(o Options) *Collector {
	c := &Collector{}
	if o.Set != nil {
		c.parts = append(c.parts, newSetCollector(o.Set, o.Partitions))
	}
	switch {
	case o.Recorder != nil:
		c.parts = append(c.parts, newRecorderCollector(o.Recorder.Stats))
	case o.Link != nil:
		c.parts = append(c.parts, newRecorderCollector(func() record.Stats { return o.Link.Stats().Requests }))
	}
	if o.Link != nil {
		c.parts = append(c.parts, newLinkCollector(o.Link))
	}
	if len(c.parts) == 0 {
		panic("gateprom: Options has no Set, Recorder or Link")
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, p := range c.parts {
		p.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.parts {
		p.Collect(out)
	}
}

// number is a metric without labels, found in a snapshot of type S.
type number[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *S) float64
}

func counter[S any](name, help string, value func(s *S) uint64) number[S] {
	return number[S]{desc(name, help), prometheus.CounterValue, func(s *S) float64 { return float64(value(s)) }}
}

func gauge[S any](name, help string, value func(s *S) float64) number[S] {
	return number[S]{desc(name, help), prometheus.GaugeValue, value}
}

func (n *number[S]) of(s *S, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(n.desc, n.kind, n.value(s), labels...)
}

// desc describes a metric of floodgate's.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("floodgate_"+name, help, labels, nil)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
