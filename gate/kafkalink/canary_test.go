package kafkalink

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// oracle answers canaries as the analyzer does, after a time that is the lag.
func (w *world) oracle(owners []*owner, lag time.Duration) (answered int) {
	w.t.Helper()
	for p, o := range owners {
		records := w.kafka.Records("floodgate.requests", p)
		for _, r := range records[o.read:] {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				w.t.Fatal(err)
			}
			for _, e := range f.Entries {
				if e.Kind != schemas.KindCanary {
					continue
				}
				pass(lag - time.Duration(time.Now().UnixNano()-e.Time))
				o.seq++
				o.write(pb.Record{Decision: &schemas.Decision{
					Rule: "_canary", Caller: e.Caller(), Mode: schemas.ModeShadow, CloseAt: e.Time, Until: e.Time,
					Partition: int32(p), Epoch: o.epoch, Seq: o.seq, Evidence: schemas.Evidence{AsOfTime: e.Time},
				}})
				answered++
				w.costs = append(w.costs, e.Cost)
			}
		}
		o.read = len(records)
	}
	return answered
}

func TestTheLagIsMeasuredFromRequestToDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = 20 * time.Millisecond
		w := newWorld(t, 3, Config{Canary: time.Second})
		w.start()
		pass(10 * time.Millisecond)
		var owners []*owner
		for p := range 3 {
			o := &owner{k: w.kafka, partition: p, epoch: 1}
			o.claim()
			owners = append(owners, o)
		}
		for i := range 30 {
			pass(time.Second)
			if got := w.oracle(owners, lag); got != 1 {
				t.Fatalf("second %d: got %d canaries, want 1", i, got)
			}
		}
		pass(100 * time.Millisecond)
		s := w.link.Stats()
		if s.Lag.Last != lag || s.Lag.P50 != lag || s.Lag.P99 != lag || s.Lag.Samples != 30 {
			t.Errorf("got %+v, want %v for 30 samples", s.Lag, lag)
		}
		if s.Decisions != 0 || s.Requests.Accepted != 0 || w.set.Status().Applied != 0 {
			t.Errorf("got %+v, want canaries neither counted as requests nor applied", s)
		}
		for p, o := range owners {
			if o.read != 10 {
				t.Errorf("partition %d: got %d canaries, want every third", p, o.read)
			}
		}
		if w.costs[0] != 0 || w.costs[29] != int64(lag) {
			t.Errorf("got costs %v, want the lag last measured", w.costs)
		}
		w.shutdown()
	})
}

func TestAnAnswerThatCannotBeIsNotBelieved(t *testing.T) {
	var c canaries
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	answer := func(id string, asOf int64) {
		c.answer(&schemas.Decision{
			Caller: schemas.Caller{Kind: schemas.KindCanary, ID: id}, Evidence: schemas.Evidence{AsOfTime: asOf},
		}, now)
	}
	mine := c.prefix() + "0"
	answer("another link's", now.UnixNano())
	for _, asOf := range []int64{0, -1, math.MinInt64, math.MaxInt64, now.UnixNano() + 1, now.Add(-2 * maxLag).UnixNano()} {
		answer(mine, asOf)
	}
	if got := c.lag(); got.Samples != 0 {
		t.Errorf("got %+v, want no samples", got)
	}
	answer(mine, now.Add(-time.Second).UnixNano())
	if got := c.lag(); got.Last != time.Second || got.Samples != 1 {
		t.Errorf("got %+v, want one of 1 s", got)
	}
}

func TestLagIsOfTheNewestSamples(t *testing.T) {
	var c canaries
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for i := range 3 * canarySamples {
		lag := time.Duration(i%canarySamples+1) * time.Millisecond
		c.answer(&schemas.Decision{
			Caller: schemas.Caller{ID: c.prefix()}, Evidence: schemas.Evidence{AsOfTime: now.Add(-lag).UnixNano()},
		}, now)
	}
	want := Lag{
		Last: 128 * time.Millisecond, P50: 64 * time.Millisecond, P99: 127 * time.Millisecond, Samples: 3 * canarySamples,
		Sum:    3 * canarySamples * (canarySamples + 1) / 2 * time.Millisecond,
		Within: [...]uint64{3, 6, 9, 15, 21, 30, 45, 75, 150, 300, 384, 384, 384, 384, 384, 384},
	}
	if got := c.lag(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestALagBeyondAllBoundsIsASampleAllTheSame(t *testing.T) {
	var c canaries
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	bounds := LagBounds()
	for _, lag := range []time.Duration{0, bounds[lagBuckets-1], bounds[lagBuckets-1] + 1, maxLag - 1} {
		c.answer(&schemas.Decision{
			Caller: schemas.Caller{ID: c.prefix()}, Evidence: schemas.Evidence{AsOfTime: now.Add(-lag).UnixNano()},
		}, now)
	}
	if got := c.lag(); got.Samples != 4 || got.Within[0] != 1 || got.Within[lagBuckets-1] != 2 {
		t.Errorf("got %+v, want 1 sample within the first bound, 2 within the last, and 4 in all", got)
	}
}

func TestEachPartitionHasACanary(t *testing.T) {
	c := canaries{producer: schemas.ProducerID{1, 2, 3}}
	key := schemas.DefaultPartitionKey()
	for _, n := range []int{1, 2, 7, 64} {
		for p, id := range c.ids(key, n) {
			if got := schemas.Partition(key.Hash(schemas.KindCanary, id), n); got != p {
				t.Errorf("%q of %d partitions: got partition %d, want %d", id, n, got, p)
			}
			if err := (schemas.Caller{Kind: schemas.KindCanary, ID: id}).Validate(); err != nil {
				t.Error(err)
			}
		}
	}
}
