package record

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/merge"
	"github.com/509da70d/floodgate/schemas"
)

// callersOf returns the callers of a request of one key.
func (s *server) callersOf(key string) *gate.Callers {
	var c gate.Callers
	c.Add(s.keys, key)
	return &c
}

// drainMerged takes everything, merged as a link merges what comes from several stripes, in the order of arrival ticks.
func (s *server) drainMerged(t *testing.T) (es []schemas.Entry) {
	t.Helper()
	table := merge.NewHolding(1024)
	s.rec.Acked(s.rec.Drain(func(hash uint64, e *schemas.Entry) {
		if !table.Add(hash, e) {
			t.Fatal("no room")
		}
	}))
	table.Each(func(_ uint64, e *schemas.Entry) {
		c := *e
		c.Kind, c.ID, c.Resource = strings.Clone(e.Kind), strings.Clone(e.ID), strings.Clone(e.Resource)
		es = append(es, c)
	})
	slices.SortFunc(es, func(a, b schemas.Entry) int { return cmp.Compare(a.Arrived, b.Arrived) })
	return es
}

// TestHoldsInTime: three requests of one tick, one of which declares nothing, end two seconds later, in one tick as well.
func TestHoldsInTime(t *testing.T) {
	s := newServer(Options{Holds: true})
	c := s.callersOf("abc")
	at, end := noon.Truncate(time.Second), noon.Truncate(time.Second).Add(2*time.Second)
	for i, declared := range []int64{500, 700, 0} {
		s.rec.Record(c, gate.Verdict{}, Request{Resource: "/", At: at.Add(time.Duration(i) * time.Millisecond), Declared: declared})
	}
	for i, declared := range []int64{500, 700, 0} {
		s.rec.Respond(c, Response{
			Resource: "/", Status: 200, Cost: 100, At: end, Arrived: at.Add(time.Duration(i) * time.Millisecond), Declared: declared,
		})
	}
	tick := schemas.Tick(at.UnixNano())
	entry := func(e schemas.Entry) schemas.Entry {
		e.Kind, e.ID, e.Resource = "key", "abc", "/"
		return e
	}
	want := map[schemas.Entry]bool{
		entry(schemas.Entry{Time: at.Add(time.Millisecond).UnixNano(), Count: 2, Declared: 1200, Arrived: 2 * tick}):                    true,
		entry(schemas.Entry{Time: at.Add(2 * time.Millisecond).UnixNano(), Count: 1, Arrived: tick}):                                    true,
		entry(schemas.Entry{Time: end.UnixNano(), Count: 2, Declared: 1200, Arrived: 2 * tick, Cost: 200, Status: 200, Response: true}): true,
		entry(schemas.Entry{Time: end.UnixNano(), Count: 1, Declared: 0, Arrived: tick, Cost: 100, Status: 200, Response: true}):        true,
	}
	got := s.drainMerged(t)
	for _, e := range got {
		if !want[e] {
			t.Errorf("got %+v, which is not wanted", e)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d entries, want %d", len(got), len(want))
	}
	conserve(t, s.rec.Stats())
}

// Requests of two seconds that end in one tick end in two entries, and those of one second in one.
func TestResponsesMergeBySecondOfArrival(t *testing.T) {
	s, at := newServer(Options{Holds: true}), noon.Truncate(time.Second)
	for range 2 {
		for _, arrived := range []int{0, 990, 1000, 1990} {
			s.rec.Respond(s.callersOf("abc"), Response{At: at.Add(time.Minute), Arrived: at.Add(time.Duration(arrived) * time.Millisecond)})
		}
	}
	tick := schemas.Tick(at.UnixNano())
	got := s.drainMerged(t)
	if len(got) != 2 || got[0].Count != 4 || got[0].Arrived != 4*tick+2*99 || got[1].Count != 4 || got[1].Arrived != 4*tick+2*(100+199) {
		t.Errorf("got %+v, want two entries of four", got)
	}
}

func TestWithoutHoldsNothingSaysMore(t *testing.T) {
	s := newServer(Options{Responses: true})
	for i := range 3 {
		s.rec.Record(s.callersOf("abc"), gate.Verdict{}, Request{At: noon, Declared: int64(i)})
		s.rec.Respond(s.callersOf("abc"), Response{At: noon, Arrived: noon.Add(time.Duration(-i) * time.Second), Declared: int64(i)})
	}
	got := s.drainMerged(t)
	if s.rec.Holds() || len(got) != 2 || got[0].Holds() || got[1].Holds() || got[0].Count != 3 || got[1].Count != 3 {
		t.Errorf("got %+v, want an arrival and a response of three each, which say no more than that", got)
	}
	if r := New(Options{Holds: true}); !r.Holds() || !r.Responses() {
		t.Error("got a Recorder that holds without responses")
	}
}

func TestBoundsOfHolds(t *testing.T) {
	for name, test := range map[string]struct {
		declared int64
		arrived  time.Time
		want     schemas.Entry // of the response
	}{
		"nothing known":     {0, time.Time{}, schemas.Entry{}},
		"negative":          {-5, noon, schemas.Entry{Arrived: schemas.Tick(noon.UnixNano())}},
		"the lowest":        {math.MinInt64, noon, schemas.Entry{Arrived: schemas.Tick(noon.UnixNano())}},
		"huge":              {math.MaxInt64, noon, schemas.Entry{Arrived: schemas.Tick(noon.UnixNano()), Declared: MaxDeclared}},
		"the highest":       {MaxDeclared, noon, schemas.Entry{Arrived: schemas.Tick(noon.UnixNano()), Declared: MaxDeclared}},
		"before 1970":       {1, time.Unix(-5, 0), schemas.Entry{Declared: 1}},
		"beyond any number": {1, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), schemas.Entry{Arrived: schemas.Tick(math.MaxInt64), Declared: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(Options{Holds: true})
			s.rec.Record(s.callersOf("abc"), gate.Verdict{}, Request{At: noon, Declared: test.declared})
			s.rec.Respond(s.callersOf("abc"), Response{At: noon, Arrived: test.arrived, Declared: test.declared})
			got := s.drainMerged(t)
			if len(got) == 2 && got[0].Response {
				got[0], got[1] = got[1], got[0]
			}
			if len(got) != 2 || got[0].Arrived != schemas.Tick(noon.UnixNano()) || got[0].Declared != test.want.Declared {
				t.Fatalf("got %+v, want an arrival of noon that declares %d, and a response", got, test.want.Declared)
			}
			if e := got[1]; e.Arrived != test.want.Arrived || e.Declared != test.want.Declared {
				t.Errorf("got %+v, want arrived %d and declared %d", e, test.want.Arrived, test.want.Declared)
			}
		})
	}
}

