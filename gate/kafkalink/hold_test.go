package kafkalink

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// TestHoldsMeetInAQueue: Kafka is slow, so that entries of many flushes meet in the queues, whose tables grow meanwhile. What arrived
// and what ended cancel in the log, per partition and with the declared costs.
func TestHoldsMeetInAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, Config{})
		w.rec = record.New(record.Options{Holds: true})
		w.link = newLink(w.set, w.rec, w.link.config)
		w.kafka.SetFault(slow)
		w.start()
		pass(5 * time.Second)
		const streams = 3000
		began := time.Now()
		for i := range streams {
			at := time.Now()
			var c gate.Callers
			c.Add(w.keys, fmt.Sprint("key-", i%4))
			w.rec.Record(&c, gate.Verdict{}, record.Request{Resource: "/", Declared: int64(i % 3)})
			time.AfterFunc(time.Duration(i%40)*50*time.Millisecond, func() {
				w.rec.Respond(&c, record.Response{Resource: "/", Arrived: at, Declared: int64(i % 3), Cost: 5})
			})
			pass(time.Millisecond)
		}
		pass(10 * time.Second)
		w.shutdown()

		var arrivals, responses struct{ entries, count, declared, ticks, cost int64 }
		for _, f := range w.kafka.frames(t) {
			for _, e := range f.Entries {
				sum, ticks := &arrivals, int64(e.Count)*schemas.Tick(e.Time)
				if e.Response {
					sum, ticks = &responses, e.Arrived
				}
				sum.entries++
				sum.count += int64(e.Count)
				sum.declared += e.Declared
				sum.ticks += ticks
				sum.cost += e.Cost
			}
		}
		if arrivals.count != streams || responses.count != streams || arrivals.declared != streams || responses.declared != streams ||
			arrivals.ticks != responses.ticks || arrivals.ticks < streams*schemas.Tick(began.UnixNano()) || responses.cost != 5*streams {
			t.Errorf("got arrivals %+v and responses %+v, want %d of each, with equal sums", arrivals, responses, streams)
		}
	})
}
