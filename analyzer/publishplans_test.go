package analyzer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/predict"
	"github.com/509da70d/floodgate/schemas"
)

// moving returns the change that moves the end of a closure.
func moving(c *fold.Change, by time.Duration) fold.Change {
	m := *c
	m.Kind, m.Before, m.At = policy.Moved, c.Closure, time.Now().UnixNano()
	m.Closure.Until += int64(by)
	return m
}

// planning returns a plan with the spans, which follow one another.
func planning(c *fold.Change, first, next schemas.Span) predict.Plan {
	d := schemas.Decision{
		Rule: c.Rule.Name, RuleVersion: c.Rule.Fingerprint(), Caller: c.Caller, Mode: c.Rule.Mode,
		CloseAt: first.CloseAt, Until: first.Until, Early: first.Early, Next: next, Evidence: schemas.Evidence{AsOfTime: c.At},
	}
	return predict.Plan{Rule: c.Rule, Caller: c.Caller, Decision: d, At: c.At, Offset: c.Offset}
}

// known are terms of a known lag, as of now.
func known(lag time.Duration) outbox.Terms {
	return outbox.Terms{AsOf: time.Now().UnixNano(), Lag: int64(lag), Margin: outbox.MarginOf(0)}
}

// running runs the publisher until the test ends it.
func running(t *testing.T, p *publisher) (end func()) {
	t.Helper()
	done := make(chan error, 1)
	p.start()
	go func() { done <- p.run(t.Context()) }()
	return func() {
		t.Helper()
		p.close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// about returns the decisions about a caller, in the order of the log, and when each was published.
func (m *testLog) about(t *testing.T, id string) (list []*schemas.Decision, at []time.Time) {
	t.Helper()
	records := m.Records("decisions", 0)
	for i, r := range m.decisions(t) {
		if d := r.Decision; d != nil && d.Caller.ID == id {
			list, at = append(list, d), append(at, time.Unix(0, records[i].Time))
		}
	}
	return list, at
}

// TestAMovedEndIsPublishedBeforeTheOldOneComes, and but once, though each request moved it. Nothing else happens that would wake
// the publisher.
func TestAMovedEndIsPublishedBeforeTheOldOneComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := aPublisher(t)
		p.config.Heartbeat, p.config.Repeat = time.Hour, time.Hour
		end := running(t, p)
		c := closing(t, "a")
		c.Closure.Until = c.At + int64(900*time.Millisecond)
		p.offer([]fold.Change{c}, nil, nil, known(200*time.Millisecond))
		time.Sleep(20 * time.Millisecond)
		old := c.Closure.Until
		for range 100 {
			c = moving(&c, time.Millisecond)
			p.offer([]fold.Change{c}, nil, nil, known(200*time.Millisecond))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		list, at := log.about(t, "a")
		if len(list) != 2 || list[1].Until != c.Closure.Until {
			t.Fatalf("got %d decisions, the last until %v; want 2, until %v", len(list), list[len(list)-1].Until, c.Closure.Until)
		}
		if early := time.Unix(0, old).Sub(at[1]); early < 200*time.Millisecond || early > 300*time.Millisecond {
			t.Errorf("got it %v before the end that gates knew of, want a lag of 200 ms and a margin", early)
		}
		end()
	})
}

// TestAPublisherThatStopsLeavesNoMoveBehind: who owns the partition next may take a while.
func TestAPublisherThatStopsLeavesNoMoveBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := aPublisher(t)
		end := running(t, p)
		c := closing(t, "a")
		p.offer([]fold.Change{c}, nil, nil, known(time.Millisecond))
		time.Sleep(20 * time.Millisecond)
		m := moving(&c, time.Minute)
		p.offer([]fold.Change{m}, nil, nil, known(time.Millisecond))
		time.Sleep(20 * time.Millisecond)
		if list, _ := log.about(t, "a"); len(list) != 1 {
			t.Fatalf("got %d decisions, want the move to wait", len(list))
		}
		end()
		if list, _ := log.about(t, "a"); len(list) != 2 || list[1].Until != m.Closure.Until {
			t.Errorf("got %d decisions, the last %+v; want the move as well", len(list), list[len(list)-1])
		}
	})
}

// TestACloseThatIsSparedIsObserved: people see each close, and gates none that would be over.
func TestACloseThatIsSparedIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := aPublisher(t)
		var observed []string
		p.config.Observe = func(c fold.Change, _ int64) { observed = append(observed, c.Caller.ID) }
		end := running(t, p)
		short, long := closing(t, "short"), closing(t, "long")
		short.Closure.Until = short.At + int64(100*time.Millisecond)
		for _, c := range []fold.Change{short, long} {
			p.offer([]fold.Change{c}, nil, nil, known(200*time.Millisecond))
			time.Sleep(time.Second)
		}
		end()
		if got := fmt.Sprint(log.published(t)); got != "[long]" {
			t.Errorf("got %s published, want [long]", got)
		}
		if got := fmt.Sprint(observed); got != "[short long]" {
			t.Errorf("got %s observed, want both", got)
		}
		if s := p.numbers.stats(); s.Spared != 1 || s.Decisions != 1 || s.InForce != 1 || s.Lags.Count != 1 {
			t.Errorf("got %d spared, %d published, %d in force, %d lags; want one of each", s.Spared, s.Decisions, s.InForce, s.Lags.Count)
		}
	})
}

// TestPlansAreOneWordWithClosures: gates get both spans in each decision, also in repeats, and what is only predicted is not
// repeated.
func TestPlansAreOneWordWithClosures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := aPublisher(t)
		p.config.Repeat = 10 * time.Second
		end := running(t, p)
		a, b := closing(t, "a"), closing(t, "b")
		first := schemas.Span{CloseAt: a.Closure.CloseAt, Until: a.Closure.Until}
		next := schemas.Span{CloseAt: first.Until + 1, Until: first.Until + int64(time.Second), Early: true}
		early := schemas.Span{CloseAt: b.At, Until: b.At + int64(30*time.Second), Early: true}
		p.offer([]fold.Change{a}, []predict.Plan{planning(&a, first, next), planning(&b, early, schemas.Span{})}, nil, known(5*time.Millisecond))
		time.Sleep(25 * time.Second)
		list, _ := log.about(t, "a")
		if len(list) != 3 {
			t.Fatalf("a: got %d decisions, want one and two repeats", len(list))
		}
		for i, d := range list {
			if d.CloseAt != first.CloseAt || d.Until != first.Until || d.Early || d.Next != next {
				t.Errorf("a, decision %d: got %+v, want %+v and %+v", i, d, first, next)
			}
		}
		if list, _ := log.about(t, "b"); len(list) != 1 || !list[0].Early {
			t.Errorf("b: got %d decisions, want the one that predicts", len(list))
		}
		s := p.numbers.stats()
		if s.Kinds != [outbox.Kinds]uint64{outbox.Closed: 1, outbox.Early: 1} || s.InForce != 1 {
			t.Errorf("got %v by kind and %d in force, want one closed, one early, and one in force", s.Kinds, s.InForce)
		}
		end()
	})
}
