package fold

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

const sharedRule = "{name: r, callers: key, limit: 400, window: 1s, algorithm: fixed}"

// shared returns a loop in which a caller has had a share for a while.
func shared(t *testing.T) *shareLoop {
	t.Helper()
	l := newShareLoop(t, 2, 100*time.Millisecond, 0, sharedRule, rules.PredictShares)
	l.run(rand.New(rand.NewPCG(1, 2)), 1200, 8*time.Second, l.evenly)
	if len(l.shared()) < 3 || l.words[len(l.words)-1].Share == nil {
		t.Fatal("the caller has no share")
	}
	return l
}

// TestAShareEndsWithItsRule: a share is by a limit, so that another limit, or none, ends it at once; unchanged rules do not.
func TestAShareEndsWithItsRule(t *testing.T) {
	for name, test := range map[string]struct {
		rule string
		ends bool
	}{
		"the same":       {sharedRule, false},
		"another limit":  {"{name: r, callers: key, limit: 300, window: 1s, algorithm: fixed}", true},
		"another window": {"{name: r, callers: key, limit: 400, window: 2s, algorithm: fixed}", true},
		"no such rule":   {"{name: s, callers: key, limit: 400, window: 1s, algorithm: fixed}", true},
		"early only":     {"{name: r, callers: key, limit: 400, window: 1s, algorithm: fixed, predict: early}", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := shared(t)
			l.fold.SetRules(foldtest.Rules(t, test.rule))
			plans := l.fold.TakePlans()
			ended := len(plans) == 1 && plans[0].Shares && plans[0].Decision.Share == nil && plans[0].Decision.Rule == "r" && plans[0].Caller.ID == "a"
			if ended != test.ends || !test.ends && len(plans) > 0 {
				t.Errorf("got %+v, want an end: %v", plans, test.ends)
			}
			if again := l.fold.TakePlans(); len(again) > 0 {
				t.Errorf("got %+v once more", again)
			}
		})
	}
}

// TestCountsDoNotDependOnShares: over one log, which gates wrote that obeyed shares, folds that predict nothing, early closes, or
// shares have the same rows. So has one that was restored in between, which has no share to tell of.
func TestCountsDoNotDependOnShares(t *testing.T) {
	l := shared(t)
	set := foldtest.Rules(t, sharedRule)
	digest := func(predict rules.Predict, restored bool) uint64 {
		f := New(set, Options{Predict: predict})
		for i, rec := range l.log {
			if err := f.Frame(rec); err != nil {
				t.Fatal(err)
			}
			f.TakeChanges()
			f.TakePlans()
			if restored && i == len(l.log)/2 {
				g := New(set, Options{Predict: predict})
				for _, c := range f.TakeDirty() {
					if err := g.Restore(c.Key, c.Value); err != nil {
						t.Fatal(err)
					}
				}
				g.Resume(f.LogTime())
				for _, c := range g.View().Closures(f.LogTime()) {
					if c.Share != nil || c.Covered {
						t.Errorf("got %+v of a restored fold, want no share", c)
					}
				}
				f = g
			}
		}
		return f.Digest(f.LogTime())
	}
	want := digest(rules.PredictOff, false)
	for _, predict := range []rules.Predict{rules.PredictOff, rules.PredictEarly, rules.PredictShares} {
		if got, again := digest(predict, false), digest(predict, true); got != want || again != want {
			t.Errorf("%v: got digest %x, restored %x, want %x", predict, got, again, want)
		}
	}
}

// TestAClosureThatPermitsDoNotCover: if more than a hundredth over the limit comes while a share is in force, as from servers that
// know no shares, gates learn of the closure after all, with the share.
func TestAClosureThatPermitsDoNotCover(t *testing.T) {
	l := shared(t)
	from := len(l.words)
	for i := range int64(100) { // much at once
		l.now = l.flushed
		for range 8 {
			l.servers[0].entries = append(l.servers[0].entries, schemas.Entry{Time: l.now, Kind: "key", ID: "a", Count: 1})
		}
		l.flushed += 5 * millisecond
		if l.flush(l.flushed); i > 60 && len(l.words) > from {
			break
		}
	}
	for _, d := range l.words[from:] {
		if d.Until > d.CloseAt && !d.Early && d.Share != nil {
			return
		}
	}
	t.Errorf("got %+v, want a counted closure with the share", l.words[from:])
}

// TestSharesGoWithTheirTrackers: no tracker, no share; and the table of trackers knows how many there are.
func TestSharesGoWithTheirTrackers(t *testing.T) {
	l := shared(t)
	f := l.fold
	share := func() *schemas.Share { return f.View().Look(callerOf("a"), f.table.now).Rules[0].Share }
	before := share()
	if f.table.compact(); before == nil || !reflect.DeepEqual(share(), before) {
		t.Fatalf("got %+v after rows moved, want %+v", share(), before)
	}
	f.Advance(f.table.now + int64(time.Hour))
	f.Advance(f.table.now + int64(time.Hour))
	if share() != nil || f.Stats().Tracked != 0 {
		t.Errorf("got %+v and %d trackers after the rows, want none", share(), f.Stats().Tracked)
	}
}
