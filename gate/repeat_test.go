package gate

import (
	"fmt"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// TestARepeatOpensWhatWasNotRepeated: a caller that was opened while nobody told the link is open once all has come again, and not before.
// What was repeated, and what came meanwhile, stays; another rule's closure of the same caller ends on its own. A repeat that was cut off
// opens nobody.
func TestARepeatOpensWhatWasNotRepeated(t *testing.T) {
	s := New(exact())
	apply := func(ds ...schemas.Decision) { s.ApplyAt(at(1), ds) }
	const forever = 1000
	stays, opened, mapped := closing("r", "key:stays", 0, forever), closing("r", "key:opened", 0, forever), closing("r", "ip:::ffff:192.0.2.1", 0, forever)
	twice := closing("other", "key:stays", 0, forever+1)
	next := then(closing("r", "key:next", 0, 5), 50, 60, true)
	share := sharing("r", "key:shared", 0, forever, 10, 10, -2)
	apply(stays, opened, mapped, twice, next, share)
	want := func(when string, now float64, closed ...string) {
		t.Helper()
		s.verify(t)
		for _, caller := range []string{"key:stays", "key:opened", "ip:192.0.2.1", "key:next", "key:new"} {
			is := false
			for _, c := range closed {
				is = is || c == caller
			}
			if got := check(t, s, now, caller); got.Closed != is {
				t.Errorf("%s: got %s closed %v, want %v", when, caller, got.Closed, is)
			}
		}
	}
	all := []string{"key:stays", "key:opened", "ip:192.0.2.1"}
	s.RepeatBegins()
	apply(stays)
	s.RepeatBegins() // the feed broke off, and came back
	want("while it is repeated", 10, all...)
	apply(closing("r", "key:new", 0, forever), stays, mapped, next)
	want("before the end", 10, append(all, "key:new")...)
	s.RepeatEnds(at(10))
	want("at the end", 10, "key:stays", "ip:192.0.2.1", "key:new")
	want("what comes later", 55, "key:stays", "ip:192.0.2.1", "key:new", "key:next")
	if got := check(t, s, 10, "key:stays"); got.Rule != "r" {
		t.Errorf("got %+v, want that rule r alone closes the caller", got)
	}
	if st := s.Status(); st.Shares != 1 || st.Closed != 4 {
		t.Errorf("got %d shares and %d closed, want the share, which ends by itself, and 4 closed", st.Shares, st.Closed)
	}
	s.Tick(at(11))
	s.RepeatEnds(at(11))
	want("a second end changes nothing", 11, "key:stays", "ip:192.0.2.1", "key:new")
	s.RepeatBegins()
	s.RepeatEnds(at(12))
	want("nothing was repeated", 12)
	New(exact()).RepeatEnds(at(0)) // nothing was ever closed
}

func BenchmarkRepeat(b *testing.B) {
	const callers = 100_000
	var ds []schemas.Decision
	for i := range callers {
		ds = append(ds, closing("r", fmt.Sprint("key:", i), 0, 1000))
	}
	s := New(exact())
	s.ApplyAt(at(1), ds)
	for b.Loop() {
		s.RepeatBegins()
		s.ApplyAt(at(1), ds)
		s.RepeatEnds(at(1))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/callers, "ns/closure")
}
