package outbox

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

func theRule(t testing.TB) *rules.Rule {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: r, callers: key, limit: 10, window: 1s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return set.Rules[0]
}

// teller makes changes and plans about one caller.
type teller struct {
	rule   *rules.Rule
	caller schemas.Caller
	offset int64 // of the next word
}

func newTeller(t testing.TB) *teller {
	t.Helper()
	return &teller{rule: theRule(t), caller: schemas.Caller{Kind: "key", ID: "a"}}
}

// change returns a change at a time.
func (w *teller) change(kind policy.Transition, at, before, until int64, next schemas.Span) fold.Change {
	return fold.Change{
		Rule: w.rule, Caller: w.caller, Kind: kind, At: at, Offset: w.offset, Forecast: predict.Forecast{Next: next},
		Before: policy.Closure{CloseAt: now, Until: before, Nth: 1}, Closure: policy.Closure{CloseAt: now, Until: until, Nth: 1},
	}
}

func (w *teller) closed(until int64, next schemas.Span) fold.Change {
	return w.change(policy.Closed, now, 0, until, next)
}

func (w *teller) moved(at, before, until int64) fold.Change {
	return w.change(policy.Moved, at, before, until, schemas.Span{})
}

func (w *teller) opened(at int64) fold.Change {
	return w.change(policy.Opened, at, 0, at, schemas.Span{})
}

// plan returns a plan with the spans.
func (w *teller) plan(first, next schemas.Span) predict.Plan {
	d := about(w.caller.ID, first.CloseAt, first.Until)
	d.Rule, d.Early, d.Next, d.Evidence.AsOfTime = w.rule.Name, first.Early, next, now
	return predict.Plan{Rule: w.rule, Caller: w.caller, Decision: d, At: now, Offset: w.offset}
}

// spans are those of a decision.
func spans(d *schemas.Decision) [2]schemas.Span {
	return [2]schemas.Span{{CloseAt: d.CloseAt, Until: d.Until, Early: d.Early}, d.Next}
}

var (
	none    = schemas.Span{}
	counted = schemas.Span{CloseAt: now, Until: now + 500*ms}
	early   = schemas.Span{CloseAt: now + 100*ms, Until: now + 300*ms, Early: true}
	next    = schemas.Span{CloseAt: now + 600*ms, Until: now + 800*ms, Early: true}
	other   = schemas.Span{CloseAt: now + 700*ms, Until: now + 900*ms, Early: true}
)

