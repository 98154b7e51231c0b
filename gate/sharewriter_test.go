package gate

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestARenewalThatIsRepeatedChangesNothing: owners repeat decisions, and a repeat finds the share that it gave.
func TestARenewalThatIsRepeatedChangesNothing(t *testing.T) {
	const key = "key:x"
	t.Run("the gate has forgotten the demand meanwhile", func(t *testing.T) {
		s := announced(t, exact(), key, 30)
		renewal := sharing("r", key, 5, 9, 100, 60, 1)
		s.ApplyAt(at(1.2), []schemas.Decision{renewal})
		s.ApplyAt(at(4.5), []schemas.Decision{renewal})
		if n, _ := ask(t, s, 60, 5.5, key); n != 50 {
			t.Errorf("got %d admitted, want the 50 that it has measured", n)
		}
	})
	t.Run("a share of another rule begins before both", func(t *testing.T) {
		s := New(exact())
		s.ApplyAt(at(0), []schemas.Decision{sharing("r", key, 100, 101, 1, 1, 0), sharing("other", key, 100, 101, 1, 1, 0)})
		ask(t, s, 30, 0.5, key)
		renewal := sharing("r", key, 4, 9, 100, 300, 1) // 10 permits
		s.ApplyAt(at(1.2), []schemas.Decision{
			sharing("r", key, 3, 9, 100, 60, 1), renewal, sharing("other", key, 2.5, 9, 1000, 30, 1), renewal,
		})
		for _, step := range []struct {
			at   float64
			want int
		}{{2.75, 60}, {3.5, 50}, {4.5, 10}} {
			if n, _ := ask(t, s, 60, step.at, key); n != step.want {
				t.Errorf("at %v: got %d admitted, want %d", step.at, n, step.want)
			}
		}
		s.verify(t)
	})
}

// TestAShareThatIsOverBeforeItsNextPeriod is not held: the share before it holds until then, and then the caller is open.
func TestAShareThatIsOverBeforeItsNextPeriod(t *testing.T) {
	const key = "key:x"
	s := announced(t, exact(), key, 30)
	s.ApplyAt(at(1.2), []schemas.Decision{sharing("r", key, 2, 9, 100, 60, 1)})
	s.ApplyAt(at(2.6), []schemas.Decision{sharing("r", key, 1, 3, 100, 300, 1)})
	held := s.Holds(schemas.Caller{Kind: "key", ID: "x"}, at(2.7))
	if len(held) != 1 || !held[0].Share || !held[0].Until.Equal(at(3)) {
		t.Errorf("got %+v, want the older share until the next period begins", held)
	}
	if n, _ := ask(t, s, 60, 2.8, key); n != 50 {
		t.Errorf("got %d admitted, want 50 by the older share", n)
	}
	if n, _ := ask(t, s, 60, 3, key); n != 60 {
		t.Errorf("got %d admitted in the next period, want all", n)
	}
	s.verify(t)
}

// TestSharesAtTheirBounds: the shortest and the longest that schemas.Share allows are applied.
func TestSharesAtTheirBounds(t *testing.T) {
	for name, change := range map[string]func(*schemas.Share){
		"the shortest period":    func(s *schemas.Share) { s.Period = 1 },
		"the longest period":     func(s *schemas.Share) { s.Period = int64(schemas.MaxClosure) },
		"no permits":             func(s *schemas.Share) { s.Permits = 0 },
		"the most permits":       func(s *schemas.Share) { s.Permits = math.MaxInt64 },
		"the least demand":       func(s *schemas.Share) { s.Demand = 1 },
		"a short share":          func(s *schemas.Share) { s.Until = s.From + 1 },
		"a long share":           func(s *schemas.Share) { s.Until = s.From + int64(schemas.MaxClosure) },
		"demand of a nanosecond": func(s *schemas.Share) { s.DemandUntil = s.DemandFrom + 1 },
		"demand of a long time":  func(s *schemas.Share) { s.DemandUntil = s.DemandFrom + int64(schemas.MaxClosure) },
	} {
		s := New(exact())
		d := sharing("r", "key:x", 1, 9, 10, 10, 0)
		change(d.Share)
		s.ApplyAt(at(0), []schemas.Decision{d})
		if st := s.StatusAt(at(0)); st.Invalid != 0 || st.Applied != 1 || st.Shares != 1 {
			t.Errorf("%s: got %+v, want one share", name, st)
		}
		s.verify(t)
	}
}

