package gateprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

// Set has the status of gates; *gate.Set is one.
type Set interface{ Status() gate.Status }

// Recorder has the numbers of recorded requests; *record.Recorder is one.
type Recorder interface{ Stats() record.Stats }

// Link has the numbers of the connection to Kafka; *kafkalink.Link is one.
type Link interface{ Stats() kafkalink.Stats }

// Options say what a Collector exports. It leaves out what is nil.
type Options struct {
	Set      Set
	Recorder Recorder // if nil, the numbers of the Link's recorder
	Link     Link

	// Partitions adds series for each partition of decisions: its freshness, the age of its newest heartbeat, and the epoch,
	// watermark and lag of its owner. They show which partition has a problem. Many servers with many partitions make many
	// such series.
	Partitions bool
}

// Collector is a prometheus.Collector. New makes one. Any goroutine may use it.
type Collector struct{ parts []prometheus.Collector }

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector, to be registered. It panics if Options has no Set, Recorder or Link.
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