// TestTheNewestWordIsAbsolute: whatever came in which order, and in one batch or several, what goes out last says all that holds.
func TestTheNewestWordIsAbsolute(t *testing.T) {
	w := newTeller(t)
	type words struct {
		changes []fold.Change
		plans   []predict.Plan
	}
	at := func(offset int64, f func()) { w.offset = offset; f() }
	for name, test := range map[string]struct {
		offers func() []words
		want   [2]schemas.Span
		kind   Kind
		closes int
	}{
		"a plan alone": {func() []words { return []words{{nil, []predict.Plan{w.plan(early, none)}}} }, [2]schemas.Span{early, none}, Early, 0},
		"a plan, replaced by a newer one": {func() []words {
			return []words{{nil, []predict.Plan{w.plan(early, none)}}, {nil, []predict.Plan{w.plan(counted, next)}}}
		}, [2]schemas.Span{counted, next}, Early, 0},
		"a close that comes after a plan carries what is next": {func() []words {
			return []words{{nil, []predict.Plan{w.plan(counted, next)}}, {[]fold.Change{w.closed(counted.Until, next)}, nil}}
		}, [2]schemas.Span{counted, next}, Closed, 1},
		"a close after which nothing is predicted any more": {func() []words {
			return []words{{nil, []predict.Plan{w.plan(early, none)}}, {[]fold.Change{w.closed(counted.Until, none)}, nil}}
		}, [2]schemas.Span{counted, none}, Closed, 1},
		"a plan after a close carries the closure": {func() []words {
			return []words{{[]fold.Change{w.closed(counted.Until, none)}, nil}, {nil, []predict.Plan{w.plan(counted, next)}}}
		}, [2]schemas.Span{counted, next}, Closed, 1},
		"one batch: first the plan": {func() (list []words) {
			var p predict.Plan
			at(1, func() { p = w.plan(early, none) })
			at(2, func() { list = []words{{[]fold.Change{w.closed(counted.Until, next)}, []predict.Plan{p}}} })
			return list
		}, [2]schemas.Span{counted, next}, Closed, 1},
		"one batch: first the close": {func() (list []words) {
			var c fold.Change
			at(1, func() { c = w.closed(counted.Until, none) })
			at(2, func() { list = []words{{[]fold.Change{c}, []predict.Plan{w.plan(counted, next)}}} })
			return list
		}, [2]schemas.Span{counted, next}, Closed, 1},
		"one message: the plan knows of the close": {func() []words {
			return []words{{[]fold.Change{w.closed(counted.Until, none)}, []predict.Plan{w.plan(counted, next)}}}
		}, [2]schemas.Span{counted, next}, Closed, 1},
		"one message: the plan does not know of the close": {func() []words {
			return []words{{[]fold.Change{w.closed(counted.Until, next)}, []predict.Plan{w.plan(early, none)}}}
		}, [2]schemas.Span{counted, next}, Closed, 1},
		"one message: the plan does not know of the last move": {func() []words {
			return []words{{[]fold.Change{w.moved(now, 0, counted.Until+1)}, []predict.Plan{w.plan(counted, next)}}}
		}, [2]schemas.Span{{CloseAt: now, Until: counted.Until + 1}, none}, Moved, 0},
		"one message: two plans": {func() []words {
			return []words{{[]fold.Change{w.closed(counted.Until, none)}, []predict.Plan{w.plan(counted, next), w.plan(counted, other)}}}
		}, [2]schemas.Span{counted, other}, Closed, 1},
		"one message: two plans of an open caller": {func() []words {
			return []words{{nil, []predict.Plan{w.plan(other, none), w.plan(early, none)}}}
		}, [2]schemas.Span{early, none}, Early, 0},
		"an opening of a caller who was to close again": {func() []words {
			return []words{{[]fold.Change{w.change(policy.Opened, now+ms, 0, now+ms, next)}, nil}}
		}, [2]schemas.Span{{CloseAt: now, Until: now}, none}, Opened, 0},
		"a closure of no length": {func() []words {
			return []words{{nil, []predict.Plan{w.plan(schemas.Span{CloseAt: now, Until: now}, next)}}}
		}, [2]schemas.Span{{CloseAt: now, Until: now}, none}, Early, 0},
		"an opening ends all": {func() []words {
			return []words{{nil, []predict.Plan{w.plan(counted, next)}}, {[]fold.Change{w.opened(now)}, nil}}
		}, [2]schemas.Span{{CloseAt: now, Until: now}, none}, Opened, 0},
		"what is next begins no earlier than the closure ends": {func() []words {
			return []words{{[]fold.Change{w.closed(next.CloseAt+50*ms, next)}, nil}}
		}, [2]schemas.Span{{CloseAt: now, Until: next.CloseAt + 50*ms}, {CloseAt: next.CloseAt + 50*ms, Until: next.Until, Early: true}}, Closed, 1},
		"what is next is over when the closure ends": {func() []words {
			return []words{{[]fold.Change{w.closed(next.Until, next)}, nil}}
		}, [2]schemas.Span{{CloseAt: now, Until: next.Until}, none}, Closed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var q Queue
			w.offset = 0
			for _, o := range test.offers() {
				q.Offer(o.changes, o.plans, Terms{Now: now, AsOf: now, Measured: 7})
			}
			list := q.Take(now, 0)
			if len(list) != 1 || q.Len() != 0 {
				t.Fatalf("got %d decisions and %d that wait, want 1 and 0", len(list), q.Len())
			}
			if got := spans(&list[0].Decision); got != test.want || list[0].Kind != test.kind || len(list[0].Closes) != test.closes || list[0].Spared {
				t.Errorf("got %+v, %v, spared %v, with %d closes; want %+v, %v with %d", got, list[0].Kind, list[0].Spared, len(list[0].Closes), test.want, test.kind, test.closes)
			}
			if list[0].Decision.Evidence.Lag != 7 {
				t.Errorf("got lag %d, want the publisher's, 7", list[0].Decision.Evidence.Lag)
			}
		})
	}
}

