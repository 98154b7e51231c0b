package fold

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// closeRecord returns a record that closes a caller for an hour.
func closeRecord(n int, caller string) *schemas.Control {
	return &schemas.Control{
		ID: controlNumber(n), Author: "ann", Reason: "ticket", Action: schemas.ControlClose, Caller: callerOf(caller), Until: hour,
	}
}

// TestControlIsBounded: what is beyond a bound is refused and counted, changes nothing, and can be given again when there is room.
func TestControlIsBounded(t *testing.T) {
	tests := map[string]struct {
		fill, next func(n int) *schemas.Control
		most       int
		want       error
		reason     string
	}{
		"of one caller": {
			func(n int) *schemas.Control { return closeRecord(n, "x") }, func(n int) *schemas.Control { return closeRecord(n, "x") },
			MaxOfCaller, ErrManualCaller, "caller",
		},
		"modes": {
			func(n int) *schemas.Control {
				return &schemas.Control{ID: controlNumber(n), Action: schemas.ControlMode, Rule: fmt.Sprint("r", n), Until: hour}
			},
			func(n int) *schemas.Control {
				return &schemas.Control{ID: controlNumber(n), Action: schemas.ControlMode, Until: hour}
			},
			MaxModes, ErrManualModes, "modes",
		},
		"in all": {
			func(n int) *schemas.Control { return closeRecord(n, fmt.Sprint("x", n)) },
			func(n int) *schemas.Control {
				return &schemas.Control{ID: controlNumber(n), Action: schemas.ControlReset, Caller: callerOf("x1")}
			},
			MaxManual, ErrManualFull, "full",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, tenAMinute), Options{})
			rowEntry(f, 1, "x1", 10)
			for n := range test.most {
				if err := f.Control(test.fill(n+1), 1, int64(n)); err != nil {
					t.Fatalf("record %d of %d: %v", n+1, test.most, err)
				}
			}
			f.TakeChanges()
			f.TakeDirty()
			before, manual := f.Digest(1), f.Stats().Manual
			for range 3 {
				if err := f.Control(test.next(test.most+1), 1, int64(test.most)); !errors.Is(err, test.want) || ControlReason(err) != test.reason {
					t.Fatalf("one more: got %v, want %v", err, test.want)
				}
			}
			if s := f.Stats(); s.ControlRefused[test.reason] != 3 || s.Manual != manual || s.Controls != uint64(test.most) || f.Dirty() != 0 ||
				f.Digest(1) != before || len(f.TakeChanges()) != 0 {
				t.Errorf("got %+v, want 3 refused and nothing changed", s.ControlRefused)
			}
			undo := &schemas.Control{ID: controlNumber(1 << 30), Action: schemas.ControlUndo, Target: controlNumber(1)}
			if err := f.Control(undo, 1, 1<<30); err != nil || f.Stats().Manual != manual-1 {
				t.Fatalf("undo where there is no room: got %v", err)
			}
			rowEntry(f, 2*hour, "y", 1)
			if f.Stats().Manual != 0 || len(f.manual.byID)+len(f.manual.list) != 0 || len(f.manual.hands) != 0 || len(f.manual.modes) != 0 || f.manual.ends.Len() != 0 {
				t.Errorf("when all are over: got %d in force, want nothing left of any", f.Stats().Manual)
			}
			again := test.next(test.most + 1)
			again.Until, again.Time = 3*hour, 2*hour
			if err := f.Control(again, 2, int64(test.most)); err != nil {
				t.Errorf("when there is room: %v", err)
			}
		})
	}
}

