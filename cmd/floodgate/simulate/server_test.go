package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"pgregory.net/rapid"
)

// rulesOf returns the rules of one limit of requests in a fixed window.
func rulesOf(t testing.TB, limit int, window, more string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("test", []byte(ruleText(limit, window, more)))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// worldOf returns a world with nothing in it but servers and partitions.
func worldOf(t testing.TB, servers, partitions int) *world {
	t.Helper()
	sim, err := New(Config{
		Rules: rulesOf(t, 100, "1s", fixed1), Start: start, Servers: servers, Partitions: partitions, Lag: LagOf(50 * ms), Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return sim.w
}

// TestFramesDoNotDependOnTheRecorder: however its stripes have split and ordered the requests of a flush, the entries are the
// same.
func TestFramesDoNotDependOnTheRecorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := rapid.Custom(func(t *rapid.T) schemas.Entry {
			if rapid.Bool().Draw(t, "response") {
				return schemas.Entry{
					Time: start + rapid.Int64Range(0, 30).Draw(t, "ms")*int64(ms), Kind: Kind, ID: "a", Count: 1, Response: true,
					Status: rapid.SampledFrom([]uint16{0, 200}).Draw(t, "status"), Cost: rapid.Int64Range(0, 9).Draw(t, "cost"),
					Arrived:  schemas.Tick(start) + rapid.Int64Range(-150, 50).Draw(t, "arrived"),
					Declared: rapid.SampledFrom([]int64{0, 0, 5}).Draw(t, "declared"),
				}
			}
			return schemas.Entry{
				Time: start + rapid.Int64Range(0, 30).Draw(t, "ms")*int64(ms), Kind: Kind, Count: 1,
				ID:       rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"),
				Resource: rapid.SampledFrom([]string{"", "/x"}).Draw(t, "resource"),
				Blocked:  rapid.Bool().Draw(t, "blocked"),
			}
		})
		requests := rapid.SliceOfN(request, 1, 20).Draw(t, "requests")
		want := inOrder(slices.Clone(requests))
		shuffled := rapid.Permutation(requests).Draw(t, "order")
		for range rapid.IntRange(0, 3).Draw(t, "merges") { // a recorder has merged two of them already
			i := rapid.IntRange(0, len(shuffled)-1).Draw(t, "merged")
			for j := range shuffled {
				a, b := &shuffled[i], &shuffled[j]
				if i != j && a.ID == b.ID && a.Resource == b.Resource && a.Blocked == b.Blocked && a.Time/mergeTick == b.Time/mergeTick &&
					a.Response == b.Response && a.Status == b.Status && a.Arrived/int64(a.Count)/100 == b.Arrived/int64(b.Count)/100 &&
					(a.Declared == 0) == (b.Declared == 0) {
					a.Time, a.Count = max(a.Time, b.Time), a.Count+b.Count
					a.Cost, a.Arrived, a.Declared = a.Cost+b.Cost, a.Arrived+b.Arrived, a.Declared+b.Declared
					shuffled = slices.Delete(shuffled, j, j+1)
					break
				}
			}
		}
		if got := inOrder(shuffled); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		total, before, sums := uint32(0), int64(0), [3]int64{}
		for _, e := range requests {
			sums[0], sums[1], sums[2] = sums[0]+e.Cost, sums[1]+e.Arrived, sums[2]+e.Declared
		}
		for _, e := range want {
			sums[0], sums[1], sums[2] = sums[0]-e.Cost, sums[1]-e.Arrived, sums[2]-e.Declared
			if total += e.Count; e.Time < before {
				t.Fatalf("got %v, want them in order of time", want)
			}
			before = e.Time
		}
		if int(total) != len(requests) || sums != [3]int64{} {
			t.Fatalf("got %d requests of %d, and %d too little of cost, arrivals and what is declared", total, len(requests), sums)
		}
	})
}

// TestEntriesThatDifferStayApart: admitted, blocked and blocked early, and canaries.
func TestEntriesThatDifferStayApart(t *testing.T) {
	e := schemas.Entry{Time: start, Kind: Kind, ID: "a", Count: 1}
	blocked, early, canary := e, e, e
	blocked.Blocked, early.Blocked, early.Early = true, true, true
	canary.Kind = schemas.KindCanary
	if got := inOrder([]schemas.Entry{e, canary, early, blocked, canary, early, blocked, e}); len(got) != 5 {
		t.Errorf("got %d entries, want 5: two of canaries, and one of each of the others: %v", len(got), got)
	}
}

