package analyzer

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const mirrorTargets = 3

// grown folds what a mirror has written, and returns what is counted of each caller, and the stats of all partitions.
func (w *world) grown() (counts map[string]int64, all FoldStats) {
	w.t.Helper()
	counts = make(map[string]int64)
	for p := range mirrorTargets {
		f := NewFold(w.conf.Rules, FoldOptions{Partition: p, Partitions: mirrorTargets})
		for _, r := range w.log.records(logName("grown", p)) {
			if err := f.Frame(Record{Offset: r.Offset, Time: r.Time, Value: r.Value}); err != nil {
				w.t.Fatal(err)
			}
		}
		f.Rows(f.LogTime(), func(r Row) bool { counts[r.ID] += r.Total; return true })
		s := f.Stats()
		all.Requests += s.Requests
		all.Duplicate += s.Duplicate
		for reason, n := range s.Rejected {
			w.t.Errorf("partition %d: %d refused because of %s", p, n, reason)
		}
	}
	return counts, all
}

// records returns what a log holds.
func (m *memLog) records(name string) []kafkaio.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]kafkaio.Record{}, m.logs[name]...)
}

func (w *world) mirror(follow bool) *Mirror {
	return NewMirror(w.log, MirrorConfig{From: "requests", To: "grown", Targets: mirrorTargets, Follow: follow})
}

// yearRules counts for so long that nothing is late or expires.
const yearRules = `
version: 1
rules:
  - {name: r, callers: key, limit: 1000000, window: 8760h, algorithm: fixed}
`

// fill sends frames of random callers, some of them twice, and returns the truth.
func (w *world) fill(rnd *rand.Rand, frames int, truth map[string]int64) {
	for range frames {
		var keys []string
		for range 1 + rnd.IntN(20) {
			k := fmt.Sprint("c", rnd.IntN(40))
			keys = append(keys, k)
			truth[k]++
		}
		now := time.Now()
		w.prod.send(now, append(keys, "canary")...)
		if rnd.IntN(5) == 0 {
			w.prod.frame(now, w.prod.seq, keys...)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestMirrorWritesEveryEntryOnceHoweverOftenItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, yearRules)
		rnd := rand.New(rand.NewPCG(3, 3))
		truth := make(map[string]int64)
		w.fill(rnd, 100, truth)
		for run := range 3 {
			m := w.mirror(false)
			if err := m.Run(t.Context()); err != nil || m.Behind() != 0 {
				t.Fatalf("run %d: got %v, %d records behind", run, err, m.Behind())
			}
			counts, stats := w.grown()
			if !maps.Equal(counts, truth) {
				t.Errorf("run %d: got %v, want %v", run, counts, truth)
			}
			if (stats.Duplicate > 0) != (run > 0) {
				t.Errorf("run %d: got %d duplicates, want them from the second run on only", run, stats.Duplicate)
			}
			w.fill(rnd, 10, truth)
		}
	})
}

func TestMirrorFollowsThroughLostAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, yearRules)
		rnd, faults := rand.New(rand.NewPCG(4, 4)), rand.New(rand.NewPCG(5, 5))
		lost := 0
		w.log.set(func() {
			w.log.fault = func(topic string) (before, after error) {
				switch {
				case topic == "grown" && faults.IntN(5) == 0:
					lost++
					return nil, errAway // appended, and not acknowledged
				case topic == "grown" && faults.IntN(5) == 0:
					return errAway, nil
				}
				return nil, nil
			}
		})
		truth := make(map[string]int64)
		ctx, cancel := context.WithCancel(t.Context())
		m, done := w.mirror(true), make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		w.fill(rnd, 200, truth)
		time.Sleep(time.Minute)
		if m.Behind() != 0 {
			t.Errorf("behind: got %d records, want 0", m.Behind())
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopped: got %v", err)
		}
		if counts, stats := w.grown(); !maps.Equal(counts, truth) || lost == 0 || stats.Duplicate == 0 {
			t.Errorf("got %v with %d duplicates and %d acknowledgements lost, want %v", counts, stats.Duplicate, lost, truth)
		}
	})
}

// A frame of the largest size may grow beyond it, with an offset for each entry; it is then split.
func TestMirrorSplitsWhatGrowsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, yearRules)
		now := time.Now().UnixNano()
		var enc schemas.FrameEncoder
		n := int64(0)
		for {
			e := schemas.Entry{Time: now, Kind: "key", ID: "c", Count: 1, Resource: fmt.Sprintf("/%04d/%0100d", n%1500, n%1500)}
			if enc.Add(&e) != nil {
				break
			}
			n++
		}
		value, err := enc.AppendTo(nil, &schemas.Frame{
			Producer: schemas.ProducerID{1}, Seq: 1, Flushed: now, Partitions: 1, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.log.Produce(t.Context(), "requests", 0, kafkaio.Message{Time: now, Value: value}); err != nil {
			t.Fatal(err)
		}
		if err := w.mirror(false).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts, _ := w.grown()
		if want := map[string]int64{"c": n}; !maps.Equal(counts, want) || n < 1000 {
			t.Errorf("got %v, want %v", counts, want)
		}
	})
}

func TestMirrorRefusesWhatCannotBe(t *testing.T) {
	w := newWorld(t)
	for _, c := range []MirrorConfig{{From: "requests", To: "requests", Targets: 3}, {From: "requests", To: "grown"}} {
		if err := NewMirror(w.log, c).Run(t.Context()); err == nil {
			t.Errorf("%+v: got no error", c)
		}
	}
	w.log.set(func() { w.log.away = true })
	if err := w.mirror(false).Run(t.Context()); err == nil {
		t.Error("no broker: got no error")
	}
}
