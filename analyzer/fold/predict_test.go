package fold

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// predictedRules is a rule of each algorithm, and one in shadow mode.
func predictedRules(t foldtest.T) *rules.Set {
	t.Helper()
	return foldtest.Rules(t,
		"{name: fixed, callers: key, limit: 100, window: 1s, algorithm: fixed}",
		"{name: sliding, callers: key, limit: 150, window: 2s, slots: 10, close_for: 3s, escalate: {factor: 2, max: 1m, forget: 5s}}",
		"{name: log, callers: key, limit: 60, window: 1s, algorithm: log}",
		"{name: bucket, callers: key, limit: 100, window: 1s, algorithm: gcra, burst: 20}",
		"{name: shadow, callers: key, limit: 80, window: 1s, algorithm: fixed, mode: shadow}")
}

// drawTraffic draws entries of a few callers by servers whose clocks differ, in frames of 5 ms, with canaries: admitted, blocked
// and blocked early, at rates that change.
func drawTraffic(t *rapid.T) []Record {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	skew := rapid.Int64Range(0, 60).Draw(t, "skew in ms") * millisecond
	lag := rapid.Int64Range(1, 300).Draw(t, "lag in ms") * millisecond
	var log []Record
	var seqs [2]uint64
	rates := [3]float64{}
	for n := range rapid.IntRange(20, 400).Draw(t, "frames") {
		now := frameNow + int64(n)*5*millisecond
		if n%50 == 0 {
			for i := range rates {
				rates[i] = float64(rng.IntN(400))
			}
		}
		server := rng.IntN(2)
		var entries []schemas.Entry
		for i, rate := range rates {
			for range int(rate/200 + rng.Float64()) {
				e := schemas.Entry{Time: now - int64(server)*skew - rng.Int64N(5*millisecond), Kind: "key", ID: fmt.Sprint(i), Count: 1}
				e.Blocked = rng.IntN(4) == 0
				e.Early = e.Blocked && rng.IntN(2) == 0
				entries = append(entries, e)
			}
		}
		if n%20 == 0 {
			entries = append(entries, schemas.Entry{Time: now, Kind: schemas.KindCanary, ID: "c", Count: 1, Cost: max(1, lag+rng.Int64N(millisecond))})
		}
		seqs[server]++
		fr := foldtest.Frame(seqs[server], now, entries...)
		fr.Producer = foldtest.Producer(server + 1)
		log = append(log, Record{Offset: int64(n), Time: now, Value: foldtest.Encode(t, fr)})
	}
	return log
}

// changeTexts says what changed, but for what depends on predictions.
func changeTexts(changes []Change) []string {
	var list []string
	for _, c := range changes {
		list = append(list, fmt.Sprintf("%s %s %v %v %+v %d %d", c.Rule.Name, c.Caller, c.Kind, c.Warn, c.Closure, c.Count.Total, c.Offset))
	}
	return list
}

// TestPredictionChangesNoCount: off or early, killed and restored in the middle of a window or not, and whatever the batches after
// which plans are taken: one log gives the same changes, the same rows and the same digest.
func TestPredictionChangesNoCount(t *testing.T) {
	testenv.Fewer(t, 25)
	set := predictedRules(t)
	rapid.Check(t, func(t *rapid.T) {
		log := drawTraffic(t)
		off, early, killed := New(set, Options{}), New(set, Options{Predict: rules.PredictShares}), New(set, Options{Predict: rules.PredictEarly})
		var kept fakeStore
		committed := 0
		var want [][]string
		for i, rec := range log {
			if err := cmp.Or(off.Frame(rec), early.Frame(rec)); err != nil {
				t.Fatal(err)
			}
			want = append(want, changeTexts(off.TakeChanges()))
			if got := changeTexts(early.TakeChanges()); !slices.Equal(got, want[i]) {
				t.Fatalf("record %d: got changes %q, want %q", i, got, want[i])
			}
			if rapid.IntRange(0, 3).Draw(t, "batch ends") == 0 {
				early.TakePlans()
			}
		}
		for i := 0; i < len(log); i++ {
			if err := killed.Frame(log[i]); err != nil {
				t.Fatal(err)
			}
			if got := changeTexts(killed.TakeChanges()); !slices.Equal(got, want[i]) {
				t.Fatalf("record %d: got changes %q after a restart, want %q", i, got, want[i])
			}
			killed.TakePlans()
			switch rapid.IntRange(0, 40).Draw(t, "then") {
			case 0:
				kept.commit(t, killed)
				committed = i + 1
			case 1:
				killed, i = kept.restore(t, set, killed.opts), committed-1
			}
		}
		at := off.LogTime()
		if got, want := early.Digest(at), off.Digest(at); got != want {
			t.Fatalf("got digest %#x early, want %#x", got, want)
		}
		if got, want := killed.Digest(at), off.Digest(at); got != want {
			t.Fatalf("got digest %#x restored, want %#x", got, want)
		}
		if got, want := rowsOf(early), rowsOf(off); !slices.Equal(got, want) {
			t.Fatalf("got rows %q, want %q", got, want)
		}
	})
}