// TestARecorderKeepsEarlyApart: what a gate refuses by a predicted closure reaches the frame as early, so that the fold sees it.
func TestARecorderKeepsEarlyApart(t *testing.T) {
	w := worldOf(t, 1, 1)
	s := w.servers[0]
	s.set.ApplyAt(time.Unix(0, start), []schemas.Decision{{
		Rule: "limit", Caller: schemas.Caller{Kind: Kind, ID: "c"}, Mode: schemas.ModeEnforce, CloseAt: start, Until: start + int64(time.Second), Early: true,
	}})
	if v := s.request(&Request{At: start, Callers: []schemas.Caller{{Kind: Kind, ID: "c"}}}); !v.Closed {
		t.Fatal("got the request admitted")
	}
	var got []schemas.Entry
	s.recorder.Acked(s.recorder.Drain(func(_ uint64, e *schemas.Entry) { got = append(got, *e) }))
	if len(got) != 1 || !got[0].Blocked || !got[0].Early {
		t.Errorf("got %+v, want one entry that was blocked early", got)
	}
}

// TestARecorderWithoutRoomEndsTheRun: which entries it would lose depends on the process.
func TestARecorderWithoutRoomEndsTheRun(t *testing.T) {
	w := worldOf(t, 1, 1)
	s := w.servers[0]
	s.recorder = record.New(record.Options{MaxEntries: 1})
	for i := range 10_000 {
		s.request(&Request{At: start, Callers: []schemas.Caller{{Kind: Kind, ID: names("c", i+1)[i]}}})
		if i > 1100 {
			break // more than the stripes have room for
		}
	}
	s.checkRecorder()
	if w.err == nil || !strings.Contains(w.err.Error(), "has dropped") {
		t.Errorf("got %v, want that requests were dropped", w.err)
	}
}