// What a gate has refused costs nothing, whatever was expected of it.
func TestBlockedRequestsDeclareNothing(t *testing.T) {
	s, now := newServer(Options{Holds: true}), time.Now()
	s.set.Apply([]schemas.Decision{{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "abc"}, Mode: schemas.ModeEnforce,
		CloseAt: now.Add(-time.Second).UnixNano(), Until: now.Add(time.Hour).UnixNano(),
	}})
	c := s.callersOf("abc")
	s.rec.Record(c, s.set.Check(c), Request{At: now, Declared: 500})
	if got := s.drain(t); len(got) != 1 || !got[0].Blocked || got[0].Holds() {
		t.Errorf("got %+v, want a blocked request that declares nothing", got)
	}
}

// TestWhatArrivesEnds: when all requests have ended, arrivals and responses have equal sums, however they were merged. An arrival's
// tick is that of its entry's time.
func TestWhatArrivesEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newServer(Options{Holds: true, MaxEntries: 1 << 14})
		began := noon.Truncate(time.Second)
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			at := began.Add(time.Duration(rapid.IntRange(0, 2500).Draw(rt, "at")) * time.Millisecond)
			end := at.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "took")) * 10 * time.Millisecond)
			declared := rapid.SampledFrom([]int64{0, 1, 7, MaxDeclared, math.MaxInt64, -1}).Draw(rt, "declared")
			s.rec.Record(s.callersOf("abc"), gate.Verdict{}, Request{At: at, Declared: declared})
			s.rec.Respond(s.callersOf("abc"), Response{At: end, Arrived: at, Declared: declared, Cost: 1})
		}
		var n, declared, arrived, without int64
		for _, e := range s.drain(t) {
			sign, ticks := int64(1), int64(e.Count)*schemas.Tick(e.Time)
			if e.Response {
				sign, ticks = -1, e.Arrived
			}
			n += sign * int64(e.Count)
			declared += sign * e.Declared
			arrived += sign * ticks
			if e.Declared == 0 {
				without += sign * int64(e.Count)
			}
		}
		if n != 0 || declared != 0 || arrived != 0 || without != 0 {
			rt.Errorf("got %d requests, %d declared, %d ticks, %d requests without a declared cost left over, want none", n, declared, arrived, without)
		}
	})
}

