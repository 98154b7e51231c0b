package fold

import (
	"fmt"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// predicted returns a fold that has just told gates of an early close of x, under a limit of 1,000 in 10 s.
func predicted(t *testing.T) *Fold {
	t.Helper()
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 1000, window: 10s, algorithm: fixed}"), Options{Predict: rules.PredictShares})
	for at := int64(0); at < 10*second; at += 5_000_000 {
		f.Measure(at, 200_000_000)
		rowEntry(f, at, "x", 1)
		f.TakeChanges()
		for _, p := range f.TakePlans() {
			if p.Decision.Early && f.View().Look(callerOf("x"), f.table.now).Rules[0].Span.Until > f.table.now {
				return f
			}
		}
	}
	t.Fatal("nothing was predicted")
	return nil
}

// TestWhatWasToldAheadEndsByHand: gates hold an early close of a caller. When a person says otherwise, they are told at once that the
// caller is open, in the mode that counts now, and nothing goes on from what was measured.
func TestWhatWasToldAheadEndsByHand(t *testing.T) {
	x := callerOf("x")
	for name, c := range map[string]*schemas.Control{
		"open":             {Action: schemas.ControlOpen, Caller: x, Until: hour},
		"another limit":    {Action: schemas.ControlLimit, Caller: x, Rule: "a", Limit: 5000, Until: hour},
		"reset":            {Action: schemas.ControlReset, Caller: x},
		"shadow":           {Action: schemas.ControlMode, Rule: "a", Until: hour},
		"shadow, of all":   {Action: schemas.ControlMode, Until: hour},
		"open, of a later": {Action: schemas.ControlOpen, Caller: x, Rule: "b", Until: hour},
	} {
		t.Run(name, func(t *testing.T) {
			f := predicted(t)
			if c.ID = controlNumber(1); c.Action == schemas.ControlReset {
				c.Time = f.table.now
			}
			if err := f.Control(c, 1, 1); err != nil {
				t.Fatal(err)
			}
			plans := f.TakePlans()
			if c.Rule == "b" {
				if len(plans) != 0 || f.Stats().Tracked != 1 {
					t.Errorf("got %+v and %d trackers, want nothing changed", plans, f.Stats().Tracked)
				}
				return
			}
			if len(plans) != 1 || f.Stats().Tracked != 0 {
				t.Fatalf("got %+v and %d trackers, want one plan that ends it", plans, f.Stats().Tracked)
			}
			d := plans[0].Decision
			if d.Early || d.Until > d.CloseAt || d.Next != (schemas.Span{}) || d.Share != nil || d.Caller != x || d.Mode != f.rules.set.Rules[0].Mode {
				t.Errorf("got %+v, want an opening in mode %v", d, f.rules.set.Rules[0].Mode)
			}
		})
	}
}

// TestMarksUnderControl: a row that may lack weight does so as of now when its limit or mode changes, and so does its rule. What weight
// a caller lost matters for as long as limits say, and those were others.
func TestMarksUnderControl(t *testing.T) {
	tests := map[string]struct {
		c     schemas.Control
		y     int64 // the mark of another caller
		dirty int   // rows, loss, and record
	}{
		"limit": {schemas.Control{Action: schemas.ControlLimit, Caller: callerOf("x"), Rule: "a", Limit: 5, Until: hour}, 0, 3},
		"mode":  {schemas.Control{Action: schemas.ControlMode, Rule: "a", Until: hour}, 2 * second, 4},
	}
	for name, test := range tests {
		f := New(foldtest.Rules(t, tenAMinute), Options{})
		rowEntry(f, second, "x", 1)
		rowOf(f, 0, "x").since, f.table.losses.byRule[0].lost = 0, 0
		rowEntry(f, 2*second, "y", 1)
		f.TakeDirty()
		test.c.ID = controlNumber(1)
		if err := f.Control(&test.c, 1, 1); err != nil {
			t.Fatal(err)
		}
		if x, y, lost := rowOf(f, 0, "x").since, rowOf(f, 0, "y").since, f.table.losses.byRule[0].lost; x != 2*second || y != test.y || lost != 2*second {
			t.Errorf("%s: got marks of %d and %d, and a loss of %d, want 2 s, %d and 2 s", name, x, y, lost, test.y)
		}
		if f.Dirty() != test.dirty {
			t.Errorf("%s: got %d rows to commit, want %d", name, f.Dirty(), test.dirty)
		}
	}
}