// TestAMovedEndGoesOutWhenGatesNeedIt: before the end that they know of comes, by the time it takes to tell them. It waits a
// second at most, and not at all if nobody knows the lag.
func TestAMovedEndGoesOutWhenGatesNeedIt(t *testing.T) {
	w := newTeller(t)
	for name, test := range map[string]struct {
		terms  Terms
		before int64
		want   int64 // after now
	}{
		"soon":             {Terms{Lag: 200 * ms, Margin: 50 * ms}, now + 700*ms, 450 * ms},
		"now":              {Terms{Lag: 200 * ms, Margin: 50 * ms}, now + 250*ms, 0},
		"too late already": {Terms{Lag: 200 * ms, Margin: 50 * ms}, now - sec, 0},
		"far away":         {Terms{Lag: 200 * ms, Margin: 50 * ms}, now + 3600*sec, sec},
		"no lag is known":  {Terms{}, now + 700*ms, 0},
		"servers' clocks are an hour ahead of ours": {Terms{AsOf: 3600 * sec, Lag: 200 * ms, Margin: 50 * ms}, now + 3600*sec + 700*ms, 450 * ms},
		"the rules have changed":                    {Terms{Lag: 200 * ms, Margin: 50 * ms, Urgent: true}, now + 700*ms, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var q Queue
			test.terms.Now, test.terms.AsOf = now, test.terms.AsOf+now
			q.Offer([]fold.Change{w.moved(test.terms.AsOf, test.before, test.before+10*sec)}, nil, test.terms)
			if test.want > 0 {
				if due, ok := q.Due(); !ok || due != now+test.want {
					t.Errorf("got due in %d ms, %v, want in %d", (due-now)/ms, ok, test.want/ms)
				}
				for _, after := range []int64{0, test.want - 1} {
					if early := q.Take(now+after, 0); len(early) > 0 {
						t.Errorf("got %d decisions after %d ns, want none before %d ns", len(early), after, test.want)
					}
				}
			}
			if got := q.Take(now+test.want, 0); len(got) != 1 || got[0].Decision.Until != test.before+10*sec {
				t.Errorf("got %+v, want the moved end", got)
			}
		})
	}
}

