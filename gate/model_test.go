package gate

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// model is the simplest Set: the newest decision per caller and rule, in maps.
type model map[schemas.Caller]map[string]schemas.Decision

// spansOf returns the closures of a decision.
func spansOf(d schemas.Decision) []schemas.Span {
	return []schemas.Span{{CloseAt: d.CloseAt, Until: d.Until, Early: d.Early}, d.Next}
}

func (m model) apply(d schemas.Decision) {
	if m[d.Caller] == nil {
		m[d.Caller] = make(map[string]schemas.Decision)
	}
	m[d.Caller][d.Rule] = d
}

// closed reports whether a mode's closure of the caller is in force, and until when that mode's closures keep it so.
func (m model) closed(c schemas.Caller, mode schemas.Mode, now int64) (until int64, closed bool) {
	until = now
	for again := true; again; {
		again = false
		for _, d := range m[c] {
			for _, span := range spansOf(d) {
				if d.Mode == mode && span.CloseAt <= until && until < span.Until && (closed || span.Covers(now)) {
					until, closed, again = span.Until, true, true
				}
			}
		}
	}
	return until, closed
}

// counted reports whether an enforcing closure of the caller is in force that is not early.
func (m model) counted(c schemas.Caller, now int64) bool {
	for _, d := range m[c] {
		for _, span := range spansOf(d) {
			if d.Mode == schemas.ModeEnforce && span.Covers(now) && !span.Early {
				return true
			}
		}
	}
	return false
}

// onlyShare reports whether a verdict is that of a share. Those that decisions draws have periods of a few nanoseconds.
func onlyShare(v Verdict) bool { return v.ClosedFor(0) && !v.EarlyFor(0) && v.RetryAfter <= 3 }

// decisions draws decisions about few callers and rules, so that closures overlap.
func decisions(t *rapid.T, caller *rapid.Generator[schemas.Caller], now time.Time) (ds []schemas.Decision) {
	for range rapid.IntRange(1, 20).Draw(t, "n") {
		closeAt := now.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "from")) * time.Second)
		length := time.Duration(rapid.IntRange(-2, 10).Draw(t, "length")) * time.Second
		d := schemas.Decision{
			Rule: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rule"), Caller: caller.Draw(t, "caller"),
			Mode:    rapid.SampledFrom([]schemas.Mode{schemas.ModeEnforce, schemas.ModeShadow}).Draw(t, "mode"),
			CloseAt: closeAt.UnixNano(), Until: closeAt.Add(length).UnixNano(), Early: rapid.Bool().Draw(t, "early"),
		}
		if length > 0 && rapid.Bool().Draw(t, "next") {
			from := closeAt.Add(length + time.Duration(rapid.IntRange(0, 3).Draw(t, "gap"))*time.Second)
			to := from.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "next length")) * time.Second)
			d.Next = schemas.Span{CloseAt: from.UnixNano(), Until: to.UnixNano(), Early: rapid.Bool().Draw(t, "next early")}
		}
		if d.Mode == schemas.ModeEnforce && rapid.IntRange(0, 4).Draw(t, "share") == 0 { // see onlyShare
			second := now.Sub(noon).Seconds()
			d.Share = sharing("", "key:x", second-float64(rapid.IntRange(-3, 3).Draw(t, "share from")), second+5, 1, 1, second-1).Share
			d.Share.Permits, d.Share.Period = math.MaxInt64, int64(rapid.IntRange(1, 3).Draw(t, "period"))
		}
		ds = append(ds, d)
	}
	return ds
}

// TestSetIsItsModel drives a Set and its model with the same decisions, in a time that only moves forward, and compares
// every verdict. Sweeps and rebuilds happen in between.
func TestSetIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, m := New(exact()), model{}
		now := noon
		caller := rapid.Custom(func(t *rapid.T) schemas.Caller {
			return schemas.Caller{
				Kind: rapid.SampledFrom([]string{"key", "tenant"}).Draw(t, "kind"),
				ID:   fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id")),
			}
		})
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) {
				ds := decisions(t, caller, now)
				for _, d := range ds {
					m.apply(d)
				}
				s.ApplyAt(now, ds)
			},
			"tick": func(t *rapid.T) { s.Tick(now) },
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"grow": func(t *rapid.T) { s.rebuild(now.UnixNano()); s.publish() },
			"": func(t *rapid.T) {
				asked := caller.Draw(t, "asked")
				var c Callers
				c.Add(s.Gate(asked.Kind), asked.ID)
				v := s.CheckAt(&c, now)
				byShare := onlyShare(v)
				if byShare { // without a closure beside it, which would have refused first
					v = Verdict{Shadow: v.Shadow}
				}
				until, closed := m.closed(asked, schemas.ModeEnforce, now.UnixNano())
				shadowUntil, shadow := m.closed(asked, schemas.ModeShadow, now.UnixNano())
				if v.Closed != closed || v.Shadow != shadow {
					t.Fatalf("%v at %v: got %+v, want closed %v, shadow %v", asked, now, v, closed, shadow)
				}
				if early := closed && !m.counted(asked, now.UnixNano()); v.EarlyFor(0) != early || v.ClosedFor(0) != closed {
					t.Fatalf("%v at %v: got %+v, want early %v", asked, now, v, early)
				}
				if !closed {
					until = shadowUntil
				}
				if (closed || shadow) && !byShare && v.Until.UnixNano() != until {
					t.Fatalf("%v at %v: got until %v, want %v", asked, now, v.Until, time.Unix(0, until))
				}
			},
		})
		s.verify(t)
	})
}

// verify checks what must hold of the writer's own books at any time.
func (s *Set) verify(t interface{ Fatalf(string, ...any) }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.writer
	if w.table == nil {
		return
	}
	live, tombs, counted := 0, 0, tally{}
	held := make(map[uint32]bool) // cells of shares
	for i := range w.table.slots() {
		switch w.table.mark(i) {
		case markEmpty:
		case markDeleted:
			tombs++
		default:
			live++
			cc := w.table.caller(i)
			*counted.of(cc.countedAs())++
			for j := range cc.len() {
				if c := cc.closure(j); c.share() {
					held[w.table.arena.share(c.terms).cell] = true
				}
			}
			hash := s.kinds[cc.gate()].sum(cc.key())
			if !w.table.mayHold(hash) || w.table.find(hash, cc.subject().tag, cc.key()) == nil {
				t.Fatalf("caller %q is in the table and is not found", cc.id())
			}
		}
	}
	if live != w.table.live || tombs != w.table.tombs || live+tombs >= w.table.slots() {
		t.Fatalf("got %d live, %d deleted slots of %d, want %d and %d", live, tombs, w.table.slots(), w.table.live, w.table.tombs)
	}
	if len(held) != s.cells.inUse() {
		t.Fatalf("got %d cells in use, want %d", s.cells.inUse(), len(held))
	}
	if counted != w.counted {
		t.Fatalf("got callers counted as %v, want %v", w.counted, counted)
	}
}
