package peers

import (
	"fmt"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// flags are all subjects that are told who is closed, the gate among them.
func flags(t *testing.T) []Flag {
	t.Helper()
	return append(Flags(), Flag{"floodgate", func(closed []string) Subject { return closing(t, NewGate(closed)) }})
}

func names(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("caller-%015d", i))
	}
	return out
}

func TestFlagsRefuseClosedCallers(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		for _, f := range flags(t) {
			s := f.New(names(0, n))
			if got := s.Ask(names(0, n)); got != n {
				t.Errorf("%s: got %d of %d closed callers refused, want all", f.Name, got, n)
			}
			if got := s.Ask(names(n, 2*n+10)); got != 0 {
				t.Errorf("%s: got %d others refused, want none", f.Name, got)
			}
			if got := s.Ask(names(0, n+10)); got != n {
				t.Errorf("%s: got %d refused of %d and 10 others, want %d", f.Name, got, n, n)
			}
			if got := s.Ask(nil); got != 0 {
				t.Errorf("%s: got %d of nobody refused", f.Name, got)
			}
		}
	}
}

// Closures end: a baseline that left that out would do less than the gate does.
func TestFlagsKnowTimes(t *testing.T) {
	now := time.Now().UnixNano()
	if covers(now-1) || !covers(now+int64(time.Hour)) {
		t.Error("got a closure in force that has ended, or none that has not")
	}
	over := map[string]int64{"over": now - 1}
	c := new(copied)
	c.m.Store(&over)
	sy := new(synced)
	sy.m.Store("over", now-1)
	x, ok := newXsync(nil).(*xsynced)
	if !ok {
		t.Fatal("got no xsynced")
	}
	x.m.Store("over", now-1)
	for _, s := range []Subject{c, &locked{m: over}, sy, x} {
		if got := s.Ask([]string{"over"}); got != 0 {
			t.Errorf("%T: got a caller refused whose closure is over", s)
		}
	}
}

func TestDecisionsAreWholeAndValid(t *testing.T) {
	from := time.Unix(1_700_000_000, 0)
	ds := Decisions(names(0, 3), from, from.Add(time.Minute))
	for i, d := range ds {
		if err := d.Caller.Validate(); err != nil {
			t.Error(err)
		}
		if want := names(i, i+1)[0]; d.Caller.ID != want || d.Caller.Kind != Kind || d.Mode != schemas.ModeEnforce {
			t.Errorf("got %+v, want %s enforced", d, want)
		}
		if d.ClosedAt(from.UnixNano()-1) || !d.ClosedAt(from.UnixNano()) || d.ClosedAt(from.Add(time.Minute).UnixNano()) {
			t.Errorf("got %+v, want closed from %v for a minute", d, from)
		}
	}
	if len(ds) != 3 || ds[0].Seq == ds[1].Seq {
		t.Errorf("got %d decisions, want 3 with seqs of their own", len(ds))
	}
}

func TestSubjectsDoNotAllocateWhereTheyClaimTo(t *testing.T) {
	keys := names(0, 100)
	for _, f := range flags(t) {
		hits, misses := f.New(keys), f.New(names(100, 200))
		if n := testing.AllocsPerRun(100, func() { hits.Ask(keys); misses.Ask(keys) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", f.Name, n)
		}
	}
}