// TestWhatIsUrgentTakesAWaitingMoveAlong: an opening, new rules, a plan or the end of the publisher is not put off by a move that
// waits, and comes with nothing but the last word.
func TestWhatIsUrgentTakesAWaitingMoveAlong(t *testing.T) {
	w := newTeller(t)
	terms := Terms{Now: now, AsOf: now, Lag: 10 * ms, Margin: 20 * ms}
	urgent := terms
	urgent.Urgent = true
	for name, test := range map[string]struct {
		then func(q *Queue) []Item
		want [2]schemas.Span
	}{
		"an opening": {func(q *Queue) []Item {
			q.Offer([]fold.Change{w.opened(now)}, nil, terms)
			return q.Take(now, 0)
		}, [2]schemas.Span{{CloseAt: now, Until: now}, none}},
		"new rules": {func(q *Queue) []Item {
			q.Offer([]fold.Change{w.moved(now, counted.Until, now+100*ms)}, nil, urgent)
			return q.Take(now, 0)
		}, [2]schemas.Span{{CloseAt: now, Until: now + 100*ms}, none}},
		"a plan": {func(q *Queue) []Item {
			q.Offer(nil, []predict.Plan{w.plan(counted, next)}, terms)
			return q.Take(now, 0)
		}, [2]schemas.Span{counted, next}},
		"a move after a plan": {func(q *Queue) []Item {
			q.Offer(nil, []predict.Plan{w.plan(counted, next)}, terms)
			c := w.moved(now, counted.Until, counted.Until+1)
			c.Next = next
			q.Offer([]fold.Change{c}, nil, terms)
			return q.Take(now, 0)
		}, [2]schemas.Span{{CloseAt: now, Until: counted.Until + 1}, next}},
		"a plan in the batch of a later move": {func(q *Queue) []Item {
			p := w.plan(counted, next)
			c := w.moved(now, counted.Until, counted.Until+1)
			c.Next, c.Offset = next, p.Offset+1
			q.Offer([]fold.Change{c}, []predict.Plan{p}, terms)
			return q.Take(now, 0)
		}, [2]schemas.Span{{CloseAt: now, Until: counted.Until + 1}, next}},
		"an opening that the fold does not know of": {func(q *Queue) []Item {
			q.Add(about(w.caller.ID, now, now), Opened)
			return q.Take(now, 0)
		}, [2]schemas.Span{{CloseAt: now, Until: now}, none}},
		"the end of the publisher": {func(q *Queue) []Item { return q.TakeAll(now) }, [2]schemas.Span{{CloseAt: now, Until: now + 2*sec}, none}},
		"a clock that is put back": {func(q *Queue) []Item { return q.Take(now-3600*sec, 0) }, [2]schemas.Span{{CloseAt: now, Until: now + 2*sec}, none}},
	} {
		t.Run(name, func(t *testing.T) {
			var q Queue
			q.Offer([]fold.Change{w.moved(now, now+sec, now+2*sec)}, nil, terms)
			if early := q.Take(now, 0); len(early) > 0 {
				t.Fatalf("got %+v, want it to wait", early)
			}
			list := test.then(&q)
			if len(list) != 1 || spans(&list[0].Decision) != test.want {
				t.Fatalf("got %+v, want %+v alone", list, test.want)
			}
			if q.Len() != 0 || len(q.Take(now+sec, 0)) != 0 {
				t.Error("it went out a second time")
			}
		})
	}
}

// TestOneDecisionAFlush: under the algorithms log and sliding each request over the limit moves the end. Here come a thousand in
// a second, and gates learn of about one in 10 ms if nobody knows the lag, and of a few if somebody does. They know each end a
// lag before it comes.
func TestOneDecisionAFlush(t *testing.T) {
	w := newTeller(t)
	for lag, most := range map[int64]int{0: 101, 100 * ms: 12} {
		var q Queue
		margin, known, sent := 2*minInterval, int64(0), 0
		before := now + 300*ms
		take := func(at int64) {
			for _, i := range q.Take(at, 0) {
				sent++
				known = i.Decision.Until
			}
		}
		q.Offer([]fold.Change{w.closed(before, none)}, nil, Terms{Now: now, AsOf: now, Lag: lag, Margin: margin})
		take(now)
		for at := now + ms; at < now+sec; at += ms {
			c := w.moved(at, before, before+ms)
			before += ms
			q.Offer([]fold.Change{c}, nil, Terms{Now: at, AsOf: at, Lag: lag, Margin: margin})
			take(at)
			if known <= at+lag {
				t.Fatalf("lag %d ms, after %d ms: gates will open although the end was moved", lag/ms, (at-now)/ms)
			}
		}
		if sent > most || sent < 2 {
			t.Errorf("lag %d ms: got %d decisions, want at most %d", lag/ms, sent, most)
		}
	}
}

