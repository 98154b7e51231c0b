package kafkaprom_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaprom"
)

// TestCallsAreCountedByOpAndResult, and series without any call are there as well.
func TestCallsAreCountedByOpAndResult(t *testing.T) {
	c := kafkaprom.New()
	for range 3 {
		c.Observe(kafkaio.Call{Op: kafkaio.OpProduce, Took: 2 * time.Millisecond})
	}
	c.Observe(kafkaio.Call{Op: kafkaio.OpProduce, Took: 5 * time.Second, Err: errors.New("away")})
	const metric = "floodgate_kafka_requests_total"
	want := "# HELP " + metric + " Calls to Kafka, each with all its attempts, by what they do and by result.\n# TYPE " + metric + " counter\n"
	counts := map[string]int{"produce/ok": 3, "produce/failed": 1}
	for _, op := range []string{"fetch", "group", "other", "produce", "range"} {
		for _, result := range []string{"failed", "ok"} {
			want += fmt.Sprintf("%s{op=%q,result=%q} %d\n", metric, op, result, counts[op+"/"+result])
		}
	}
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("got %v and %v, want no problem", problems, err)
	}
}

// TestNoSeriesIsAdded by any number of calls, whatever their errors say: topics and brokers have no series of their own.
func TestNoSeriesIsAdded(t *testing.T) {
	c := kafkaprom.New()
	before := testutil.CollectAndCount(c)
	for i := range 1000 {
		op := kafkaio.Ops()[i%len(kafkaio.Ops())]
		c.Observe(kafkaio.Call{Op: op, Took: time.Duration(i) * time.Millisecond, Err: &kafkaio.RequestError{Op: op, Topic: fmt.Sprint("t", i), Err: kafkaio.ErrNoTopic}})
	}
	if after := testutil.CollectAndCount(c); after != before || before == 0 {
		t.Errorf("got %d series, then %d, want the same", before, after)
	}
}

// TestSecondsAreThoseOfTheOp: a slow fetch, which waits for records, does not make produces look slow; and many goroutines may observe.
func TestSecondsAreThoseOfTheOp(t *testing.T) {
	c := kafkaprom.New()
	var observing sync.WaitGroup
	for range 8 {
		observing.Go(func() {
			for range 100 {
				c.Observe(kafkaio.Call{Op: kafkaio.OpFetch, Took: time.Minute})
				c.Observe(kafkaio.Call{Op: kafkaio.OpProduce, Took: 2 * time.Millisecond})
			}
		})
	}
	observing.Wait()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	within := make(map[string]uint64) // of 2.5 ms, by op
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				if b.GetUpperBound() == 0.0025 {
					within[m.GetLabel()[0].GetValue()] = b.GetCumulativeCount()
				}
			}
		}
	}
	if within[kafkaio.OpProduce] != 800 || within[kafkaio.OpFetch] != 0 || len(within) != len(kafkaio.Ops()) {
		t.Errorf("got %v within 2.5 ms, want the 800 produces", within)
	}
}