// TestRecordsThatComeTooLate have no effect, whatever a clock said: their time is over in the log.
func TestRecordsThatComeTooLate(t *testing.T) {
	f := New(foldtest.Rules(t, tenAMinute), Options{})
	rowEntry(f, 30*hour, "x", 10)
	f.TakeChanges()
	f.TakeDirty()
	late := map[string]*schemas.Control{
		"a close": closeRecord(1, "x"),
		"a reset": {ID: controlNumber(2), Action: schemas.ControlReset, Caller: callerOf("x"), Time: 6 * hour},
		"a mode":  {ID: controlNumber(3), Action: schemas.ControlMode, Until: 30 * hour},
	}
	for name, c := range late {
		if err := f.Control(c, 1, 1); !errors.Is(err, ErrManualOver) || ControlReason(err) != "over" {
			t.Errorf("%s: got %v, want %v", name, err, ErrManualOver)
		}
	}
	for a, want := range map[schemas.ControlAction]string{0: "action", schemas.ControlRules: "", schemas.ControlRules + 1: "action"} {
		c := closeRecord(9, "x")
		c.Action, c.Until = a, 40*hour
		if err := f.Control(c, 1, 1); ControlReason(err) != want {
			t.Errorf("action %d: got %v, want reason %q", a, err, want)
		}
	}
	if f.Dirty() != 0 || len(f.TakeChanges()) != 0 || len(manualOf(f)) != 0 {
		t.Error("something changed")
	}
	inTime := &schemas.Control{ID: controlNumber(2), Action: schemas.ControlReset, Caller: callerOf("x"), Time: 6*hour + 1}
	if err := f.Control(inTime, 1, 1); err != nil || len(f.TakeChanges()) != 1 {
		t.Errorf("in time: got %v, want x opened", err)
	}
}

