package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"pgregory.net/rapid"
)

// appendFrame appends a frame of one request of each caller to a partition now.
func appendFrame(t *testing.T, w *world, seq uint64, ids ...string) {
	t.Helper()
	f := schemas.Frame{
		Producer: schemas.ProducerID{1}, Seq: seq, Flushed: w.now, Partitions: uint32(len(w.partitions)), Fingerprint: w.key.Fingerprint(),
	}
	for _, id := range ids {
		f.Entries = append(f.Entries, schemas.Entry{Time: w.now, Kind: Kind, ID: id, Count: 100})
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.partitions[0].append(w.now, value)
}

// still returns a world of one server and one partition whose ways take exactly these times.
func still(t *testing.T, l Lag) *world {
	t.Helper()
	sim, err := New(Config{Rules: rulesOf(t, 100, "1m", fixed1), Start: start, Servers: 1, Partitions: 1, Lag: l, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return sim.w
}

// closedAt returns when each caller's gate was first closed, asked each millisecond until the end.
func closedAt(w *world, until time.Duration, ids ...string) map[string]time.Duration {
	at := map[string]time.Duration{}
	for ; w.now < start+int64(until); w.advance(w.now + int64(ms)) {
		for _, id := range ids {
			s := w.servers[0]
			if l := s.closures.of[closureKey{"limit", schemas.Caller{Kind: Kind, ID: id}}]; l != nil && at[id] == 0 {
				at[id] = time.Duration(w.now - start)
			}
		}
	}
	return at
}

// TestADecisionTakesAllWays: from the log to the analyzer, a produce, and to the gate.
func TestADecisionTakesAllWays(t *testing.T) {
	w := still(t, Lag{ToAnalyzer: 10 * ms, Publish: 20 * ms, ToGate: 30 * ms})
	appendFrame(t, w, 1, "a")
	if got := closedAt(w, 200*ms, "a")["a"]; got != 60*ms {
		t.Errorf("got a decision after %v, want 60 ms", got)
	}
}

// TestOneProduceIsInFlight: what changes meanwhile goes out together when it is acknowledged.
func TestOneProduceIsInFlight(t *testing.T) {
	w := still(t, Lag{ToAnalyzer: ms, Publish: 50 * ms, ToGate: ms})
	ids := []string{"a", "b", "c", "d"}
	for i, id := range ids {
		appendFrame(t, w, uint64(i+1), id)
		w.advance(w.now + int64(10*ms))
	}
	w.servers[0].closures = closures{}
	at := closedAt(w, 400*ms, ids...)
	times := map[time.Duration]int{}
	for _, when := range at {
		times[when]++
	}
	if at["a"] != 52*ms || at["b"] != 102*ms || at["c"] != at["b"] || at["d"] != at["b"] || len(times) != 2 {
		t.Errorf("got %v, want a after 52 ms, and the others together 50 ms later", at)
	}
}

// TestRecordsOfOneInstantAreOneBatch: the decisions about them go out together.
func TestRecordsOfOneInstantAreOneBatch(t *testing.T) {
	w := still(t, Lag{ToAnalyzer: ms, Publish: 50 * ms, ToGate: ms})
	for i := range 5 {
		appendFrame(t, w, uint64(i+1), fmt.Sprint(i))
	}
	at := closedAt(w, 100*ms, "0", "1", "2", "3", "4")
	for id, when := range at {
		if when != 52*ms {
			t.Errorf("caller %s: got a decision after %v, want all of them after 52 ms", id, when)
		}
	}
	if len(at) != 5 {
		t.Errorf("got %d closed, want 5", len(at))
	}
}

// TestAProduceIsBounded, and what does not fit goes with the next one.
func TestAProduceIsBounded(t *testing.T) {
	w := still(t, Lag{ToAnalyzer: ms, Publish: 10 * ms, ToGate: ms})
	ids := names("c", maxProduce+500)
	appendFrame(t, w, 1, ids...)
	at := closedAt(w, 100*ms, ids...)
	counts := map[time.Duration]int{}
	for _, when := range at {
		counts[when]++
	}
	if counts[12*ms] != maxProduce || counts[22*ms] != 500 {
		t.Errorf("got %v decisions by time, want %d after 12 ms and 500 after 22 ms", counts, maxProduce)
	}
}

// TestADamagedFrameEndsTheRun: the simulation has no other frames than its own, so it would be a mistake of ours.
func TestADamagedFrameEndsTheRun(t *testing.T) {
	w := still(t, Lag{})
	w.partitions[0].append(start, []byte("garbage"))
	w.advance(start + int64(time.Second))
	if w.err == nil {
		t.Error("got no error")
	}
}

// TestNobodyGetsMoreThanTheLagAllows: with whatever rule, traffic, lag and servers, a caller gets over its limit by no more than it
// sends while a decision is under way; and one that never reaches it is never closed by a count.
func TestNobodyGetsMoreThanTheLagAllows(t *testing.T) {
	testenv.Long(t)
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(5, 200).Draw(t, "limit")
		rate := rapid.Float64Range(1, 500).Draw(t, "rate")
		lag := time.Duration(rapid.IntRange(1, 300).Draw(t, "lag")) * ms
		o := Options{
			Lag: lag, Servers: rapid.IntRange(1, 4).Draw(t, "servers"), Seed: rapid.Uint64().Draw(t, "seed"), Duration: 3 * time.Second,
			Predict: rapid.SampledFrom([]rules.Predict{rules.PredictOff, rules.PredictEarly, rules.PredictShares}).Draw(t, "predict"),
		}
		more := rapid.SampledFrom([]string{fixed1, "", ", algorithm: log"}).Draw(t, "algorithm")
		s := Scenario{
			Name: "drawn", Rules: ruleText(limit, "1s", more), lag: lag, servers: 1, duration: o.Duration,
			streams: func() []stream { return []stream{{id: "c", peak: rate, even: true}} },
		}
		r, err := s.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Rules[0]
		longest := 1.5*lag.Seconds() + 3*maxFlush.Seconds() // the ways vary by a tenth, and a decision may wait for another
		if over := float64(got.MostOver); over > rate*longest+2 {
			t.Errorf("got %v requests over, want at most %v a second for %v s", over, rate, longest)
		}
		if got.Innocents == 1 && o.Predict == rules.PredictOff && (got.InnocentsClosed != 0 || r.Admitted != r.Requests) {
			t.Errorf("got an innocent closed: %+v", got)
		}
		if r.Admitted > r.Requests || got.SyncShare > 1+2/float64(limit) {
			t.Errorf("got %d of %d admitted, and %v by the synchronous limiter", r.Admitted, r.Requests, got.SyncShare)
		}
	})
}

// TestReactiveInnocentsAreNeverClosed, whatever fails: only what was counted closes.
func TestReactiveInnocentsAreNeverClosed(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	for _, name := range []string{"innocents-10s", "lag-jump", "stop"} {
		r := run(t, name, Options{Duration: 30 * time.Second, Predict: rules.PredictOff}, 1)
		if got := r.Rules[0]; got.Innocents == 0 || got.InnocentsClosed != 0 || got.InnocentsBlocked != 0 || got.InnocentLongest != 0 {
			t.Errorf("%s: got %d of %d innocents closed, %v of their requests blocked, for up to %v s", name, got.InnocentsClosed, got.Innocents,
				got.InnocentsBlocked, got.InnocentLongest)
		}
	}
}

// TestReopeningIsOnTime: the gates of short closures reopen when the window does, so that sliding windows admit what a loop
// without jitter would: 543 of 500 a second in B, reactive.
func TestReopeningIsOnTime(t *testing.T) {
	r := run(t, "B-20", Options{Predict: rules.PredictOff}, 1, 2)
	if got := 500 * r.Rules[0].AdmittedShare; got < 530 || got > 556 {
		t.Errorf("got %.0f requests a second, want 543", got)
	}
}

// TestARestartCountsTheLogAgain: another analyzer takes over, with nothing but the log. It has counted the same, and what gates hold
// closed stays closed.
func TestARestartCountsTheLogAgain(t *testing.T) {
	restart := Stop{From: 5700 * ms, For: 150 * ms}
	sim, err := New(Config{
		Rules: rulesOf(t, 1000, "1s", fixed1), Predict: rules.PredictEarly, Start: start, Servers: 2, Partitions: 1, Lag: LagOf(50 * ms), Seed: 1,
		Restarts: []Stop{restart},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := sim.w.partitions[0]
	first := p.fold
	bySecond := admitted(t, sim, restart.From+100*ms)
	if p.fold != first || p.fold.LogTime() > start+int64(restart.From) {
		t.Fatal("got entries counted while no analyzer runs")
	}
	before, offset := first.Digest(p.fold.LogTime()), len(p.counted)
	sim.w.advance(start + int64(restart.From+restart.For) - 1)
	if p.fold != first || len(p.counted) != offset {
		t.Fatal("got another analyzer too early")
	}
	again := p.newFold()
	for _, rec := range p.counted {
		if err := again.Frame(rec); err != nil {
			t.Fatal(err)
		}
	}
	if got := again.Digest(first.LogTime()); got != before {
		t.Errorf("got the digest %x from the log again, want %x", got, before)
	}
	for second, n := range admitted(t, sim, 12*time.Second) {
		bySecond[second] += n
	}
	if p.fold == first || len(p.counted) <= offset {
		t.Fatal("got the same analyzer after the restart")
	}
	for second := int64(2); second < 12; second++ {
		if n := bySecond[second]; n < 980 || n > 1120 {
			t.Errorf("second %d: got %d admitted, want about 1000", second, n)
		}
	}
}
