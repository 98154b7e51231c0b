package analyzer

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

const (
	aHundredIn10s = "version: 1\nrules:\n  - {name: r, callers: key, limit: 100, window: 10s, algorithm: fixed}\n"
	testLag       = 300 * time.Millisecond
	testHold      = 460 * time.Millisecond // 1.5 lags and two flushes of 5 ms
)

// predicting returns a world whose owners predict, and whose canaries say what the lag is.
func predicting(t *testing.T, text string) *world {
	t.Helper()
	w := newWorld(t)
	w.conf.Rules, w.conf.Fold.Predict = mustRules(t, text), rules.PredictEarly
	w.prod.lag = testLag
	return w
}

// steady lets caller a make 20 requests a second, until done says so. It fails after a minute.
func (w *world) steady(done func() bool) {
	w.t.Helper()
	for n := range 1200 {
		if done() {
			return
		}
		keys := []string{"a"}
		if n%10 == 0 {
			keys = append(keys, "canary")
		}
		w.prod.send(time.Now(), keys...)
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Fatal("a minute of requests did not lead to it")
}

// last returns the last decision about caller a; nil if there is none.
func (w *world) last() *schemas.Decision {
	w.t.Helper()
	list, _ := w.log.about(w.t, "a")
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// die ends the owner without a last word to gates.
func (w *world) die() {
	w.t.Helper()
	w.log.SetFault(produces("decisions", kafkaiotest.Down))
	w.end()
	w.log.SetFault(nil)
}

// TestAnEarlyCloseComesBeforeTheCountedOne, by about a lag: gates have it when the limit is reached. It says what overshoot to
// expect, and ends by itself soon after. The counted one replaces it, and holds to the window's end.
func TestAnEarlyCloseComesBeforeTheCountedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := predicting(t, aHundredIn10s)
		w.start()
		time.Sleep(2 * time.Second)
		w.steady(func() bool { d := w.last(); return d != nil && !d.Early })
		list, at := w.log.about(t, "a")
		first, counted := list[0], list[len(list)-1]
		if !first.Early || len(list) < 2 {
			t.Fatalf("got %+v first of %d decisions, want an early one", first, len(list))
		}
		if ahead := time.Unix(0, counted.CloseAt).Sub(at[0]); ahead < testLag-100*time.Millisecond || ahead > testLag+200*time.Millisecond {
			t.Errorf("got it published %v before the limit was reached, want about the lag, %v", ahead, testLag)
		}
		if hold := time.Duration(first.Until - first.CloseAt); hold <= 0 || hold > testHold {
			t.Errorf("got an early close of %v, want at most %v", hold, testHold)
		}
		if e := first.Evidence; e.Bound <= 0 || e.Bound > 1 || e.Expected < 0 || e.Expected > e.Bound || e.Rate < 15 || e.Rate > 25 {
			t.Errorf("got evidence %+v, want 20 a second, and a bound above what is expected", e)
		}
		if counted.Until%int64(10*time.Second) != 0 {
			t.Errorf("got the counted one until %v, want the end of a window", time.Unix(0, counted.Until))
		}
		if s := w.owner.Stats(); s.Publish.Kinds[0] != 1 || s.Publish.Kinds[3] == 0 || s.Fold.Bounds.Count == 0 {
			t.Errorf("got %v by kind and %d bounds, want one closed, some early, and their bounds", s.Publish.Kinds, s.Fold.Bounds.Count)
		}
		w.end()
	})
}

// TestADeadOwnersEarlyClosesEndByThemselves: no decision opens them, and the next owner publishes nothing about them. It has measured nothing
// and starts reactive: what it publishes first is counted.
func TestADeadOwnersEarlyClosesEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := predicting(t, aHundredIn10s)
		w.start()
		time.Sleep(2 * time.Second)
		w.steady(func() bool { return w.last() != nil })
		early := w.last()
		w.die()
		if !early.Early {
			t.Fatalf("got %+v, want it early", early)
		}
		if f := w.log.follow(t, early.CloseAt); len(f.closed) != 1 {
			t.Errorf("while it lasts: got %v closed, want the caller", f.closed)
		}
		if f := w.log.follow(t, early.CloseAt+int64(testHold)); len(f.closed) != 0 {
			t.Errorf("%v after it began: got %v closed, want nobody", testHold, f.closed)
		}
		w.start()
		time.Sleep(time.Second)
		if list, _ := w.log.about(t, "a"); !reflect.DeepEqual(list[len(list)-1], early) {
			t.Errorf("got %+v of the next owner, want it to leave %+v alone", list[len(list)-1], early)
		}
		w.prod.lag = 0 // no canary says anything any more
		before, _ := w.log.about(t, "a")
		w.steady(func() bool { list, _ := w.log.about(t, "a"); return len(list) > len(before) })
		if d := w.last(); d.Early || d.Next != (schemas.Span{}) {
			t.Errorf("got %+v first, want what was counted", d)
		}
		w.end()
	})
}