// TestPlansAreOrdered: a plan begins after what the window is known for and ends, its spans are in order and apart, and an early
// close lasts no longer than it may.
func TestPlansAreOrdered(t *testing.T) {
	set := predictedRules(t)
	plans := 0
	rapid.Check(t, func(t *rapid.T) {
		f := New(set, Options{Predict: rules.PredictEarly})
		for _, rec := range drawTraffic(t) {
			if err := f.Frame(rec); err != nil {
				t.Fatal(err)
			}
			for _, p := range f.TakePlans() {
				plans++
				checkPlan(t, f, &p)
			}
			f.TakeChanges()
		}
	})
	if plans < 100 {
		t.Errorf("got %d plans, want some to check", plans)
	}
}

func checkPlan(t *rapid.T, f *Fold, p *predict.Plan) {
	t.Helper()
	d := &p.Decision
	mean, deviation, ok := f.View().Lag()
	hold := policy.Lag{Mean: mean, Deviation: deviation}.Hold(p.Rule.Window.Length(p.At))
	span := schemas.Span{CloseAt: d.CloseAt, Until: d.Until, Early: d.Early}
	if !d.Early {
		if d.CloseAt > p.At || d.Until <= p.At || d.Next.CloseAt <= d.Until {
			t.Fatalf("got %+v at %d, want a closure in force and the next one after it", d, p.At)
		}
		span = d.Next
	} else if d.Next != (schemas.Span{}) {
		t.Fatalf("got %+v, want one span", d)
	}
	switch {
	case !ok || !span.Early:
		t.Fatalf("got %+v with a lag of %v, want an early one of a lag that is known", span, ok)
	case span.Until <= span.CloseAt || span.Until-span.CloseAt > hold:
		t.Fatalf("got %v of %+v, want it to last, and at most %v", time.Duration(span.Until-span.CloseAt), span, time.Duration(hold))
	case span.Until <= p.At+mean:
		t.Fatalf("got %+v at %d, want none that is over when gates have it", span, p.At)
	case span.CloseAt < p.At-2*second:
		t.Fatalf("got %+v at %d, want none before all that is known", span, p.At)
	case d.Mode != p.Rule.Mode || d.Evidence.Rate <= 0 || d.Evidence.Bound <= d.Evidence.Expected:
		t.Fatalf("got %+v", d)
	}
}

