package fold

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// TestSteadyInnocentsAreNotPredicted: a caller that sends evenly 50 to 90 percent of a limit, with some jitter, is never closed, early or not.
func TestSteadyInnocentsAreNotPredicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom([]string{"1s", "10s"}).Draw(t, "window")
		algorithm := rapid.SampledFrom([]string{"algorithm: fixed", "slots: 20", "slots: 100", "algorithm: log"}).Draw(t, "algorithm")
		share := rapid.IntRange(50, 90).Draw(t, "percent")
		f := New(foldtest.Rules(t, fmt.Sprintf("{name: r, callers: key, limit: 1000, window: %s, %s}", length, algorithm)), Options{Predict: rules.PredictEarly})
		window, err := time.ParseDuration(length)
		if err != nil {
			t.Fatal(err)
		}
		every := int64(window) * 100 / int64(share) / 1000
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		lag := rapid.Int64Range(1, 200).Draw(t, "lag in ms") * millisecond
		for n := range int64(3000) {
			now := frameNow + n*every
			f.Measure(now, lag)
			f.Entry(&schemas.Entry{Time: now + rng.Int64N(every), Kind: "key", ID: "a", Count: 1})
			if n%3 == 0 {
				if plans, changes := f.TakePlans(), f.TakeChanges(); len(plans)+len(changes) > 0 {
					t.Fatalf("request %d: got plans %+v and changes %+v, want none", n, plans, changes)
				}
			}
		}
	})
}

// TestBurstsThatFallShort: an attacker who has read the source sends until a close is predicted, then stops. The close ends by
// itself, nothing is counted against the caller, and the next one is not predicted for twice that time; the row is counted as
// before. When the attacker then goes over the limit, the caller is closed by count.
func TestBurstsThatFallShort(t *testing.T) {
	l := newLoop(t, 100*time.Millisecond, 10*time.Second, "{name: r, callers: key, limit: 1000, window: 10s, algorithm: fixed}")
	l.fold.Measure(l.now, l.lag)
	burst := func(n int) bool { // 2000/s until a close is predicted, or n are sent
		had := len(l.plans)
		for range n {
			l.now += second / 2000
			l.fold.Measure(l.now, l.lag)
			l.request(l.now)
			if l.flush(); len(l.plans) > had {
				return true
			}
		}
		return false
	}
	if !burst(1000) || len(l.changes) > 0 {
		t.Fatalf("got %d plans and changes %v, want a burst to be predicted", len(l.plans), l.changes)
	}
	first := l.plans[0].Decision
	if held := time.Duration(first.Until - first.CloseAt); held > 250*ms {
		t.Errorf("got an early close of %v, want one and a half lags and the margin at most", held)
	}
	l.now = first.Until + 20*millisecond
	l.request(l.now) // open again: it ends by itself
	if l.early > 0 || len(l.changes) > 0 {
		t.Errorf("got %d blocked and changes %v after the early close has ended, want none", l.early, l.changes)
	}
	if burst(60) {
		t.Error("got another plan while the caller rests, want none")
	}
	l.now = first.Until + 600*millisecond
	if closed := len(l.changes); !burst(100) && len(l.changes) == closed {
		t.Error("got no plan after the rest, and no close by count, want one of them")
	}
}

// TestNoInnocentIsHeldLonger: whatever comes on and off in whatever time, no early close holds a caller longer than it may, and with
// its gaps, and none follows it at once unless demand is there.
func TestNoInnocentIsHeldLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLoop(t, time.Duration(rapid.IntRange(5, 200).Draw(t, "lag in ms"))*ms, time.Second,
			"{name: r, callers: key, limit: 1000, window: 1s, algorithm: fixed}")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		hold := int64(float64(l.lag)*1.5) + 10*millisecond + 1
		for range rapid.IntRange(1, 12).Draw(t, "phases") {
			l.run(rng, float64(rapid.IntRange(1, 4000).Draw(t, "rate")), 1)
		}
		for _, p := range l.plans {
			span := p.Decision.Next
			if p.Decision.Early {
				span = schemas.Span{CloseAt: p.Decision.CloseAt, Until: p.Decision.Until}
			}
			if span.Until-span.CloseAt > hold {
				t.Fatalf("got %v, want at most %v", time.Duration(span.Until-span.CloseAt), time.Duration(hold))
			}
		}
	})
}

// maxTrackers is how many rows are tracked at a time.
const maxTrackers = 65_536

// crowd is a fold in which n callers have sent so much of their limit of 100 in an hour.
func crowd(t *testing.T, n int, share int64) *Fold {
	t.Helper()
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 100, window: 1h, algorithm: fixed}"), Options{Predict: rules.PredictEarly, NoStore: true})
	for i := range n {
		f.Measure(frameNow, 100*millisecond)
		f.Entry(&schemas.Entry{Time: frameNow + int64(i), Kind: "key", ID: fmt.Sprint("crowd", i), Count: uint32(share)})
	}
	return f
}