// TestSharesThatDifferAreToldApart: a renewal that differs in one number only, or a little in several, is no repeat.
func TestSharesThatDifferAreToldApart(t *testing.T) {
	seen := make(map[uint64]schemas.Share)
	for n := range int64(1000) {
		for field := range 7 {
			s := *sharing("r", "key:x", 1, 9, 10, 10, 0).Share
			fields := []*int64{&s.From, &s.Until, &s.Period, &s.Permits, &s.DemandFrom, &s.DemandUntil, &s.Demand}
			*fields[field] += 1 + n*int64(time.Millisecond)
			*fields[(field+3)%len(fields)] -= n
			if other, ok := seen[fingerprint(&s)]; ok {
				t.Fatalf("got one fingerprint for %+v and %+v", other, s)
			}
			seen[fingerprint(&s)] = s
		}
	}
}

// TestASharesEndIsItsEnd: a share that is over when its decision comes, and one that another replaces before it begins, are not held.
func TestASharesEndIsItsEnd(t *testing.T) {
	const key = "key:x"
	s := New(exact())
	s.ApplyAt(at(3), []schemas.Decision{sharing("r", key, 1, 3, 100, 60, 1)})
	if st := s.StatusAt(at(3)); st.Shares != 0 || st.Applied != 1 {
		t.Errorf("got %+v, want no share", st)
	}
	for demand := range int64(3) {
		s.ApplyAt(at(3), []schemas.Decision{sharing("r", key, 5, 9, 100, 60+demand, 1)})
	}
	held := s.Holds(schemas.Caller{Kind: "key", ID: "x"}, at(3))
	if len(held) != 1 || !held[0].Share || !held[0].CloseAt.Equal(at(5)) || !held[0].Until.Equal(at(9)) {
		t.Errorf("got %+v, want the last of the shares", held)
	}
	s.verify(t)
}

// TestSharesOnBothSidesOfAClosure of one caller are measured both, and both are given up with the caller.
func TestSharesOnBothSidesOfAClosure(t *testing.T) {
	const key = "key:x"
	for name, end := range map[string][]schemas.Decision{
		"opened": {closing("a", key, 0, 0), closing("b", key, 0, 0)},
		"swept":  nil,
	} {
		s := New(exact())
		s.ApplyAt(at(0), []schemas.Decision{
			sharing("a", key, 100, 110, 1, 1, 0), closing("later", key, 100, 110), sharing("b", key, 100, 110, 1, 1, 0),
		})
		ask(t, s, 30, 0.5, key)
		s.ApplyAt(at(1.2), []schemas.Decision{sharing("b", key, 2, 9, 100, 60, 1)})
		if n, _ := ask(t, s, 60, 2.5, key); n != 50 {
			t.Errorf("%s: got %d admitted, want 50: half of the demand of b was here", name, n)
		}
		s.ApplyAt(at(3), end)
		s.Tick(at(3))
		if end == nil {
			s.Tick(at(200))
		}
		if st := s.Status(); st.Shares != 0 {
			t.Errorf("%s: got %d shares, want none", name, st.Shares)
		}
		s.verify(t)
	}
}

// TestMemoryDoesNotGrowWithRenewals: each renewal of a share takes the place of an older one.
func TestMemoryDoesNotGrowWithRenewals(t *testing.T) {
	s, most := New(exact()), 0
	for i := range 20_000 {
		now := float64(i)
		s.ApplyAt(at(now), []schemas.Decision{sharing("r", "key:x", now+1, now+5, 100, 60, now)})
		if i%50 == 0 {
			most = max(most, s.Status().Bytes)
		}
	}
	if most > 256<<10 || s.Status().Shares != 1 {
		t.Errorf("got up to %d bytes for %d shares, want at most 256 KiB", most, s.Status().Shares)
	}
	s.verify(t)
}