// TestCanariesMeasureTheLag: from the server's clock to the server's clock, so that skew does not matter, and each carries what
// its sender measured last.
func TestCanariesMeasureTheLag(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Second} {
		sim, err := New(Config{
			Rules: rulesOf(t, 100, "1s", fixed1), Start: start, Servers: 3, Partitions: 2, Lag: LagOf(200 * ms), Skew: skew, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		w := sim.w
		w.advance(start + int64(10*time.Second))
		for i, s := range w.servers {
			if lag := time.Duration(s.lag); lag < 180*ms || lag > 225*ms {
				t.Errorf("skew %v, server %d: got a lag of %v, want some 203 ms: all ways, and a whole flush", skew, i, lag)
			}
			if s.probes != 10 && s.probes != 11 {
				t.Errorf("skew %v, server %d: got %d canaries in 10 s, want one a second", skew, i, s.probes)
			}
		}
		if n := len(sim.m.result.lags); n < 25 || n > 33 {
			t.Errorf("skew %v: got %d answers to 3 × 10 canaries", skew, n)
		}
	}
}

// TestCanariesOfAPartitionBelongToIt, or the fold would refuse them.
func TestCanariesOfAPartitionBelongToIt(t *testing.T) {
	w := worldOf(t, 2, 5)
	for _, s := range w.servers {
		for p, id := range s.canaries {
			if got := schemas.Partition(w.key.Hash(schemas.KindCanary, id), 5); got != p {
				t.Errorf("canary %s is of partition %d, want %d", id, got, p)
			}
		}
	}
}

// TestManyEntriesTakeSeveralFrames, and none is lost.
func TestManyEntriesTakeSeveralFrames(t *testing.T) {
	w := worldOf(t, 1, 1)
	resource := strings.Repeat("/long", 50) // each request has one of its own
	var c [1]schemas.Caller
	const n = 6_000
	for i, id := range names("c", n) {
		c[0] = schemas.Caller{Kind: Kind, ID: id}
		w.request(&Request{At: start + int64(i), Callers: c[:], Resource: id + resource[len(id):]})
	}
	w.advance(start + int64(time.Second))
	if w.err != nil {
		t.Fatal(w.err)
	}
	st := w.partitions[0].fold.Stats()
	if st.Requests != n || st.Frames < 2 || len(st.Rejected) > 0 {
		t.Errorf("got %d requests in %d frames, %v rejected; want %d in several frames", st.Requests, st.Frames, st.Rejected, n)
	}
}

// TestAServerKeepsTheVerdictOfTheRealSet: the gate package decides, at the time of the server's clock.
func TestAServerKeepsTheVerdictOfTheRealSet(t *testing.T) {
	w := worldOf(t, 2, 1)
	w.servers[1].skew = int64(time.Second)
	d := schemas.Decision{
		Rule: "limit", Caller: schemas.Caller{Kind: Kind, ID: "c"}, Mode: schemas.ModeEnforce,
		CloseAt: start + int64(time.Second), Until: start + int64(2*time.Second),
	}
	for i, s := range w.servers {
		s.receive(&published{decisions: []schemas.Decision{d}})
		v := s.request(&Request{At: start, Callers: []schemas.Caller{{Kind: Kind, ID: "c"}}})
		if want := i == 1; v.Closed != want {
			t.Errorf("server %d: got closed %t, want %t: its clock shows %v", i, v.Closed, want, time.Duration(s.clock()-start))
		}
	}
	if got := w.servers[0].set.Mode(); got != gate.Enforce {
		t.Errorf("got mode %v", got)
	}
}

// TestResponsesFollowTheirRequests: an arrival is recorded at once, and the response when the request ends, with the time of the arrival, and
// what was declared, by the clock of the server.
func TestResponsesFollowTheirRequests(t *testing.T) {
	const skew = 3 * time.Second
	sim, err := New(Config{
		Rules: rulesOf(t, 100, "1s", fixed1), Start: start, Servers: 1, Partitions: 1, Lag: LagOf(50 * ms), Responses: true, Holds: true, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	w, seen := sim.w, &entries{measuring: sim.m}
	w.watch, w.servers[0].skew = seen, int64(skew)
	w.request(&Request{
		At: start, Callers: []schemas.Caller{{Kind: Kind, ID: "c"}}, Resource: "/x", Status: 200, Cost: 70, Declared: 90, Duration: 2 * time.Second,
	})
	w.advance(start + int64(1900*ms))
	if got := seen.of("c"); len(got) != 1 || got[0].Response || got[0].Declared != 90 || got[0].Time != start+int64(skew) || got[0].Arrived != schemas.Tick(start+int64(skew)) {
		t.Fatalf("got %+v before the end, want the arrival", got)
	}
	w.advance(start + int64(2100*ms))
	want := schemas.Entry{
		Time: start + int64(skew+2*time.Second), Kind: Kind, ID: "c", Resource: "/x", Count: 1, Response: true, Status: 200, Cost: 70,
		Arrived: schemas.Tick(start + int64(skew)), Declared: 90,
	}
	if got := seen.of("c"); len(got) != 2 || got[1] != want {
		t.Errorf("got %+v, want the response %+v", got, want)
	}
	if w.err != nil {
		t.Error(w.err)
	}
}

// TestDurationsMeanNothingWithoutResponses: no response waits.
func TestDurationsMeanNothingWithoutResponses(t *testing.T) {
	w := worldOf(t, 1, 1)
	request := func(d time.Duration) int {
		w.request(&Request{At: start, Callers: []schemas.Caller{{Kind: Kind, ID: "c"}}, Duration: d})
		return w.events.Len()
	}
	if first, second := request(0), request(time.Hour); second != first {
		t.Errorf("got %d events, then %d, want no more: the flush is planned", first, second)
	}
}

// TestARefusedRequestHasNoResponse, however long it would have lasted.
func TestARefusedRequestHasNoResponse(t *testing.T) {
	sim, err := New(Config{
		Rules: rulesOf(t, 100, "1s", fixed1), Start: start, Servers: 1, Partitions: 1, Lag: LagOf(50 * ms), Responses: true, Holds: true, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	w, seen := sim.w, &entries{measuring: sim.m}
	w.watch = seen
	w.servers[0].set.ApplyAt(time.Unix(0, start), []schemas.Decision{{
		Rule: "limit", Caller: schemas.Caller{Kind: Kind, ID: "c"}, Mode: schemas.ModeEnforce, CloseAt: start, Until: start + int64(time.Second),
	}})
	w.request(&Request{At: start, Callers: []schemas.Caller{{Kind: Kind, ID: "c"}}, Cost: 70, Declared: 90, Duration: 500 * ms})
	w.advance(start + int64(time.Second))
	if got := seen.of("c"); len(got) != 1 || !got[0].Blocked || got[0].Declared != 0 {
		t.Errorf("got %+v, want the arrival, blocked", got)
	}
}

// entries is a watcher that keeps what servers send.
type entries struct {
	*measuring
	list []schemas.Entry
}

func (e *entries) sent(list []schemas.Entry) { e.list = append(e.list, list...) }

// of returns the entries of one caller.
func (e *entries) of(id string) (list []schemas.Entry) {
	for i := range e.list {
		if e.list[i].ID == id {
			list = append(list, e.list[i])
		}
	}
	return list
}