func TestRecordingHoldsDoesNotAllocate(t *testing.T) {
	s := newServer(Options{Holds: true})
	if n := testing.AllocsPerRun(1000, func() {
		var c gate.Callers
		c.Add(s.keys, "abc")
		s.rec.Record(&c, gate.Verdict{}, Request{Resource: "/", At: noon, Declared: 500})
		s.rec.Respond(&c, Response{Resource: "/", At: noon.Add(time.Second), Arrived: noon, Declared: 500, Cost: 3})
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// TestChosenArrivalsDoNotMeetInAStripe: a client determines how long its requests run. Those that end in one tick, and those whose
// arrivals and ends rise together, are as far apart in a stripe as random entries.
func TestChosenArrivalsDoNotMeetInAStripe(t *testing.T) {
	const n = 8192
	s := process{gate.New(gate.Options{}), New(Options{Holds: true}), nil}
	s.key = s.set.Gate("key")
	hash := func(end, arrived time.Time, declared int64) uint64 {
		e := schemas.Entry{Time: end.UnixNano(), Arrived: schemas.Tick(arrived.UnixNano()), Declared: declared, Count: 1, Response: true}
		return combine(1, s.rec.salt(&e), false, false)
	}
	random := crowded(n, func(int) uint64 { return rand.Uint64() })
	for name, hash := range map[string]func(i int) uint64{
		"arrivals": func(i int) uint64 { return hash(noon, noon.Add(-time.Duration(i)*time.Second), 1) },
		"arrivals and ends": func(i int) uint64 {
			return hash(noon.Add(time.Duration(i)*time.Second), noon.Add(time.Duration(i)*time.Second), 1)
		},
		"declared or not": func(i int) uint64 { return hash(noon, noon.Add(-time.Duration(i/2)*time.Second), int64(i%2)) },
		"ends, and 90 arrivals each": func(i int) uint64 {
			return hash(noon.Add(time.Duration(i/90)*10*time.Millisecond), noon.Add(-time.Duration(i%90)*time.Second), 1)
		},
	} {
		if got := crowded(n, hash); got > 2*random {
			t.Errorf("%s: got %d of %d hashes that share their place, want at most %d, twice as many as of random ones", name, got, n, 2*random)
		}
	}
}

// BenchmarkHolds is a request and its response by a Recorder that holds, and by one that does not.
func BenchmarkHolds(b *testing.B) {
	for _, o := range []Options{{Responses: true}, {Holds: true}} {
		b.Run(fmt.Sprintf("holds=%v", o.Holds), func(b *testing.B) {
			s := newServer(o)
			b.ReportAllocs()
			for b.Loop() {
				var c gate.Callers
				c.Add(s.keys, "abc")
				s.rec.Record(&c, gate.Verdict{}, Request{Resource: asked, At: noon, Declared: 500})
				s.rec.Respond(&c, Response{Resource: asked, At: noon, Arrived: noon, Declared: 500, Cost: 3})
			}
		})
	}
}