// TestFlippingALimitLeavesNothing: a caller that is opened and closed by hand again and again does not fill the wheel.
func TestFlippingALimitLeavesNothing(t *testing.T) {
	f := New(foldtest.Rules(t, tenAMinute), Options{MaxRows: 50})
	rowEntry(f, second, "x", 10)
	for n := range 2000 {
		open := &schemas.Control{ID: controlNumber(2*n + 1), Action: schemas.ControlOpen, Caller: callerOf("x"), Until: hour}
		undo := &schemas.Control{ID: controlNumber(2*n + 2), Action: schemas.ControlUndo, Target: open.ID}
		for i, c := range []*schemas.Control{open, undo} {
			if err := f.Control(c, 1, int64(2*n+i)); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(f.TakeChanges()); n > 0 && got != 2 {
			t.Fatalf("flip %d: got %d changes, want an opening and a close", n, got)
		}
	}
	entries := 0
	for _, bucket := range f.table.wheel.buckets {
		entries += len(bucket)
	}
	if entries > 100 {
		t.Errorf("got %d entries in the wheel, of one row", entries)
	}
}

// TestAScanHandsOutRecordsAsTheyWere when it began: who starts from it applies what came since again.
func TestAScanHandsOutRecordsAsTheyWere(t *testing.T) {
	f := New(foldtest.Rules(t, tenAMinute), Options{})
	rowEntry(f, second, "x", 1)
	undo := &schemas.Control{ID: controlNumber(9), Action: schemas.ControlUndo, Target: controlNumber(1)}
	for n := range 5 {
		if err := f.Control(closeRecord(n+1, fmt.Sprint("x", n)), 1, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	f.BeginScan()
	if err := f.Control(undo, 1, 9); err != nil {
		t.Fatal(err)
	}
	if err := f.Control(closeRecord(10, "later"), 1, 10); err != nil {
		t.Fatal(err)
	}
	again := New(f.Rules(), Options{})
	again.Resume(f.LogTime())
	for pieces := 0; ; pieces++ {
		left := f.Scan().Records()
		piece, more := f.ScanRows(2)
		for _, c := range piece {
			if (KindOf(c.Key) == ControlRow) != (left > 0) {
				t.Errorf("got row %q with %d records left, want them first and alone", c.Key, left)
			}
			if err := again.Put(c.Key, c.Value); err != nil {
				t.Fatal(err)
			}
		}
		if !more {
			if pieces < 3 {
				t.Errorf("got %d pieces of 6 rows, want 2 in each", pieces+1)
			}
			break
		}
	}
	again.EndPuts()
	list := recordsOf(again)
	if len(list) != 5 || list[0].Undone() || again.Stats().InForce != 5 {
		t.Errorf("got %+v, want five records in force", list)
	}
	if err := again.Put(override.Key(controlNumber(3)), nil); err != nil || again.Stats().InForce != 4 {
		t.Errorf("without a value: got %v and %d records in force, want it forgotten", err, again.Stats().InForce)
	}
}

// TestFlagsSurviveAMove: rows that are moved together, because a store holds more than there is room for, are still their callers'.
func TestFlagsSurviveAMove(t *testing.T) {
	f, kept := New(foldtest.Rules(t, tenAMinute), Options{}), fakeStore{}
	for n := range 60 {
		rowEntry(f, second, fmt.Sprint("x", n), 1+uint32(n)/7)
		c := &schemas.Control{ID: controlNumber(n + 1), Action: schemas.ControlOpen, Caller: callerOf(fmt.Sprint("x", n)), Until: hour}
		if err := f.Control(c, 1, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	kept.commit(t, f)
	small := kept.restore(t, f.Rules(), Options{MaxRows: 20})
	seen := 0
	small.View().Rows(second, func(r Row) bool {
		if seen++; !r.Unlimited {
			t.Errorf("got a limit for %s, want none", r.ID)
		}
		return true
	})
	if seen != 20 {
		t.Errorf("got %d rows, want 20", seen)
	}
}

// TestResetOfACallerThatWaits: what the waiting room knows of it is forgotten, too.
func TestResetOfACallerThatWaits(t *testing.T) {
	f := New(foldtest.Rules(t, tenAMinute), Options{MaxRows: 4})
	for n := range 8 {
		rowEntry(f, second, fmt.Sprint("x", n), 3)
	}
	hash := rowHash(f.table.ids.hash("x7"), 0)
	if _, waits := f.table.waiting.find(hash, 0); !waits {
		t.Fatal("x7 does not wait")
	}
	if err := f.Control(&schemas.Control{ID: controlNumber(1), Time: second, Action: schemas.ControlReset, Caller: callerOf("x7")}, 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, waits := f.table.waiting.find(hash, 0); waits {
		t.Error("x7 waits with what it sent before")
	}
}

// TestAResetAtTheEndOfAClosureOpensNobodyTwice: the caller is open already.
func TestAResetAtTheEndOfAClosureOpensNobodyTwice(t *testing.T) {
	for until, want := range map[int64]int{-1: 1, 0: 0} {
		f := New(foldtest.Rules(t, tenAMinute), Options{})
		rowEntry(f, second, "x", 10)
		end := rowOf(f, 0, "x").closure.Until + until
		f.Advance(end)
		f.TakeChanges()
		if err := f.Control(&schemas.Control{ID: controlNumber(1), Time: end, Action: schemas.ControlReset, Caller: callerOf("x")}, 1, 1); err != nil {
			t.Fatal(err)
		}
		if got := f.TakeChanges(); len(got) != want {
			t.Errorf("%d ns from the end: got %+v, want %d changes", until, got, want)
		}
	}
}

// TestAClosureByANewLimitIsCounted: a row that was closed by demand, or has some, is closed by its count when a limit goes down.
func TestAClosureByANewLimitIsCounted(t *testing.T) {
	f := New(foldtest.Rules(t, tenAMinute), Options{})
	early := func(at int64, count uint32) {
		f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "x", Count: count, Blocked: true, Early: true})
	}
	lower := func(n int, limit int64) {
		c := &schemas.Control{ID: controlNumber(n), Action: schemas.ControlLimit, Caller: callerOf("x"), Rule: "a", Limit: limit, Until: hour}
		if err := f.Control(c, 1, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	rowEntry(f, second, "x", 3)
	early(second+1, 8)
	if row := rowOf(f, 0, "x"); row.flags&closedByDemand == 0 || !row.closure.ClosedAt(second+1) {
		t.Fatalf("got %+v, want it closed by demand", row.closure)
	}
	rowEntry(f, minute, "x", 5)
	early(minute+1, 2)
	if row := rowOf(f, 0, "x"); row.flags&hasEarly == 0 {
		t.Fatal("got no demand")
	}
	lower(1, 4)
	if row := rowOf(f, 0, "x"); row.flags&(hasEarly|closedByDemand) != 0 || !row.closure.ClosedAt(minute+1) || len(f.table.sides.earlyWeights) != 0 {
		t.Errorf("got flags %b and %+v, want it closed by its count", row.flags, row.closure)
	}
	f = New(f.Rules(), Options{})
	rowEntry(f, second, "x", 3)
	early(second+1, 8)
	rowEntry(f, minute, "x", 5)
	lower(2, 4)
	if row := rowOf(f, 0, "x"); row.flags&closedByDemand != 0 || !row.closure.ClosedAt(minute) {
		t.Errorf("got flags %b and %+v, want it closed by its count", row.flags, row.closure)
	}
}

// TestRecordsAboutCallersThatARuleLeavesOut do nothing to the rule: no row of it is marked because of them.
func TestRecordsAboutCallersThatARuleLeavesOut(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: 'key:y*', limit: 10, window: 1m, algorithm: fixed}"), Options{})
	rowEntry(f, 2*second, "y", 10)
	f.TakeChanges()
	f.table.losses.byRule[0].lost = 0
	for n, c := range []schemas.Control{
		{Action: schemas.ControlLimit, Rule: "a", Limit: 5, Until: hour}, {Action: schemas.ControlOpen, Until: hour}, {Action: schemas.ControlReset},
	} {
		c.ID, c.Caller = controlNumber(n+1), callerOf("x")
		if err := f.Control(&c, 1, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	if f.table.losses.byRule[0].lost != 0 || len(f.TakeChanges()) != 0 || !rowOf(f, 0, "y").closure.ClosedAt(2*second) {
		t.Errorf("got a loss at %d, or a change, want none", f.table.losses.byRule[0].lost)
	}
}