// TestBatchesDoNotMatter: the same entries in frames of other sizes give the same plans, if those are taken at the same times.
func TestBatchesDoNotMatter(t *testing.T) {
	testenv.Fewer(t, 25)
	set := predictedRules(t)
	rapid.Check(t, func(t *rapid.T) {
		framed, single := New(set, Options{Predict: rules.PredictEarly}), New(set, Options{Predict: rules.PredictEarly})
		for _, rec := range drawTraffic(t) {
			if err := framed.Frame(rec); err != nil {
				t.Fatal(err)
			}
			var fr schemas.Frame
			if err := fr.Decode(rec.Value); err != nil {
				t.Fatal(err)
			}
			for _, e := range fr.Entries {
				if e.Kind == schemas.KindCanary {
					single.Measure(e.Time, e.Cost)
					continue
				}
				single.Entry(&e)
			}
			got, want := single.TakePlans(), framed.TakePlans()
			for i := range got {
				got[i].Offset, got[i].Decision.Evidence.AsOfOffset = rec.Offset, rec.Offset
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		}
	})
}

// TestWhatIsNotPredicted: a caller at twice its limit, of whom nothing is published ahead of time.
func TestWhatIsNotPredicted(t *testing.T) {
	const fixed = "{name: r, callers: key, limit: 1000, window: 1s, algorithm: fixed}"
	for name, test := range map[string]struct {
		rule  string
		set   func(*Options)
		lag   time.Duration
		plans bool
	}{
		"by default it is":                         {fixed, func(*Options) {}, 100 * ms, true},
		"in shadow mode too":                       {"{name: r, callers: key, limit: 1000, window: 1s, algorithm: fixed, mode: shadow}", func(*Options) {}, 100 * ms, true},
		"where the ceiling is off":                 {fixed, func(o *Options) { o.Predict = rules.PredictOff }, 100 * ms, false},
		"where the rule says off":                  {"{name: r, callers: key, limit: 1000, window: 1s, predict: off}", func(*Options) {}, 100 * ms, false},
		"under a calendar":                         {"{name: r, callers: key, limit: 3000, window: hour}", func(*Options) {}, 100 * ms, false},
		"a calendar that is asked for is":          {"{name: r, callers: key, limit: 3000, window: hour, predict: early}", func(*Options) {}, 100 * ms, true},
		"without a lag":                            {fixed, func(*Options) {}, 0, false},
		"at a lag over a quarter of the window":    {fixed, func(*Options) {}, 251 * ms, false},
		"unless the cap is lifted":                 {fixed, func(o *Options) { o.PredictLagCap = 0.4 }, 251 * ms, true},
		"where under a hundredth comes in a lag":   {"{name: r, callers: key, limit: 60000, window: 1m, algorithm: fixed}", func(*Options) {}, 100 * ms, false},
		"where it is reading costs of responses":   {"{name: r, callers: key, limit: 1000, window: 1s, measure: cost}", func(*Options) {}, 100 * ms, false},
		"of a caller without a limit":              {"{name: r, callers: key, limit: 1000, window: 1s, overrides: {a: unlimited}}", func(*Options) {}, 100 * ms, false},
		"of one at nine tenths of its limit":       {"{name: r, callers: key, limit: 2222, window: 1s, algorithm: fixed}", func(*Options) {}, 100 * ms, false},
		"of one at nine tenths in a longer window": {"{name: r, callers: key, limit: 22222, window: 10s, algorithm: fixed}", func(*Options) {}, 200 * ms, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, test.lag, time.Second, test.rule)
			o := Options{Predict: rules.PredictShares, NoStore: true}
			test.set(&o)
			l.fold = New(l.fold.Rules(), o)
			l.canaries = test.lag > 0
			l.run(rand.New(rand.NewPCG(3, 4)), 2000, 12)
			if got := len(l.plans) > 0; got != test.plans {
				t.Errorf("got %d plans, want some: %v", len(l.plans), test.plans)
			}
		})
	}
}

// TestSourceFramesAreNotPredictedOn: their blocked lines cannot say early. The frames of servers are.
func TestSourceFramesAreNotPredictedOn(t *testing.T) {
	for _, source := range []bool{true, false} {
		f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 1000, window: 1s, algorithm: fixed}"), Options{Predict: rules.PredictEarly})
		plans := 0
		for n := range int64(200) {
			now := frameNow + n*5*millisecond
			f.Measure(now, 100*millisecond)
			e := schemas.Entry{Time: now, Kind: "key", ID: "a", Count: 10}
			fr := foldtest.Frame(uint64(n+1), now, e)
			if source {
				e.Offset = n + 1
				fr = sourceFrame(f.opts, e)
			}
			if err := f.Frame(Record{Offset: n, Time: now, Value: foldtest.Encode(t, fr)}); err != nil {
				t.Fatal(err)
			}
			plans += len(f.TakePlans())
		}
		if tracked := f.Stats().Tracked; (plans > 0) == source || (tracked > 0) == source {
			t.Errorf("source %v: got %d plans and %d tracked", source, plans, tracked)
		}
	}
}
