package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// homes is into how many parts an attacker's search divides a table: it wants ids of which all are in one of them.
const homes = 256

// chosenIDs returns n ids that an attacker found: in a Set of its own, of the same binary, their first groups are in one
// part of the table, and their bits of the filter in one part of the filter.
func chosenIDs(n int) (ids []string) {
	mine := New(Options{Logger: quiet()}).Gate("key")
	for i := 0; len(ids) < n; i++ {
		id := fmt.Sprint("chosen-", i)
		if h := mine.sum(id); h>>32*homes>>32 == 7 && len(ids)%2 == 0 || uint64(uint32(h))*homes>>32 == 7 && len(ids)%2 == 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// setOf returns a Set in which these callers are closed.
func setOf(ids []string) *Set {
	s := New(Options{MaxClosed: max(len(ids), 1), Logger: quiet()})
	now := time.Now()
	ds := make([]schemas.Decision, len(ids))
	for i, id := range ids {
		ds[i] = schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce,
			CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
		}
	}
	s.ApplyAt(now, ds)
	return s
}

// groupsTo returns how many groups find looks at for a hash.
func (t *table) groupsTo(hash uint64) (n int) {
	for at := t.home(hash); ; at = (at + 1) % len(t.groups) {
		if n++; matches(t.groups[at].marks.Load(), markEmpty) != 0 || n == len(t.groups) {
			return n
		}
	}
}

// TestChosenIDsDoNotMeetInATable: ids that an attacker chose, by a table of its own, make no lookup longer, neither
// their own nor that of others, and let no more others through the filter.
func TestChosenIDsDoNotMeetInATable(t *testing.T) {
	const n = 4096
	random := make([]string, n)
	for i := range random {
		random[i] = fmt.Sprint("random-", i*7919)
	}
	cost := func(ids []string) (groups, passed int) {
		s := setOf(ids)
		tab, g := s.view.Load(), s.Gate("key")
		for _, id := range ids {
			groups += tab.groupsTo(g.sum(id))
		}
		for i := range 10 * n {
			if h := g.sum(fmt.Sprint("other-", i)); tab.mayHold(h) {
				passed++
				groups += tab.groupsTo(h)
			}
		}
		return groups, passed
	}
	least := func(ids []string) (groups, passed int) { // of three tables, each with a hash of its own: one alone may be unlucky
		groups, passed = cost(ids)
		for range 2 {
			g, p := cost(ids)
			groups, passed = min(groups, g), min(passed, p)
		}
		return groups, passed
	}
	groups, passed := least(random)
	chosenGroups, chosenPassed := least(chosenIDs(n))
	if chosenGroups > 2*groups {
		t.Errorf("got %d groups looked at among chosen ids, want at most twice the %d among random ones", chosenGroups, groups)
	}
	if maxPassed := 3*passed + 100; chosenPassed > maxPassed {
		t.Errorf("got %d of %d others through the filter, want at most %d", chosenPassed, 10*n, maxPassed)
	}
}

// TestClosuresThatComeAndGoLeaveNoTrail: callers that are closed and opened in turn, in an order that an attacker chooses,
// do not lengthen lookups.
func TestClosuresThatComeAndGoLeaveNoTrail(t *testing.T) {
	const n = 1024
	ids := chosenIDs(8 * n)
	s := setOf(ids[:n])
	now := time.Now()
	for i := n; i < len(ids); i++ {
		closing := schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: ids[i]}, Mode: schemas.ModeEnforce,
			CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
		}
		opening := closing
		opening.Caller.ID, opening.Until = ids[i-n], now.UnixNano()
		s.ApplyAt(now, []schemas.Decision{opening, closing})
	}
	tab, g := s.view.Load(), s.Gate("key")
	groups := 0
	for _, id := range ids {
		groups += tab.groupsTo(g.sum(id))
	}
	if mean := float64(groups) / float64(len(ids)); mean > 3 {
		t.Errorf("got %.1f groups looked at for each id after %d changes, want at most 3", mean, len(ids))
	}
}

// BenchmarkChosenInput looks up callers that are closed, and others, in a table of random ids and in one of chosen ids.
func BenchmarkChosenInput(b *testing.B) {
	const n = 1 << 12
	random, others := make([]string, n), make([]string, n)
	for i := range random {
		random[i], others[i] = fmt.Sprint("random-", i*7919), fmt.Sprint("others-", i)
	}
	for name, ids := range map[string][]string{"random": random, "chosen": chosenIDs(n)} {
		s := setOf(ids)
		g := s.Gate("key")
		stop := keepClock(s)
		for what, asked := range map[string][]string{"hits": ids, "misses": others} {
			b.Run(name+"/"+what, func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					g.Closed(asked[i&(n-1)])
				}
			})
		}
		stop()
		b.Run(name+"/apply", func(b *testing.B) {
			for b.Loop() {
				setOf(ids)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/decision")
		})
	}
}
