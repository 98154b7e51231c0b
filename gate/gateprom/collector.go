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

// Options say what the collector exports. It leaves out what is nil.
type Options struct {
	Set      Set
	Recorder Recorder // if nil, the numbers of the Link's recorder
	Link     Link

	// Partitions adds series for each partition of decisions: its freshness, the age of its newest heartbeat, and the epoch,
	// watermark and lag of its owner. They show which partition has a problem. Many servers with many partitions make many
	// such series.
	Partitions bool
}

// New returns a collector, to be registered. Any goroutine may use it. It panics if Options has no Set, Recorder or Link.
func New(o Options) prometheus.Collector {
	var all collectors
	if o.Set != nil {
		all = append(all, newSetCollector(o.Set, o.Partitions))
	}
	switch {
	case o.Recorder != nil:
		all = append(all, newRecorderCollector(o.Recorder.Stats))
	case o.Link != nil:
		all = append(all, newRecorderCollector(func() record.Stats { return o.Link.Stats().Requests }))
	}
	if o.Link != nil {
		all = append(all, newLinkCollector(o.Link))
	}
	if len(all) == 0 {
		panic("gateprom: Options has no Set, Recorder or Link")
	}
	return all
}

// collectors are several collectors as one.
type collectors []prometheus.Collector

// Describe implements prometheus.Collector.
func (all collectors) Describe(out chan<- *prometheus.Desc) {
	for _, c := range all {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (all collectors) Collect(out chan<- prometheus.Metric) {
	for _, c := range all {
		c.Collect(out)
	}
}
