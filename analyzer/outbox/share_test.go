package outbox

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/schemas"
)

// aShare returns a share that holds for six seconds.
func aShare(from int64) *schemas.Share {
	return &schemas.Share{
		From: from, Until: from + 6*sec, Period: sec, Permits: 100, DemandFrom: from - 2*sec, DemandUntil: from - sec, Demand: 200,
	}
}

// TestSharesInTheQueue: every decision about a caller with a share carries it, or it would end; and a close that its permits cover is
// counted and changes nothing for gates.
func TestSharesInTheQueue(t *testing.T) {
	w := newTeller(t)
	old, renewed := aShare(now-sec), aShare(now)
	covered := w.closed(now+500*ms, none)
	covered.Share, covered.Covered = old, true
	moved := w.moved(now, now+500*ms, now+600*ms)
	moved.Share, moved.Covered = old, true
	plain := w.closed(now+500*ms, none)
	plain.Share = old
	opened := w.opened(now)
	plan := func(s *schemas.Share) predict.Plan {
		p := w.plan(schemas.Span{CloseAt: now - sec, Until: now - sec}, none)
		p.Shares, p.Decision.Share = true, s
		return p
	}
	type want struct {
		sent, closes int
		share        *schemas.Share
		closed       bool
	}
	for name, test := range map[string]struct {
		changes []fold.Change
		plans   []predict.Plan
		want    want
	}{
		"a close":                           {[]fold.Change{plain}, nil, want{1, 1, old, true}},
		"a close that permits cover":        {[]fold.Change{covered}, nil, want{0, 1, nil, false}},
		"whose end moves":                   {[]fold.Change{covered, moved}, nil, want{0, 1, nil, false}},
		"only moves":                        {[]fold.Change{moved}, nil, want{0, 0, nil, false}},
		"a share":                           {nil, []predict.Plan{plan(renewed)}, want{1, 0, renewed, false}},
		"a share after a close it covers":   {[]fold.Change{covered}, []predict.Plan{plan(renewed)}, want{1, 1, renewed, false}},
		"a share after a close that counts": {[]fold.Change{plain}, []predict.Plan{plan(renewed)}, want{1, 1, renewed, false}},
		"a share that ends after a close":   {[]fold.Change{covered}, []predict.Plan{plan(nil)}, want{1, 1, nil, false}},
		"an opening by new rules":           {[]fold.Change{opened}, nil, want{1, 0, nil, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var q Queue
			q.Offer(test.changes, test.plans, Terms{Now: now, AsOf: now, Lag: 200 * ms})
			got := want{}
			for _, item := range q.Take(now+2*sec, 0) {
				got.closes += len(item.Closes)
				if item.Spared {
					continue
				}
				d := item.Decision
				got.sent, got.share, got.closed = got.sent+1, d.Share, d.Until > d.CloseAt
				if wantKind := test.plans != nil && len(test.changes) == 0; wantKind != (item.Kind == Share) {
					t.Errorf("got kind %v", item.Kind)
				}
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	t.Run("a close that is covered while a share waits to be sent", func(t *testing.T) {
		var q Queue
		q.Offer(nil, []predict.Plan{plan(renewed)}, Terms{Now: now, AsOf: now})
		q.Offer([]fold.Change{covered}, nil, Terms{Now: now, AsOf: now})
		items := q.Take(now, 0)
		if len(items) != 1 || items[0].Spared || items[0].Decision.Share != renewed || items[0].Decision.Until > items[0].Decision.CloseAt || len(items[0].Closes) != 1 {
			t.Errorf("got %+v, want the share, and the close with it", items)
		}
	})
}

// TestRepeatsCarryTheShare: a closure that is repeated says what gates know of the share, after a new owner has taken over as well.
func TestRepeatsCarryTheShare(t *testing.T) {
	w := newTeller(t)
	c := w.closed(now+sec, none)
	c.Share = aShare(now)
	d := decisionOf(&c)
	f := NewInForce(10)
	f.Set(&d, now)
	f.BeginCycle(now, 1)
	if list := f.Next(1, now); len(list) != 1 || list[0].Share != c.Share {
		t.Errorf("got %+v, want the share", list)
	}
	restored := w.closed(now+sec, none)
	for name, test := range map[string]struct {
		share *schemas.Share
		want  bool
	}{"in force": {aShare(now), true}, "over": {aShare(now - 6*sec), false}, "none": {nil, false}} {
		b := d
		b.Share = test.share
		g := NewInForce(10)
		g.Reconcile(map[Key]schemas.Decision{KeyOf(&b): b}, []fold.Change{restored}, now, func(*schemas.Decision) bool { return true })
		g.BeginCycle(now, 1)
		if list := g.Next(1, now); len(list) != 1 || (list[0].Share != nil) != test.want {
			t.Errorf("%s: got %+v, want it: %v", name, list, test.want)
		}
	}
}