// TestGatesLearnOfAMoveInTime draws moves at any lag: gates know of each before the end that they knew of, by a lag and half of
// the margin. If it comes too late for that, they learn of it within a flush. The last word reaches them.
func TestGatesLearnOfAMoveInTime(t *testing.T) {
	w := newTeller(t)
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		lag := rapid.Int64Range(1, 500).Draw(t, "lag") * ms
		margin := MarginOf(rapid.Int64Range(0, 50).Draw(t, "deviation") * ms)
		until := now + rapid.Int64Range(1, 2000).Draw(t, "until")*ms
		q.Offer([]fold.Change{w.closed(until, none)}, nil, Terms{Now: now, AsOf: now})
		known, deadline := int64(0), now
		take := func(at int64) {
			for _, i := range q.Take(at, 0) {
				known = i.Decision.Until
			}
			if known != until && at > deadline {
				t.Fatalf("at %d ms: gates know %d ms, want %d since %d", (at-now)/ms, (known-now)/ms, (until-now)/ms, (deadline-now)/ms)
			}
		}
		take(now)
		at := now
		for range rapid.IntRange(1, 30).Draw(t, "moves") {
			then := at + rapid.Int64Range(0, 400).Draw(t, "pause")*ms
			if due, ok := q.Due(); ok && due < then {
				take(due)
			}
			if at = then; at >= until {
				break
			}
			take(at)
			to := until + rapid.Int64Range(1, 300).Draw(t, "by")*ms
			if known == until {
				deadline = max(at, until-lag-margin) + minInterval
			}
			c := w.moved(at, until, to)
			until = to
			if q.Offer([]fold.Change{c}, nil, Terms{Now: at, AsOf: at, Lag: lag, Margin: margin}) > 0 && q.Len() == 0 {
				known = until // gates need not know: it would be over
			}
			take(at)
		}
		for _, i := range q.TakeAll(at) {
			known = i.Decision.Until
		}
		if known != until {
			t.Fatalf("the last word: got until %d, want %d", known, until)
		}
	})
}

// TestOrderIsThatOfTheLog: two runs publish the same, however many callers there are.
func TestOrderIsThatOfTheLog(t *testing.T) {
	w := newTeller(t)
	run := func() (ids []string) {
		var q Queue
		for i := range 300 {
			c := w.moved(now, now+int64(i%7)*100*ms, now+sec)
			c.Caller.ID = fmt.Sprint(i)
			q.Offer([]fold.Change{c}, nil, Terms{Now: now, AsOf: now, Lag: 10 * ms, Margin: 20 * ms})
		}
		for at := now; at < now+sec; at += 50 * ms {
			for _, i := range q.Take(at, 5) {
				ids = append(ids, i.Decision.Caller.ID)
			}
			for _, i := range q.Take(at, 0) {
				ids = append(ids, i.Decision.Caller.ID)
			}
		}
		return ids
	}
	first := run()
	if second := run(); !reflect.DeepEqual(first, second) || len(first) != 300 {
		t.Errorf("got %d decisions and then %d in another order, want 300 in one order", len(first), len(second))
	}
	var want []string
	for due := range 7 {
		for i := due; i < 300; i += 7 {
			want = append(want, fmt.Sprint(i))
		}
	}
	if !slices.Equal(first, want) {
		t.Errorf("got %v, want those that are due first, and of these the order of the log: %v", first, want)
	}
}

// TestACoveredCloseKeepsItsPlace: events about closes come in the order of the log, whether a share covers them or not.
func TestACoveredCloseKeepsItsPlace(t *testing.T) {
	w := newTeller(t)
	var q Queue
	for i, isCovered := range []bool{false, true, false} {
		c := w.closed(counted.Until, none)
		c.Caller.ID, c.Covered = fmt.Sprint(i), isCovered
		q.Offer([]fold.Change{c}, nil, Terms{Now: now, AsOf: now})
	}
	var ids []string
	for _, i := range q.Take(now, 0) {
		ids = append(ids, i.Decision.Caller.ID)
	}
	if !slices.Equal(ids, []string{"0", "1", "2"}) {
		t.Errorf("got %v, want the order of the log", ids)
	}
}

// TestClosesThatWaitAreBounded: a caller that closes again and again while the publisher is slow takes one place, and fills no memory.
func TestClosesThatWaitAreBounded(t *testing.T) {
	w := newTeller(t)
	for name, isCovered := range map[string]bool{"published": false, "covered by a share": true} {
		var q Queue
		for range 2 * MaxCloses {
			c := w.closed(counted.Until, none)
			c.Covered = isCovered
			q.Offer([]fold.Change{c}, nil, Terms{Now: now, AsOf: now})
		}
		if list := q.Take(now, 0); len(list) != 1 || len(list[0].Closes) != MaxCloses {
			t.Errorf("%s: got %d decisions, the first with %d closes; want one with %d", name, len(list), len(list[0].Closes), MaxCloses)
		}
	}
}