// TestTheNextOwnerComparesCountedClosures with what gates believe, whatever was predicted beside, and whether the analyzer
// before knew of predictions at all.
func TestTheNextOwnerComparesCountedClosures(t *testing.T) {
	none := schemas.Span{}
	for name, test := range map[string]struct {
		counted bool                                          // whether the caller is closed by what the log says
		say     func(d *schemas.Decision, next *schemas.Span) // what gates believe, from what is counted
		open    bool                                          // the next owner says so
		next    bool                                          // and carries what is next
	}{
		"as counted":                 {true, func(*schemas.Decision, *schemas.Span) {}, false, false},
		"as counted, and a next":     {true, func(d *schemas.Decision, next *schemas.Span) { d.Next = *next }, false, true},
		"an older end, and a next":   {true, func(d *schemas.Decision, next *schemas.Span) { d.Until -= int64(time.Second); d.Next = *next }, false, true},
		"predicted only":             {true, func(d *schemas.Decision, _ *schemas.Span) { d.Early, d.Until = true, d.CloseAt+int64(2*time.Second) }, false, false},
		"closed, and that is not so": {false, func(*schemas.Decision, *schemas.Span) {}, true, false},
		"closed, a next, and not so": {false, func(d *schemas.Decision, next *schemas.Span) { d.Next = *next }, true, false},
		"predicted only, and not so": {false, func(d *schemas.Decision, _ *schemas.Span) { d.Early = true }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := predicting(t, threeAMinute)
				w.start()
				time.Sleep(2 * time.Second)
				for range 3 {
					if test.counted {
						w.prod.send(time.Now(), "a")
					}
				}
				time.Sleep(2 * time.Second)
				d := schemas.Decision{Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "a"}, Mode: schemas.ModeEnforce}
				d.CloseAt = time.Now().UnixNano()
				d.Until = d.CloseAt + int64(30*time.Second)
				if test.counted {
					d = *w.last()
				}
				counted, epoch := d, w.epoch()
				w.end()
				next := schemas.Span{CloseAt: d.Until + 1, Until: d.Until + int64(time.Second), Early: true}
				test.say(&d, &next)
				d.Epoch, d.Seq = epoch, 1_000_000
				w.log.say(t, pb.Record{Decision: &d})
				said, _ := w.log.about(t, "a")
				w.start()
				time.Sleep(2 * time.Second)
				list, _ := w.log.about(t, "a")
				switch list = list[len(said):]; {
				case !test.counted && !test.open:
					if len(list) != 0 {
						t.Errorf("got %+v, want nothing said", list[0])
					}
				case len(list) != 1:
					t.Fatalf("got %d decisions of the next owner, want 1", len(list))
				case test.open:
					if list[0].Until > list[0].CloseAt || list[0].Next != none {
						t.Errorf("got %+v, want it to open", list[0])
					}
				case list[0].Early || list[0].CloseAt != counted.CloseAt || list[0].Until != counted.Until:
					t.Errorf("got %+v, want what was counted: %+v", list[0], counted)
				case test.next && list[0].Next != next || !test.next && list[0].Next != none:
					t.Errorf("got next %+v, want it carried: %v", list[0].Next, test.next)
				}
				w.end()
			})
		})
	}
}

// TestAMoveThatDiedWithItsOwner: until there is another, gates go by the end that they know of, those that start meanwhile too.
// Then all learn of the moved one.
func TestAMoveThatDiedWithItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := predicting(t, "version: 1\nrules:\n  - {name: r, callers: key, limit: 3, window: 1m, slots: 6}\n")
		w.start()
		time.Sleep(2 * time.Second)
		w.prod.send(time.Now(), "a", "a", "a", "canary")
		time.Sleep(15 * time.Second)
		w.prod.send(time.Now(), "canary")
		old := w.last().Until
		w.prod.send(time.Now(), "a", "a", "a") // a server that has not heard of it yet
		time.Sleep(500 * time.Millisecond)
		w.die()
		if f := w.log.follow(t, time.Now().UnixNano()); f.closed["r key:a"] != old {
			t.Errorf("a gate that starts now: got until %d, want %d still", f.closed["r key:a"], old)
		}
		w.start()
		time.Sleep(2 * time.Second)
		if f := w.log.follow(t, time.Now().UnixNano()); f.closed["r key:a"] <= old {
			t.Errorf("with the next owner: got until %d, want it later than %d", f.closed["r key:a"], old)
		}
		w.end()
	})
}
