package outbox

import (
	"fmt"
	"math"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/schemas"
)

// TestWhatWouldBeOverIsSpared: a closure that has ended when gates learn of it is not published, unless they hold something else
// that it ends. Its close counts all the same.
func TestWhatWouldBeOverIsSpared(t *testing.T) {
	w := newTeller(t)
	terms := Terms{Now: now, AsOf: now, Lag: 200 * ms, Margin: 50 * ms}
	known := func(q *Queue, changes []fold.Change, plans ...predict.Plan) { // to gates
		q.Offer(changes, plans, Terms{Now: now, AsOf: now, Urgent: true})
		q.Take(now, 0)
	}
	predicted := schemas.Span{CloseAt: now, Until: now + 300*ms, Early: true}
	short := now + 200*ms // exactly when gates learn of it
	for name, test := range map[string]struct {
		before func(q *Queue)
		change fold.Change
		terms  func(*Terms)
		want   bool
	}{
		"over on arrival":                  {nil, w.closed(short, none), nil, true},
		"a nanosecond longer":              {nil, w.closed(short+1, none), nil, false},
		"no lag is known":                  {nil, w.closed(now+1, none), func(t *Terms) { t.Lag = 0 }, false},
		"the rules have changed":           {nil, w.closed(short, none), func(t *Terms) { t.Urgent = true }, false},
		"a lag of a quarter of the window": {nil, w.closed(now+250*ms, none), func(t *Terms) { t.Lag = 250 * ms }, true},
		"a longer lag":                     {nil, w.closed(now+1, none), func(t *Terms) { t.Lag = 250*ms + 1 }, false},
		"somebody says the lag is an hour": {nil, w.closed(now+1, none), func(t *Terms) { t.Lag = 3600 * sec }, false},
		"the greatest lag there is":        {nil, w.closed(now+1, none), func(t *Terms) { t.Lag = math.MaxInt64 }, false},
		"an opening":                       {nil, w.opened(now), nil, false},
		"a move":                           {nil, w.moved(now, now+100*ms, short), nil, true},
		"an older message":                 {nil, w.change(1, now-sec, 0, now-sec+200*ms, none), nil, true},
		"gates hold a longer early one":    {func(q *Queue) { known(q, nil, w.plan(predicted, none)) }, w.closed(short, none), nil, false},
		"gates hold a shorter early one": {func(q *Queue) {
			known(q, nil, w.plan(schemas.Span{CloseAt: now, Until: now + 150*ms, Early: true}, none))
		}, w.closed(short, none), nil, true},
		"gates held a longer one, which was taken back": {func(q *Queue) {
			known(q, nil, w.plan(predicted, none))
			known(q, []fold.Change{w.closed(now+100*ms, none)})
		}, w.closed(short, none), nil, true},
		"gates know what is next":     {func(q *Queue) { known(q, nil, w.plan(counted, next)) }, w.closed(short, next), nil, true},
		"what was next is so no more": {func(q *Queue) { known(q, nil, w.plan(counted, next)) }, w.closed(short, none), nil, false},
		"what is next waits, unsent":  {func(q *Queue) { q.Offer(nil, []predict.Plan{w.plan(counted, next)}, terms) }, w.closed(short, next), nil, false},
		"an opening waits, unsent": {func(q *Queue) {
			known(q, []fold.Change{w.closed(now+3600*sec, none)})
			q.Offer([]fold.Change{w.opened(now)}, nil, terms)
		}, w.closed(short, none), nil, false},
		"a shorter end waits, unsent, because rules have changed": {func(q *Queue) {
			known(q, []fold.Change{w.closed(now+3600*sec, none)})
			q.Offer([]fold.Change{w.moved(now, now+3600*sec, now+100*ms)}, nil, Terms{Now: now, AsOf: now, Urgent: true})
		}, w.moved(now, now+100*ms, short), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var q Queue
			if test.before != nil {
				test.before(&q)
			}
			mine := terms
			if test.terms != nil {
				test.terms(&mine)
			}
			spared := q.Offer([]fold.Change{test.change}, nil, mine)
			closes, sent := 0, 0
			for _, i := range q.TakeAll(now) {
				closes += len(i.Closes)
				if !i.Spared {
					sent++
				}
			}
			if got := spared == 1; got != test.want || (sent == 0) != test.want {
				t.Errorf("got spared %d and %d sent, want spared %v", spared, sent, test.want)
			}
			if want := int(1 - min(test.change.Kind-1, 1)); closes != want {
				t.Errorf("got %d closes to observe, want %d", closes, want)
			}
		})
	}
}

