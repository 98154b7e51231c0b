package fold

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/deploy/testenv"
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
	testenv.Long(t)
	tests := map[string]struct {
		fill, next func(n int) *schemas.Control
		most       int
		want       error
		reason     string
	}{
		"of one caller": {
			func(n int) *schemas.Control { return closeRecord(n, "x") }, func(n int) *schemas.Control { return closeRecord(n, "x") },
			override.MaxOfCaller, override.ErrCaller, "caller",
		},
		"modes": {
			func(n int) *schemas.Control {
				return &schemas.Control{ID: controlNumber(n), Action: schemas.ControlMode, Rule: fmt.Sprint("r", n), Until: hour}
			},
			func(n int) *schemas.Control {
				return &schemas.Control{ID: controlNumber(n), Action: schemas.ControlMode, Until: hour}
			},
			override.MaxModes, override.ErrModes, "modes",
		},
		"in all": {
			func(n int) *schemas.Control { return closeRecord(n, fmt.Sprint("x", n)) },
			func(n int) *schemas.Control {
				return &schemas.Control{ID: controlNumber(n), Action: schemas.ControlReset, Caller: callerOf("x1")}
			},
			override.MaxRecords, override.ErrFull, "full",
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
			before, inForce := f.Digest(1), f.Stats().InForce
			for range 3 {
				if err := f.Control(test.next(test.most+1), 1, int64(test.most)); !errors.Is(err, test.want) || override.Reason(err) != test.reason {
					t.Fatalf("one more: got %v, want %v", err, test.want)
				}
			}
			if s := f.Stats(); s.ControlRefused[test.reason] != 3 || s.InForce != inForce || s.Controls != uint64(test.most) || f.Dirty() != 0 ||
				f.Digest(1) != before || len(f.TakeChanges()) != 0 {
				t.Errorf("got %+v, want 3 refused and nothing changed", s.ControlRefused)
			}
			undo := &schemas.Control{ID: controlNumber(1 << 30), Action: schemas.ControlUndo, Target: controlNumber(1)}
			if err := f.Control(undo, 1, 1<<30); err != nil || f.Stats().InForce != inForce-1 {
				t.Fatalf("undo where there is no room: got %v", err)
			}
			rowEntry(f, 2*hour, "y", 1)
			if !forgotAll(f) {
				t.Errorf("when all are over: got %d in force, want nothing left of any", f.Stats().InForce)
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
		if err := f.Control(c, 1, 1); !errors.Is(err, override.ErrOver) || override.Reason(err) != "over" {
			t.Errorf("%s: got %v, want %v", name, err, override.ErrOver)
		}
	}
	for a, want := range map[schemas.ControlAction]string{0: "action", schemas.ControlRules: "", schemas.ControlRules + 1: "action"} {
		c := closeRecord(9, "x")
		c.Action, c.Until = a, 40*hour
		if err := f.Control(c, 1, 1); override.Reason(err) != want {
			t.Errorf("action %d: got %v, want reason %q", a, err, want)
		}
	}
	if f.Dirty() != 0 || len(f.TakeChanges()) != 0 || len(recordsOf(f)) != 0 {
		t.Error("something changed")
	}
	inTime := &schemas.Control{ID: controlNumber(2), Action: schemas.ControlReset, Caller: callerOf("x"), Time: 6*hour + 1}
	if err := f.Control(inTime, 1, 1); err != nil || len(f.TakeChanges()) != 1 {
		t.Errorf("in time: got %v, want x opened", err)
	}
}

// TestControlRecordsSayWhatTheyAre: a reader sees who decided it, where it was applied, and what became of it.
func TestControlRecordsSayWhatTheyAre(t *testing.T) {
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
	want := []override.Record{
		{Control: *closeRecord(1, "y"), Offset: 100, From: 40, At: 5 * second},
		{Control: *first, Offset: 101, From: 41, At: 5 * second, UndoneBy: undo},
	}
	if got := recordsOf(f); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	count := 0
	for range f.View().Records().All(0) {
		count++
		break
	}
	if count != 1 {
		t.Errorf("got %d before the end, want 1", count)
	}
	for from, want := range map[int64]int{-1: 2, 100: 2, 101: 1, 102: 0, math.MaxInt64: 0} {
		count = 0
		for r := range f.View().Records().All(from) {
			if count++; r.Offset < from {
				t.Errorf("from %d: got %+v", from, r)
			}
		}
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

// TestRulesInShadow: Rules are the file's, whatever people say; the fold counts by copies.
func TestRulesInShadow(t *testing.T) {
	set := foldtest.Rules(t, tenAMinute, threeAnHour)
	f := New(set, Options{})
	if err := f.Control(&schemas.Control{ID: controlNumber(1), Action: schemas.ControlMode, Rule: "b", Until: hour}, 1, 1); err != nil {
		t.Fatal(err)
	}
	if f.Rules() != set || f.rules.set.Rules[0] != set.Rules[0] || set.Rules[1].Mode != schemas.ModeEnforce {
		t.Error("want the file's rules as they were")
	}
	if r := f.rules.set.Rules[1]; r.Mode != schemas.ModeShadow || r.Fingerprint() != set.Rules[1].Fingerprint() || r.Shape() != set.Rules[1].Shape() {
		t.Errorf("got %+v, want b in shadow", r)
	}
	if s := f.Stats(); s.Rules[1].Mode != schemas.ModeShadow || s.Rules[0].Mode != schemas.ModeEnforce {
		t.Errorf("got %+v, want b in shadow", s.Rules)
	}
	rowEntry(f, hour, "x", 1)
	if f.rules.set.Rules[1] != set.Rules[1] {
		t.Error("when it is over: want b as in the file")
	}
}

// forgotAll reports whether a fold remembers no control record.
func forgotAll(f *Fold) bool {
	return f.Stats().InForce == 0 && len(recordsOf(f)) == 0 && !f.rules.records.AboutCallers() && f.rules.records.Modes().Len() == 0 && f.rules.records.NextEnd() == math.MaxInt64
}

func TestBadControlRows(t *testing.T) {
	key := override.Key(controlNumber(1))
	for name, value := range map[string][]byte{"another version": {9, 1, 1}, "cut short": {1, 7}} {
		for _, read := range []func(*Fold) error{
			func(f *Fold) error { return f.Put(key, value) }, func(f *Fold) error { return f.Restore(key, value) },
		} {
			f := New(foldtest.Rules(t, tenAMinute), Options{})
			if err := read(f); !errors.Is(err, override.ErrRow) || !forgotAll(f) || f.Dirty() != 0 {
				t.Errorf("%s: got %v, want %v", name, err, override.ErrRow)
			}
		}
	}
}

// FuzzPutControlRecord reads control records as a store or a snapshot might hold them. Whatever is accepted is held and stored as it was, can
// be counted on, undone and outlived, and nothing is left of it then.
func FuzzPutControlRecord(f *testing.F) {
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
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if KindOf(key) != ControlRow || len(value) == 0 {
			return
		}
		fold := New(set, Options{})
		rowEntry(fold, 0, "x", 10)
		fold.TakeChanges()
		fold.TakeDirty()
		if err := fold.Put(key, value); err != nil {
			if !errors.Is(err, override.ErrRow) || len(recordsOf(fold)) != 0 {
				t.Fatalf("got %v and %+v", err, recordsOf(fold))
			}
			return
		}
		list := recordsOf(fold)
		if len(list) == 0 {
			return // it was over
		}
		changes := fold.TakeDirty()
		again := New(set, Options{})
		if len(changes) != 1 || again.Put(changes[0].Key, changes[0].Value) != nil || !reflect.DeepEqual(recordsOf(again), list) {
			t.Fatalf("got %+v again, want %+v", recordsOf(again), list)
		}
		if err := fold.Put(key, value); err != nil || !reflect.DeepEqual(recordsOf(fold), list) {
			t.Fatalf("twice: got %v, %+v", err, recordsOf(fold))
		}
		_ = fold.Control(&schemas.Control{ID: controlNumber(99), Action: schemas.ControlUndo, Target: list[0].ID}, 3, math.MaxInt64)
		rowEntry(fold, second, "x", 1)
		fold.SetRules(set)
		fold.Digest(second)
		fold.Advance(math.MaxInt64)
		if !forgotAll(fold) {
			t.Fatalf("got %+v left when all is over", recordsOf(fold))
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
	testenv.Long(t)
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
	if got := again.View().Closures(1); len(changes) != n || len(got) != n || !slices.EqualFunc(got, f.View().Closures(1), sameClosure) {
		t.Errorf("got %d rows and %d closures, want %d", len(changes), len(got), n)
	}
	if again.Digest(1) != f.Digest(1) {
		t.Error("got another digest")
	}
}

func sameClosure(a, b Change) bool { return a.Caller == b.Caller && a.Closure == b.Closure }
