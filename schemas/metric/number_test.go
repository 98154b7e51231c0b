package metric_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/schemas/metric"
)

// snapshot is what something has done, by the one who did it.
type snapshot struct {
	label string
	done  uint64
	up    bool
}

type collector struct {
	metric.Numbers[snapshot]

	of []snapshot
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	for i := range c.of {
		c.Numbers.Collect(out, &c.of[i], c.of[i].label)
	}
}

// TestNumbers: each number is found in each snapshot, under its name, help, type and label.
func TestNumbers(t *testing.T) {
	c := collector{
		Numbers: metric.Numbers[snapshot]{
			metric.Counter("done_total", "Done.", func(s *snapshot) uint64 { return s.done }, "who"),
			metric.Gauge("up", "1 while up.", func(s *snapshot) float64 { return metric.Truth(s.up) }, "who"),
		},
		of: []snapshot{{"a", 1 << 52, true}, {"b", 0, false}},
	}
	want := `
# HELP floodgate_done_total Done.
# TYPE floodgate_done_total counter
floodgate_done_total{who="a"} 4.503599627370496e+15
floodgate_done_total{who="b"} 0
# HELP floodgate_up 1 while up.
# TYPE floodgate_up gauge
floodgate_up{who="a"} 1
floodgate_up{who="b"} 0
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestNumbersNeedTheirLabels: one value too few is a mistake that shows at the first scrape.
func TestNumbersNeedTheirLabels(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got no panic, want one")
		}
	}()
	n := metric.Numbers[snapshot]{metric.Counter("done_total", "Done.", func(s *snapshot) uint64 { return s.done }, "who")}
	n.Collect(make(chan prometheus.Metric, 1), &snapshot{})
}

// reasons is a collector of one counter with a label.
type reasons struct {
	desc   *prometheus.Desc
	values map[string]uint64
}

func (r reasons) Describe(out chan<- *prometheus.Desc) { out <- r.desc }

func (r reasons) Collect(out chan<- prometheus.Metric) {
	metric.Counters(out, r.desc, r.values, "gap", "crc")
}

// TestKnownValuesOfALabelBeginWithZero, and those that are not known are shown once they have come.
func TestKnownValuesOfALabelBeginWithZero(t *testing.T) {
	r := reasons{metric.Desc("lost_total", "Lost.", "reason"), map[string]uint64{"crc": 3, "another": 4}}
	want := `
# HELP floodgate_lost_total Lost.
# TYPE floodgate_lost_total counter
floodgate_lost_total{reason="another"} 4
floodgate_lost_total{reason="crc"} 3
floodgate_lost_total{reason="gap"} 0
`
	if err := testutil.CollectAndCompare(r, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	r.values = nil
	if n := testutil.CollectAndCount(r); n != 2 {
		t.Errorf("got %d series of a label without values, want the two known ones", n)
	}
}