// TestAFloodOfCallersAtHalfTheirLimit: an attacker has more callers at half of their limits than there are trackers. Their number
// stays bounded, one who comes nearer to the limit takes the place of one of them, and one who does not takes none. What is not tracked
// is counted and closed as ever.
func TestAFloodOfCallersAtHalfTheirLimit(t *testing.T) {
	f := crowd(t, maxTrackers+1000, 60)
	if got := f.Stats().Tracked; got != maxTrackers {
		t.Fatalf("got %d tracked, want %d", got, maxTrackers)
	}
	isTracked := func(id string, count uint32) bool {
		f.Measure(f.table.now, 100*millisecond)
		f.Entry(&schemas.Entry{Time: f.table.now + 1, Kind: "key", ID: id, Count: count})
		f.checkTrackers(t)
		i, _ := f.table.find(rowHash(f.table.ids.hash(id), 0), 0, id)
		return f.table.row(i).flags&tracked != 0
	}
	if isTracked("below", 51) || isTracked("as near", 60) {
		t.Error("a caller below those who are tracked, or as near as they are: got a tracker, want none")
	}
	if !isTracked("offender", 90) {
		t.Error("a caller at 90 of 100: got no tracker, want one")
	}
	f.TakeChanges()
	f.Entry(&schemas.Entry{Time: f.table.now + 1, Kind: "key", ID: "below", Count: 49})
	if c := f.TakeChanges(); len(c) != 1 {
		t.Errorf("got changes %+v of the caller without a tracker, want a close", c)
	}
}

// checkTrackers checks the table of trackers against the rows.
func (f *Fold) checkTrackers(t foldtest.T) {
	t.Helper()
	n := 0
	f.table.each(func(_ uint32, r *row) bool {
		if r.flags&tracked != 0 {
			n++
		}
		if d, has := f.table.sides.earlyWeights[r]; has != (r.flags&hasEarly != 0) || has && d.total() == 0 {
			t.Fatalf("row %s: got demand %+v", r.id, d)
		}
		return true
	})
	if got := f.Stats().Tracked; got > n || got > maxTrackers {
		t.Fatalf("got %d rows with trackers, want at most the %d that may have one", got, n)
	}
}

// TestTrackersTakeLittleMemory: at most 160 bytes each, with their places in the table.
func TestTrackersTakeLittleMemory(t *testing.T) {
	allocated := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	f := crowd(t, maxTrackers, 60)
	with := allocated()
	f.predict = predict.New(f.opts.predict(), f.table.predictRow)
	f.table.predict = f.predict
	if each := (with - allocated()) / maxTrackers; each > 160 {
		t.Errorf("got %d bytes for a tracker, want at most 160", each)
	}
	runtime.KeepAlive(f)
}

// TestTrackersGoWithTheirRows: rows that are displaced, dropped, moved to another table, or far from their limit for long.
func TestTrackersGoWithTheirRows(t *testing.T) {
	rule := "{name: r, callers: key, limit: 100, window: 10s, algorithm: fixed}"
	full := func(t *testing.T) *Fold {
		t.Helper()
		f := New(foldtest.Rules(t, rule), Options{Predict: rules.PredictEarly, MaxRows: 40})
		for i := range 40 {
			f.Measure(frameNow, 100*millisecond)
			f.Entry(&schemas.Entry{Time: frameNow, Kind: "key", ID: fmt.Sprint(i), Count: 60})
		}
		return f
	}
	for name, test := range map[string]struct {
		does func(f *Fold)
		want int
	}{
		"nothing":                   {func(*Fold) {}, 40},
		"others reach their limits": {func(f *Fold) { rowEntry(f, frameNow, "offender", 100) }, 40}, // of 39 rows, and the offender's
		"rules of no change":        {func(f *Fold) { f.SetRules(f.Rules()) }, 40},
		"another limit": {func(f *Fold) {
			f.SetRules(foldtest.Rules(t, "{name: r, callers: key, limit: 90, window: 10s, algorithm: fixed}"))
		}, 0},
		"no rule":           {func(f *Fold) { f.SetRules(foldtest.Rules(t, "{name: s, callers: key, limit: 90, window: 10s}")) }, 0},
		"fewer rows":        {func(f *Fold) { f.table.maxRows = 10; f.table.trim(); f.table.reschedule() }, 10},
		"their rows expire": {func(f *Fold) { f.Advance(frameNow + hour) }, 0},
		"they rest": {func(f *Fold) {
			for n := range int64(30) {
				f.Measure(frameNow+(12+n)*second, 100*millisecond)
				rowEntry(f, frameNow+(12+n)*second, "0", 9) // 90 in each window
				f.TakePlans()
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := full(t)
			test.does(f)
			f.checkTrackers(t)
			f.TakePlans()
			f.checkTrackers(t)
			if got := f.Stats().Tracked; got != test.want {
				t.Errorf("got %d trackers, want %d", got, test.want)
			}
		})
	}
}