// TestAMoveOfASparedCloseIsNotPutOff: gates never learned of the closure, so that its end is nothing that they go by.
func TestAMoveOfASparedCloseIsNotPutOff(t *testing.T) {
	w := newTeller(t)
	for name, tell := range map[string]bool{"spared": false, "spared, and then known by a plan": true} {
		var q Queue
		if n := q.Offer([]fold.Change{w.closed(now+200*ms, none)}, nil, Terms{Now: now, AsOf: now, Lag: 200 * ms, Margin: ms}); n != 1 {
			t.Fatalf("%s: got %d spared, want the close", name, n)
		}
		if tell {
			q.Offer(nil, []predict.Plan{w.plan(schemas.Span{CloseAt: now, Until: now + 200*ms}, next)}, Terms{Now: now, AsOf: now})
		}
		q.Take(now, 0)
		fast := Terms{Now: now + 100*ms, AsOf: now + 100*ms, Lag: 5 * ms, Margin: 20 * ms} // the lag has got better
		q.Offer([]fold.Change{w.moved(fast.AsOf, now+200*ms, now+5*sec)}, nil, fast)
		if got := len(q.Take(fast.Now, 0)) == 1; got == tell {
			t.Errorf("%s: got sent at once %v, want %v", name, got, !tell)
		}
	}
}

// TestALongLagSparesNothing: canaries come from whoever may write to the topic. If they say that decisions take longer than closures
// last, gates must nevertheless learn of these: they may be there in time.
func TestALongLagSparesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		length, lag, rest int64
		want              bool
	}{
		"a short window":                  {sec, 250 * ms, 250 * ms, true},
		"over a quarter of it":            {sec, 251 * ms, 1, false},
		"a long window":                   {3600 * sec, 2 * sec, 2 * sec, true},
		"a long window, longer than that": {3600 * sec, 2 * sec, 2*sec + 1, false},
		"over two seconds":                {3600 * sec, 2*sec + 1, 1, false},
		"a window of next to nothing":     {3, 1, 0, false},
		"no lag":                          {sec, 0, 0, false},
	} {
		d := schemas.Decision{CloseAt: now, Until: now + test.rest, Evidence: schemas.Evidence{AsOfTime: now}}
		if got := (&Terms{Lag: test.lag}).over(&d, test.length); got != test.want {
			t.Errorf("%s: got over %v, want %v", name, got, test.want)
		}
	}
}

// TestASparedCloseThatGrowsIsPublished, if it does before it was observed: once, with its close.
func TestASparedCloseThatGrowsIsPublished(t *testing.T) {
	w := newTeller(t)
	var q Queue
	terms := Terms{Now: now, AsOf: now, Lag: 200 * ms, Margin: 50 * ms}
	q.Offer([]fold.Change{w.closed(now+100*ms, none)}, nil, terms)
	q.Offer([]fold.Change{w.moved(now, now+100*ms, now+600*ms)}, nil, terms)
	list := q.Take(now, 0)
	if len(list) != 1 || list[0].Spared || list[0].Decision.Until != now+600*ms || len(list[0].Closes) != 1 || list[0].Kind != Closed {
		t.Errorf("got %+v, want one closed, until 600 ms, with its close", list)
	}
}

// TestWhatCarriesAPlanIsNotSpared: the plan came first, in the same batch, and gates know of it by nothing else.
func TestWhatCarriesAPlanIsNotSpared(t *testing.T) {
	w := newTeller(t)
	var q Queue
	p := w.plan(counted, next)
	w.offset++
	spared := q.Offer([]fold.Change{w.closed(now+100*ms, next)}, []predict.Plan{p}, Terms{Now: now, AsOf: now, Lag: 200 * ms, Margin: 50 * ms})
	list := q.Take(now, 0)
	if spared != 0 || len(list) != 1 || list[0].Spared || list[0].Decision.Next != next || len(list[0].Closes) != 1 {
		t.Errorf("got %d spared and %+v, want the close with what is next", spared, list)
	}
}

// TestWhatGatesWereToldIsForgotten: callers without end take two generations of keys, 65,536 in all. A second of quiet frees most.
func TestWhatGatesWereToldIsForgotten(t *testing.T) {
	var g generations[int64]
	key := func(i int) Key { return Key{Rule: "r", Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint(i)}} }
	for i := range 4 * maxYoung {
		g.put(key(i), int64(i), now, sec)
		if v, ok := g.get(key(i)); !ok || v != int64(i) {
			t.Fatalf("got %d, %v for %d, want what was put", v, ok, i)
		}
		if n := len(g.young) + len(g.old); n > 65_536 {
			t.Fatalf("got %d keys, want at most 65,536", n)
		}
	}
	if _, ok := g.get(key(0)); ok {
		t.Error("got the oldest of all still")
	}
	g.put(key(1), 1, now+sec, sec)
	if _, ok := g.get(key(4*maxYoung - 1)); !ok {
		t.Error("a second later: got nothing of the newest, want it for a second at least")
	}
	for _, at := range []int64{now + 3*sec, now - sec} { // two seconds after the last one, and after the clock was put back
		if g.put(key(2), 2, at, sec); len(g.young) != 1 || len(g.old) != 0 {
			t.Errorf("got %d and %d keys, want one", len(g.young), len(g.old))
		}
	}
}