// TestManualRecordsSayWhatTheyAre: who reads them sees who did it, where it was applied, and what became of it.
func TestManualRecordsSayWhatTheyAre(t *testing.T) {
	f := New(foldtest.Rules(t, tenAMinute), Options{})
	rowEntry(f, 5*second, "x", 10)
	first, undo := closeRecord(2, "x"), &schemas.Control{
		ID: controlNumber(3), Time: 7, Author: "bob", Reason: "mistake", Action: schemas.ControlUndo, Target: controlNumber(2),
	}
	for i, c := range []*schemas.Control{closeRecord(1, "y"), first, undo} {
		if err := f.Control(c, 40+int64(i), 100+int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	want := []Manual{
		{Control: *closeRecord(1, "y"), Offset: 100, From: 40, At: 5 * second},
		{Control: *first, Offset: 101, From: 41, At: 5 * second, Undone: true, UndoneBy: undo},
	}
	if got := manualOf(f); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	count := 0
	f.Manual(func(Manual) bool { count++; return false })
	if count != 1 {
		t.Errorf("got %d after false, want 1", count)
	}
	for from, want := range map[int64]int{-1: 2, 100: 2, 101: 1, 102: 0, math.MaxInt64: 0} {
		count = 0
		f.ManualFrom(from, func(m Manual) bool {
			if count++; m.Offset < from {
				t.Errorf("from %d: got %+v", from, m)
			}
			return true
		})
		if count != want {
			t.Errorf("from %d: got %d records, want %d", from, count, want)
		}
	}
	for _, c := range f.TakeChanges()[1:] {
		if c.Offset < 39 || c.Offset > 41 {
			t.Errorf("got a change at offset %d, want that before the place of its record", c.Offset)
		}
	}
}

// TestEffectiveRules: Rules are the file's, whatever people say; Effective is what counts.
func TestEffectiveRules(t *testing.T) {
	set := foldtest.Rules(t, tenAMinute, threeAnHour)
	f := New(set, Options{})
	if err := f.Control(&schemas.Control{ID: controlNumber(1), Action: schemas.ControlMode, Rule: "b", Until: hour}, 1, 1); err != nil {
		t.Fatal(err)
	}
	if f.Rules() != set || f.Effective(0) != set.Rules[0] || set.Rules[1].Mode != schemas.ModeEnforce {
		t.Error("want the file's rules as they were")
	}
	if r := f.Effective(1); r.Mode != schemas.ModeShadow || r.Fingerprint() != set.Rules[1].Fingerprint() || r.Shape() != set.Rules[1].Shape() {
		t.Errorf("got %+v, want b in shadow", r)
	}
	if s := f.Stats(); s.Rules[1].Mode != schemas.ModeShadow || s.Rules[0].Mode != schemas.ModeEnforce {
		t.Errorf("got %+v, want b in shadow", s.Rules)
	}
	rowEntry(f, hour, "x", 1)
	if f.Effective(1) != set.Rules[1] {
		t.Error("when it is over: want b as in the file")
	}
}

// badManualValues are rows that no fold writes.
func badManualValues(t testing.TB) map[string][]byte {
	t.Helper()
	m := &manual{Control: *closeRecord(1, "x"), offset: 7, from: 8, at: 9}
	value := func(change func(m *manual)) []byte {
		other := *m
		change(&other)
		return other.value()
	}
	return map[string][]byte{
		"cut short":         m.value()[:20],
		"another version":   append([]byte{9}, m.value()[1:]...),
		"something behind":  append(m.value(), 1),
		"no action":         value(func(m *manual) { m.Action = 0 }),
		"an undo":           value(func(m *manual) { m.Action = schemas.ControlUndo }),
		"a note":            value(func(m *manual) { m.Action = schemas.ControlRules }),
		"a later action":    value(func(m *manual) { m.Action = 200 }),
		"no caller":         value(func(m *manual) { m.Caller = schemas.Caller{} }),
		"a limit of none":   value(func(m *manual) { m.Action, m.Rule = schemas.ControlLimit, "a" }),
		"a limit of nobody": value(func(m *manual) { m.Action, m.Limit = schemas.ControlLimit, 5 }),
		"over at once":      value(func(m *manual) { m.Until = m.Time }),
		"before the topic":  value(func(m *manual) { m.offset = -1 }),
		"before the log":    value(func(m *manual) { m.from = -1 }),
		"a long reason":     value(func(m *manual) { m.Reason = strings.Repeat("r", maxManualText+1) }),
		"undone by a close": value(func(m *manual) { m.undo = closeRecord(2, "x") }),
		"undone by another": value(func(m *manual) { m.undo = &schemas.Control{Action: schemas.ControlUndo, Target: controlNumber(5)} }),
		"a reset undone": value(func(m *manual) {
			m.Action, m.undo = schemas.ControlReset, &schemas.Control{Action: schemas.ControlUndo, Target: m.ID}
		}),
	}
}

func TestBadManualRows(t *testing.T) {
	key := manualKey(controlNumber(1))
	for name, value := range badManualValues(t) {
		for _, read := range []func(*Fold) error{
			func(f *Fold) error { return f.Put(key, value) }, func(f *Fold) error { return f.Restore(key, value) },
		} {
			f := New(foldtest.Rules(t, tenAMinute), Options{})
			if err := read(f); !errors.Is(err, errRow) || len(f.manual.byID) != 0 || f.Dirty() != 0 {
				t.Errorf("%s: got %v and %d records, want %v", name, err, len(f.manual.byID), errRow)
			}
		}
	}
	f := New(foldtest.Rules(t, tenAMinute), Options{})
	if err := f.Put(key[:9], (&manual{Control: *closeRecord(1, "x")}).value()); !errors.Is(err, errRow) {
		t.Errorf("half a key: got %v", err)
	}
}

// FuzzPutManual reads control records as a store or a snapshot might hold them. Whatever is accepted is held and stored as it was, can
// be counted on, undone and outlived, and nothing is left of it then.
func FuzzPutManual(f *testing.F) {
	set := foldtest.Rules(f, tenAMinute)
	seed := New(set, Options{})
	for i, c := range []*schemas.Control{
		closeRecord(1, "x"), {ID: controlNumber(2), Action: schemas.ControlMode, Rule: "a", Until: hour},
		{ID: controlNumber(3), Action: schemas.ControlReset, Caller: callerOf("x"), Author: "ann"},
		{ID: controlNumber(4), Action: schemas.ControlLimit, Caller: callerOf("x"), Rule: "a", Limit: 5, Until: hour},
		{ID: controlNumber(5), Action: schemas.ControlOpen, Caller: callerOf("x"), Until: 2 * hour},
		{ID: controlNumber(6), Action: schemas.ControlUndo, Target: controlNumber(4)},
	} {
		if err := seed.Control(c, int64(i), int64(i)); err != nil {
			f.Fatal(err)
		}
	}
	for _, c := range seed.TakeDirty() {
		f.Add(c.Key, c.Value)
	}
	for _, value := range badManualValues(f) {
		f.Add(manualKey(controlNumber(1)), value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if KindOf(key) != ManualRow || len(value) == 0 {
			return
		}
		fold := New(set, Options{})
		rowEntry(fold, 0, "x", 10)
		fold.TakeChanges()
		fold.TakeDirty()
		if err := fold.Put(key, value); err != nil {
			if !errors.Is(err, errRow) || len(fold.manual.byID) != 0 {
				t.Fatalf("got %v and %d records", err, len(fold.manual.byID))
			}
			return
		}
		list := manualOf(fold)
		if len(list) == 0 {
			return // it was over
		}
		changes := fold.TakeDirty()
		again := New(set, Options{})
		if len(changes) != 1 || again.Put(changes[0].Key, changes[0].Value) != nil || !reflect.DeepEqual(manualOf(again), list) {
			t.Fatalf("got %+v again, want %+v", manualOf(again), list)
		}
		if err := fold.Put(key, value); err != nil || !reflect.DeepEqual(manualOf(fold), list) {
			t.Fatalf("twice: got %v, %+v", err, manualOf(fold))
		}
		_ = fold.Control(&schemas.Control{ID: controlNumber(99), Action: schemas.ControlUndo, Target: list[0].Control.ID}, 3, math.MaxInt64)
		rowEntry(fold, second, "x", 1)
		fold.SetRules(set)
		fold.Digest(second)
		fold.Advance(math.MaxInt64)
		if len(fold.manual.byID)+len(fold.manual.list)+len(fold.manual.hands)+len(fold.manual.modes)+fold.manual.ends.Len() != 0 || fold.Stats().Manual != 0 {
			t.Fatalf("got %+v left when all is over", fold.manual)
		}
	})
}

// BenchmarkControl is a record that closes a caller and ends, while 100,000 others are in force.
func BenchmarkControl(b *testing.B) {
	f := New(foldtest.Rules(b, tenAMinute, threeAnHour), Options{})
	for n := range 100_000 {
		c := closeRecord(n+1, fmt.Sprint("x", n))
		c.Until = math.MaxInt64
		if err := f.Control(c, 1, int64(n)); err != nil {
			b.Fatal(err)
		}
	}
	n := 100_000
	b.ReportAllocs()
	for b.Loop() {
		n++
		c := closeRecord(n, "y")
		c.Until = int64(n)
		if err := f.Control(c, 1, int64(n)); err != nil {
			b.Fatal(err)
		}
		f.Advance(int64(n))
		f.TakeChanges()
		f.TakeDirty()
	}
}

// BenchmarkFoldEntryUnderControl is BenchmarkFoldEntry with 100,000 records in force about other callers.
func BenchmarkFoldEntryUnderControl(b *testing.B) {
	entries := foldtest.ZipfEntries(1 << 18)
	for _, records := range []int{0, 100_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			f := New(foldtest.Rules(b, foldtest.BenchRules()["sliding"]), Options{MaxRows: 1 << 20})
			for n := range records {
				c := closeRecord(n+1, fmt.Sprint("ip:203.0.113.", n))
				c.Until = math.MaxInt64
				if err := f.Control(c, 1, int64(n)); err != nil {
					b.Fatal(err)
				}
			}
			for i := range entries {
				f.Entry(&entries[i])
			}
			last := entries[len(entries)-1].Time - entries[0].Time
			n, shift := 0, last
			for b.Loop() {
				e := entries[n]
				e.Time += shift
				f.Entry(&e)
				if n++; n == len(entries) {
					n, shift = 0, shift+last
					f.TakeChanges()
				}
			}
		})
	}
}

// TestHundredThousandRecordsAreQuick bounds the work of a start, in steps and not in time: each record is applied in a number of
// comparisons that does not grow with how many there are, but for a heap's depth.
func TestHundredThousandRecordsAreQuick(t *testing.T) {
	const n = 100_000
	f := New(foldtest.Rules(t, tenAMinute), Options{})
	began := time.Now()
	for i := range n {
		if err := f.Control(closeRecord(i+1, fmt.Sprint("x", i)), 1, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d records applied in %v", n, time.Since(began))
	began = time.Now()
	changes := f.TakeDirty()
	again := New(f.Rules(), Options{})
	for _, c := range changes {
		if err := again.Restore(c.Key, c.Value); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d records stored and restored in %v", n, time.Since(began))
	if got := again.Closures(1); len(changes) != n || len(got) != n || !slices.EqualFunc(got, f.Closures(1), sameClosure) {
		t.Errorf("got %d rows and %d closures, want %d", len(changes), len(got), n)
	}
	if again.Digest(1) != f.Digest(1) {
		t.Error("got another digest")
	}
}

func sameClosure(a, b Change) bool { return a.Caller == b.Caller && a.Closure == b.Closure }
