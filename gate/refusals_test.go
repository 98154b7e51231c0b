package gate

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// refusalsOf returns the counts of rules that are not zero.
func refusalsOf(s *Set) map[string][2]uint64 {
	counts := make(map[string][2]uint64)
	st := s.Status()
	for _, r := range append(st.Refusals, st.StaleRefused) {
		if r.Refused+r.Shadow > 0 {
			counts[r.Rule] = [2]uint64{r.Refused, r.Shadow}
		}
	}
	return counts
}

// TestRefusalsCountByRule asks for callers that several rules close, in each mode: a request counts once, for the rule that
// its verdict names, and not at all if nothing closes its callers.
func TestRefusalsCountByRule(t *testing.T) {
	s := New(exact())
	shadow := closing("trial", "key:b", 0, 100)
	shadow.Mode = schemas.ModeShadow
	both := closing("trial", "key:c", 0, 100)
	both.Mode = schemas.ModeShadow
	s.ApplyAt(at(0), []schemas.Decision{
		closing("short", "key:a", 0, 10), closing("long", "key:a", 0, 20), shadow, both, closing("short", "key:c", 0, 10),
	})
	if st := s.Status(); st.Closed != 2 || st.Shadow != 1 {
		t.Errorf("got %d callers closed and %d in shadow only, want 2 and 1", st.Closed, st.Shadow)
	}
	for _, step := range []struct {
		name   string
		mode   Mode
		at     float64
		caller string
		want   map[string][2]uint64 // what is added
	}{
		{"the longer of two", Enforce, 1, "key:a", map[string][2]uint64{"long": {1, 0}}},
		{"a rule on trial", Enforce, 1, "key:b", map[string][2]uint64{"trial": {0, 1}}},
		{"a rule on trial, and one that enforces", Enforce, 1, "key:c", map[string][2]uint64{"short": {1, 0}}},
		{"that one has ended", Enforce, 11, "key:c", map[string][2]uint64{"trial": {0, 1}}},
		{"nobody is refused", Shadow, 1, "key:a", map[string][2]uint64{"long": {0, 1}}},
		{"gates are off", Off, 1, "key:a", nil},
		{"an open caller", Enforce, 1, "key:d", nil},
		{"all closures have ended", Enforce, 101, "key:a", nil},
	} {
		s.SetMode(step.mode)
		before := refusalsOf(s)
		for range 3 {
			v := check(t, s, step.at, step.caller)
			if (v.Closed || v.Shadow) != (len(step.want) > 0) {
				t.Fatalf("%s: got %+v", step.name, v)
			}
		}
		after := refusalsOf(s)
		for _, rule := range []string{"short", "long", "trial", ""} {
			added := [2]uint64{after[rule][0] - before[rule][0], after[rule][1] - before[rule][1]}
			if want := [2]uint64{3 * step.want[rule][0], 3 * step.want[rule][1]}; added != want {
				t.Errorf("%s: rule %q: got %v more, want %v", step.name, rule, added, want)
			}
		}
	}
}

// TestRefusalsSurviveARebuild of the table, which moves all closures, and the end of the rule's last closure.
func TestRefusalsSurviveARebuild(t *testing.T) {
	s := New(exact())
	s.ApplyAt(at(0), []schemas.Decision{closing("first", "key:x", 0, 5), closing("second", "key:y", 0, 1000)})
	check(t, s, 1, "key:x")
	check(t, s, 1, "key:y")
	s.ApplyAt(at(6), many(0, 5000, 6, 1000)) // grows
	if s.Status().Rebuilds == 0 {
		t.Fatal("the table was not rebuilt")
	}
	check(t, s, 7, "key:y")
	if got := refusalsOf(s); got["first"] != [2]uint64{1, 0} || got["second"] != [2]uint64{2, 0} {
		t.Errorf("got %v", got)
	}
}

// TestRefusalsOfStaleDecisionsHaveNoRule.
func TestRefusalsOfStaleDecisionsHaveNoRule(t *testing.T) {
	o := exact()
	o.Stale = Closed
	s := New(o)
	now := time.Now()
	s.Partitions(1)
	s.Heartbeat(schemas.Heartbeat{Partition: 0, Epoch: 1}, now)
	var c Callers
	c.Add(s.Gate("key"), "anybody")
	if v := s.CheckAt(&c, now.Add(time.Minute)); !v.Stale || !v.Closed {
		t.Fatalf("got %+v", v)
	}
	s.SetMode(Shadow)
	if v := s.CheckAt(&c, now.Add(time.Minute)); v.Closed || !v.Shadow {
		t.Fatalf("got %+v", v)
	}
	if got := s.Status(); got.StaleRefused != (Refusals{Refused: 1, Shadow: 1}) || len(got.Refusals) != 0 {
		t.Errorf("got %+v and %v", got.StaleRefused, got.Refusals)
	}
}

// TestRulesThatAreCountedHaveABound: whoever can write decisions can't make a server keep any number of counters.
func TestRulesThatAreCountedHaveABound(t *testing.T) {
	const thousand = 1000 // as Refusals says
	s := New(exact())
	for i := range thousand + 50 {
		s.ApplyAt(at(0), []schemas.Decision{closing(fmt.Sprint("r", i), fmt.Sprint("key:", i), 0, 1000)})
	}
	for i := range thousand + 50 {
		check(t, s, 1, fmt.Sprint("key:", i))
	}
	rules := s.Status().Refusals
	if len(rules) != thousand+1 || rules[thousand] != (Refusals{Rule: otherRules, Refused: 50}) {
		t.Errorf("got %d rules, the last %+v, want %d", len(rules), rules[len(rules)-1], thousand+1)
	}
	if i := slices.IndexFunc(rules[:thousand], func(r Refusals) bool { return r.Refused != 1 }); i >= 0 {
		t.Errorf("got %+v, want one refusal", rules[i])
	}
}

// TestRefusalsWhileRulesAppear: many goroutines count while a writer adds rules. No request is lost. For the race detector.
func TestRefusalsWhileRulesAppear(t *testing.T) {
	const requests, askers = 2000, 4
	s := New(exact())
	s.ApplyAt(at(0), []schemas.Decision{closing("r", "key:x", 0, 1000)})
	var all sync.WaitGroup
	for range askers {
		all.Go(func() {
			for range requests {
				var c Callers
				c.Add(s.Gate("key"), "x")
				s.CheckAt(&c, at(1))
			}
		})
	}
	for i := range 200 {
		s.ApplyAt(at(0), []schemas.Decision{closing(fmt.Sprint("more", i), fmt.Sprint("key:", i), 0, 1000)})
	}
	all.Wait()
	if got := refusalsOf(s)["r"]; got != [2]uint64{askers * requests, 0} {
		t.Errorf("got %v, want %d", got, askers*requests)
	}
}

// BenchmarkCheckClosed is a request of a closed caller, which is counted by its rule.
func BenchmarkCheckClosed(b *testing.B) {
	s := closedSet(1000)
	defer keepClock(s)()
	keys, ids := s.Gate("key"), askers(1<<9)
	b.Run("one goroutine", func(b *testing.B) {
		cpu(b, func(n int) {
			for i := range n {
				var c Callers
				c.Add(keys, ids[i&(len(ids)-1)])
				if v := s.Check(&c); !v.Closed {
					b.Fatal("got open")
				}
			}
		})
	})
	b.Run("all processors", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				var c Callers
				c.Add(keys, ids[i&(len(ids)-1)])
				s.Check(&c)
			}
		})
	})
}
