package gate

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/schemas"
)

// model is a Set as one would write it without a care for speed: closures per caller and rule, in maps.
type model map[schemas.Caller]map[string]schemas.Decision

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
			if d.Mode == mode && d.CloseAt <= until && until < d.Until && (closed || d.ClosedAt(now)) {
				until, closed, again = d.Until, true, true
			}
		}
	}
	return until, closed
}

// TestSetIsItsModel drives a Set and its model with the same decisions, in a time that only moves forward, and compares
// every verdict. Few callers and rules, so that closures overlap; sweeps and rebuilds happen in between.
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
				var ds []schemas.Decision
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					closeAt := now.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "from")) * time.Second)
					length := time.Duration(rapid.IntRange(-2, 10).Draw(t, "length")) * time.Second
					d := schemas.Decision{
						Rule: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "rule"), Caller: caller.Draw(t, "caller"),
						Mode:    rapid.SampledFrom([]schemas.Mode{schemas.ModeEnforce, schemas.ModeShadow}).Draw(t, "mode"),
						CloseAt: closeAt.UnixNano(), Until: closeAt.Add(length).UnixNano(),
					}
					ds = append(ds, d)
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
				who := caller.Draw(t, "asked")
				var c Callers
				c.Add(s.Gate(who.Kind), who.ID)
				v := s.CheckAt(&c, now)
				until, closed := m.closed(who, schemas.ModeEnforce, now.UnixNano())
				shadowUntil, shadow := m.closed(who, schemas.ModeShadow, now.UnixNano())
				if v.Closed != closed || v.Shadow != shadow {
					t.Fatalf("%v at %v: got %+v, want closed %v, shadow %v", who, now, v, closed, shadow)
				}
				if !closed {
					until = shadowUntil
				}
				if (closed || shadow) && v.Until.UnixNano() != until {
					t.Fatalf("%v at %v: got until %v, want %v", who, now, v.Until, time.Unix(0, until))
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
	live, tombs, held := 0, 0, tally{}
	for i := range w.table.slots() {
		switch w.table.mark(i) {
		case markEmpty:
		case markDeleted:
			tombs++
		default:
			live++
			r := w.table.record(i)
			*held.of(r.holding())++
			hash := s.kinds[r.gate()].sum(r.key())
			if !w.table.mayHold(hash) || w.table.find(hash, r.subject().tag, r.key()) == nil {
				t.Fatalf("caller %q is in the table and is not found", r.id())
			}
		}
	}
	if live != w.table.live || tombs != w.table.tombs || live+tombs >= w.table.slots() {
		t.Fatalf("got %d live, %d deleted slots of %d, want %d and %d", live, tombs, w.table.slots(), w.table.live, w.table.tombs)
	}
	if held != w.held {
		t.Fatalf("got callers counted as %v, want %v", w.held, held)
	}
}
