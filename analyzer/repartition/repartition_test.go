package repartition

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

const targets = 3

// grown folds what was written, and returns what is counted of each caller, and the stats of all partitions.
func (w *world) grown() (counts map[string]int64, all fold.Stats) {
	w.t.Helper()
	counts = make(map[string]int64)
	for p := range targets {
		f := fold.New(w.rules, fold.Options{Partition: p, Partitions: targets})
		for _, r := range w.log.Records("grown", p) {
			if err := f.Frame(fold.Record{Offset: r.Offset, Time: r.Time, Value: r.Value}); err != nil {
				w.t.Fatal(err)
			}
		}
		f.View().Rows(f.LogTime(), func(r fold.Row) bool { counts[r.ID] += r.Total; return true })
		s := f.Stats()
		all.Requests += s.Requests
		all.Duplicate += s.Duplicate
		for reason, n := range s.Rejected {
			w.t.Errorf("partition %d: %d refused because of %s", p, n, reason)
		}
	}
	return counts, all
}

func (w *world) repartitioner(follow bool) *Repartitioner {
	return New(w.log, Config{From: "requests", To: "grown", Targets: targets, Follow: follow})
}

// yearRules counts for so long that nothing is late or expires.
const yearRules = `
version: 1
rules:
  - {name: r, callers: key, limit: 1000000, window: 8760h, algorithm: fixed}
`

// world is a topic of requests, and one to be written.
type world struct {
	t     *testing.T
	log   *kafkaiotest.Kafka
	prod  *producer
	rules *rules.Set
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log := kafkaiotest.New()
	log.Create(1, "requests")
	log.Create(targets, "grown")
	log.SetMaxRecords(7) // so that there are several batches
	set, err := rules.Parse("test", []byte(yearRules))
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, log: log, prod: &producer{t: t, log: log, id: schemas.ProducerID{1}}, rules: set}
}

// producer sends frames to requests/0.
type producer struct {
	t   *testing.T
	log *kafkaiotest.Kafka
	id  schemas.ProducerID
	seq uint64
}

// send appends a frame of one request of each given key at a time.
func (p *producer) send(at time.Time, keys ...string) {
	p.t.Helper()
	p.seq++
	p.frame(at, p.seq, keys...)
}

func (p *producer) frame(at time.Time, seq uint64, keys ...string) {
	p.t.Helper()
	f := foldtest.KeysFrame(p.id, seq, at, keys...)
	value := foldtest.Encode(p.t, f)
	p.log.Append("requests", 0, kafkaio.Message{Time: at.UnixNano(), Value: value})
}

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

func TestRepartitioningWritesEveryEntryOnceHoweverOftenItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rnd := rand.New(rand.NewPCG(3, 3))
		truth := make(map[string]int64)
		w.fill(rnd, 100, truth)
		for run := range 3 {
			m := w.repartitioner(false)
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

// TestRepartitioningLeavesTalliesAndLevelsBehind: they are of other partitions, and the new topic's owners make their own.
func TestRepartitioningLeavesTalliesAndLevelsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		search := foldtest.Rules(t, "{name: search, callers: key, capacity: 5000, window: 1s}").Rules[0]
		tally, level := fold.PoolTally{Rule: search, At: time.Now().UnixNano()}, fold.PoolLevel{Rule: search, At: time.Now().UnixNano()}
		request := schemas.Entry{Time: tally.At, Kind: "key", ID: "c", Count: 2}
		w.log.Append("requests", 0, kafkaio.Message{Time: tally.At, Value: foldtest.Encode(t, foldtest.Frame(1, tally.At, tally.Entry(0), request, level.Entry("search#7")))})
		if err := w.repartitioner(false).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var copied []schemas.Entry
		for p := range targets {
			for _, r := range w.log.Records("grown", p) {
				var f schemas.Frame
				if err := f.Decode(r.Value); err != nil {
					t.Fatal(err)
				}
				copied = append(copied, f.Entries...)
			}
		}
		if len(copied) != 1 || copied[0].Kind != "key" || copied[0].Count != 2 {
			t.Errorf("got %+v, want the two requests alone", copied)
		}
	})
}

func TestRepartitioningFollowsThroughLostAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rnd, faults := rand.New(rand.NewPCG(4, 4)), rand.New(rand.NewPCG(5, 5))
		lost := 0
		w.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			switch {
			case c.Op != kafkaiotest.OpProduce || c.Topic != "grown":
			case faults.IntN(5) == 0:
				lost++
				return kafkaiotest.LostAnswer()
			case faults.IntN(5) == 0:
				return kafkaiotest.Down()
			}
			return kafkaiotest.Fault{}
		})
		truth := make(map[string]int64)
		ctx, cancel := context.WithCancel(t.Context())
		m, done := w.repartitioner(true), make(chan error, 1)
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
func TestAFrameThatGrowsTooLargeIsSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		w.log.Append("requests", 0, kafkaio.Message{Time: now, Value: value})
		if err := w.repartitioner(false).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts, _ := w.grown()
		if want := map[string]int64{"c": n}; !maps.Equal(counts, want) || n < 1000 {
			t.Errorf("got %v, want %v", counts, want)
		}
	})
}

func TestRefusedConfigurations(t *testing.T) {
	w := newWorld(t)
	for _, c := range []Config{{From: "requests", To: "requests", Targets: 3}, {From: "requests", To: "grown"}} {
		if err := New(w.log, c).Run(t.Context()); err == nil {
			t.Errorf("%+v: got no error", c)
		}
	}
	w.log.SetDown(true)
	if err := w.repartitioner(false).Run(t.Context()); err == nil {
		t.Error("no broker: got no error")
	}
}

// TestRecordsThatTheLogNoLongerHoldsAreLogged: records that retention removes while they are read are missing in the new topic, and an
// operator must know.
func TestRecordsThatTheLogNoLongerHoldsAreLogged(t *testing.T) {
	var logged strings.Builder
	w := newWorld(t)
	r := w.repartitioner(false)
	r.config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	newPartition(r, 0).report([]kafkaio.Skip{
		{From: 3, To: 9, Reason: kafkaio.SkipLost},
		{From: 10, To: 10, Reason: kafkaio.SkipControl},
		{From: 11, To: 12, Reason: kafkaio.SkipTooLarge},
	})
	if got := logged.String(); strings.Count(got, "level=ERROR") != 2 || !strings.Contains(got, "lost=7") || !strings.Contains(got, "reason=too_large") {
		t.Errorf("got %q, want seven lost, one stretch too large, and nothing about the marker", got)
	}
}
