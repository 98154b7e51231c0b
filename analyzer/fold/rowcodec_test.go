package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

func TestRowKeysRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9_.-]{0,10}`).Draw(t, "rule")
		kind := rapid.StringMatching(`[a-z0-9_-]{1,5}`).Draw(t, "kind")
		id := rapid.OneOf(rapid.String(), rapid.Just("a:b:c"), rapid.Just("\x00"), rapid.Just("\xff\xfe")).Draw(t, "id")
		gotRule, gotKind, gotID, err := ParseRowKey(string(AppendRowKey(nil, rule, kind, id)))
		if err != nil || gotRule != rule || gotKind != kind || gotID != id {
			t.Fatalf("got %q, %q, %q, %v, want %q, %q, %q", gotRule, gotKind, gotID, err, rule, kind, id)
		}
	})
}

func TestRowKeysThatCannotBeRead(t *testing.T) {
	for _, key := range []string{"", "w", "x", "wrule", "wrule\x00", "wrule\x00kind", "rule\x00kind:id", "wrule:kind:id"} {
		if _, _, _, err := ParseRowKey(key); !errors.Is(err, errRow) {
			t.Errorf("%q: got %v, want %v", key, err, errRow)
		}
	}
}

func TestRowValuesRoundTrip(t *testing.T) {
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt64}))
	count := rapid.Int64Range(0, math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) {
		since := rapid.OneOf(rapid.Just[int64](never), rapid.Int64Range(never+1, math.MaxInt64)).Draw(t, "since")
		v0 := StoredRow{shape: rapid.Uint64().Draw(t, "shape"), since: since, Closure: policy.Closure{
			CloseAt: number.Draw(t, "close at"), Until: number.Draw(t, "until"), Nth: count.Draw(t, "nth"), Peak: count.Draw(t, "peak"),
		}}
		switch rapid.IntRange(0, 2).Draw(t, "early") {
		case 1:
			v0.byDemand = true
		case 2:
			v0.early = &earlyWeight{newest: rapid.Int64Range(-maxEarlySlotNumber, maxEarlySlotNumber).Draw(t, "newest slot")}
			for i := range v0.early.weights {
				v0.early.weights[i] = count.Draw(t, "weight")
			}
			v0.early.weights[0] = max(1, v0.early.weights[0])
		}
		for range rapid.IntRange(0, policy.MaxSteps).Draw(t, "closes before") {
			v0.steps = append(v0.steps, policy.Closure{
				CloseAt: number.Draw(t, "close at"), Until: number.Draw(t, "until"),
				Nth: max(1, count.Draw(t, "nth")), Peak: max(1, count.Draw(t, "peak")),
			})
		}
		for range rapid.IntRange(0, 5).Draw(t, "numbers") {
			v0.State = append(v0.State, number.Draw(t, "number"))
		}
		value := v0.AppendTo([]byte("before"))[len("before"):]
		v, err := ParseRow(value)
		if err != nil || !slices.Equal(v.State, v0.State) {
			t.Fatalf("got %+v, %v, want %+v", v, err, v0)
		}
		state := v0.State
		if v.State, v0.State = nil, nil; !reflect.DeepEqual(v, v0) {
			t.Fatalf("got %+v, want %+v", v, v0)
		}
		for n := range value {
			if cut, err := ParseRow(value[:n]); err == nil && (n < rowHead+closureNumbers || slices.Equal(cut.State, state) && cut.Closure == v0.Closure && len(cut.steps) == len(v0.steps)) {
				t.Fatalf("cut to %d of %d bytes: got %+v and no error", n, len(value), cut)
			}
		}
	})
}

func TestRowValuesThatCannotBeRead(t *testing.T) {
	v := StoredRow{shape: 7, since: never, Closure: policy.Closure{CloseAt: 1, Until: 2, Nth: 3, Peak: 4}, State: window.State{5}}
	good := v.AppendTo(nil)
	numbers := func(flags byte, n ...int64) []byte {
		b := bytes.Clone(good[:rowHead])
		b[1] = flags
		for _, v := range n {
			b = binary.AppendVarint(b, v)
		}
		return b
	}
	for name, value := range map[string][]byte{
		"nothing":               nil,
		"another version":       append([]byte{rowVersion + 1}, good[1:]...),
		"an unknown flag":       numbers(allFlags+1, 1, 2, 3, 4),
		"two that exclude":      numbers(earlyFlag|byDemandFlag, 1, 7, 4, 1, 2, 3, 4),
		"no early weight":       numbers(earlyFlag, 0, 1, 2, 3, 4, 5),
		"negative early weight": numbers(earlyFlag, 2, 7, -1, 4, 1, 2, 3, 4),
		"a first slot of none":  numbers(earlyFlag, 2, 7, 0, 4, 1, 2, 3, 4),
		"a last slot of none":   numbers(earlyFlag, 2, 7, 4, 0, 1, 2, 3, 4),
		"too many slots":        numbers(earlyFlag, 9, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4),
		"a slot beyond time":    numbers(earlyFlag, 1, math.MaxInt64, 4, 1, 2, 3, 4),
		"early, no closure":     numbers(earlyFlag, 1, 7, 4, 1, 2, 3),
		"early, and one":        numbers(earlyFlag, 1),
		"no closes before":      numbers(stepsFlag, 0, 1, 2, 3, 4),
		"fewer than none":       numbers(stepsFlag, -1, 1, 2, 3, 4),
		"too many closes":       numbers(stepsFlag, append([]int64{9}, make([]int64, 40)...)...),
		"two closes of one":     numbers(stepsFlag, 2, 1, 2, 1, 4, 1, 2, 2),
		"a close before, alone": numbers(stepsFlag, 1, 1, 2, 1, 4),
		"a close of no number":  numbers(stepsFlag, 1, 1, 2, 0, 4, 1, 2, 3, 4),
		"a close of no peak":    numbers(stepsFlag, 1, 1, 2, 1, 0, 1, 2, 3, 4),
		"closes, and no number": numbers(stepsFlag),
		"nothing in flight":     numbers(holdFlag, 1, 2, 3, 4),
		"no mark":               numbers(markedFlag),
		"a mark, and three":     numbers(markedFlag, 9, 1, 2, 3),
		"a mark of never":       numbers(markedFlag, never, 1, 2, 3, 4),
		"no closure":            good[:rowHead],
		"three numbers":         numbers(0, 1, 2, 3),
		"a negative nth":        numbers(0, 1, 2, -3, 4),
		"a negative peak":       numbers(0, 1, 2, 3, -4),
		"a number cut short":    append(bytes.Clone(good), 0x80),
		"a number of 80 bits":   append(bytes.Clone(good), bytes.Repeat([]byte{0xff}, 11)...),
		"a number of 10 bytes":  append(bytes.Clone(good), append(bytes.Repeat([]byte{0xff}, 9), 2)...),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseRow(value); !errors.Is(err, errRow) {
				t.Errorf("got %v, want %v", err, errRow)
			}
		})
	}
}

// restoreSet has a rule of each algorithm, named by it.
var restoreSet = []string{
	"{name: fixed, callers: key, limit: 6, window: 1m, algorithm: fixed, close_for: 1m}",
	"{name: sliding, callers: key, limit: 8, window: 5m, slots: 5, escalate: {factor: 2, max: 20m}, close_for: 2m}",
	"{name: log, callers: key, limit: 5, window: 10m, algorithm: log}",
	"{name: gcra, callers: key, limit: 10, window: 1m, algorithm: gcra, burst: 4}",
	"{name: calendar, callers: key, limit: 10, window: month, timezone: Europe/Berlin}",
}

func TestRestoreRefusesStatesThatCannotBe(t *testing.T) {
	set := foldtest.Rules(t, restoreSet...)
	for name, state := range map[string]window.State{
		"fixed": {1}, "sliding": {1, 0, 0}, "log": {5, 1, 2}, "gcra": {1}, "calendar": {5, 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(set, Options{})
			rule := set.Rules[f.rules.index(name)]
			key := AppendRowKey(nil, name, "key", "a")
			v := StoredRow{shape: rule.Shape(), since: never, State: state}
			err := f.Restore(key, v.AppendTo(nil))
			if !errors.Is(err, errRow) || f.table.used != 0 {
				t.Errorf("got %v and %d rows, want %v and none", err, f.table.used, errRow)
			}
		})
	}
}

// TestRestoreDropsWhatNoRuleCounts: the next checkpoint deletes it.
func TestRestoreDropsWhatNoRuleCounts(t *testing.T) {
	set := foldtest.Rules(t, restoreSet...)
	f := New(set, Options{})
	rowEntry(f, 0, "a", 5)
	var kept fakeStore
	kept.commit(t, f)
	for name, lines := range map[string][]string{
		"the rule is gone":     restoreSet[1:],
		"it counts otherwise":  append([]string{strings.Replace(restoreSet[0], "1m, algo", "2m, algo", 1)}, restoreSet[1:]...),
		"it counts others now": append([]string{strings.Replace(restoreSet[0], "key", "ip", 1)}, restoreSet[1:]...),
	} {
		t.Run(name, func(t *testing.T) {
			held := kept.clone()
			f := held.restore(t, foldtest.Rules(t, lines...), Options{})
			held.commit(t, f)
			if len(held.rows) != len(restoreSet)-1 {
				t.Errorf("got %d rows, want %d", len(held.rows), len(restoreSet)-1)
			}
		})
	}
}

// FuzzRestore reads rows as a store might hold them. Whatever is accepted is held and stored as it was, and can be
// counted on.
func FuzzRestore(f *testing.F) {
	set := foldtest.Rules(f, append([]string{heldTokens, "{name: flights, callers: key, limit: 5, measure: in_flight}"}, restoreSet...)...)
	seed := New(set, Options{})
	for n := range uint32(8) {
		rowEntry(seed, int64(n)*7*second, "a", n)
	}
	seed.Entry(&schemas.Entry{Time: 49 * second, Kind: "key", ID: "a", Count: 1, Blocked: true, Early: true})
	if err := seed.Frame(Record{Time: minute, Value: foldtest.Encode(f, foldtest.Frame(5, 0))}); err != nil {
		f.Fatal(err)
	}
	if err := seed.Frame(Record{Time: minute, Value: foldtest.Encode(f, sourceFrame(seed.opts))}); err != nil {
		f.Fatal(err)
	}
	if err := seed.Control(closeRecord(1, "a"), 1, 1); err != nil {
		f.Fatal(err)
	}
	for _, e := range []schemas.Entry{ // requests in flight
		{Time: hour, Kind: "key", ID: "b", Count: 1, Arrived: schemas.Tick(hour), Declared: 40},
		{Time: hour + 9*second, Kind: "key", ID: "b", Count: 1, Cost: 70_000, Response: true, Status: 200, Arrived: schemas.Tick(hour)},
		{Time: hour + 9*second, Kind: "key", ID: "b", Count: 8, Arrived: 8 * schemas.Tick(hour+9*second), Declared: 400_000},
	} {
		seed.Entry(&e)
	}
	for _, at := range []int64{4000, 5000, 6000} { // closes in a row
		rowEntry(seed, at*second, "again", 20)
	}
	for _, c := range seed.TakeDirty() {
		f.Add(c.Key, c.Value)
	}
	f.Add([]byte{byte(EventRow)}, []byte("an event"))
	f.Add([]byte{byte(ControlRow)}, []byte("no record"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		switch KindOf(key) {
		case LossRow, EventRow:
			return // they are no rows of callers or senders
		}
		fold := New(set, Options{})
		if err := fold.Restore(key, value); err != nil {
			want := errRow
			if KindOf(key) == ControlRow {
				want = override.ErrRow
			}
			if !errors.Is(err, want) || fold.table.used+len(fold.dedupe.rows)+len(recordsOf(fold)) != 0 {
				t.Fatalf("got %v and %d rows, want %v and none", err, fold.table.used, want)
			}
			return
		}
		fold.Resume(hour)
		rows := rowsOf(fold)
		if len(rows)+len(fold.dedupe.rows)+len(fold.table.removed)+len(recordsOf(fold))+len(fold.rules.records.Removed()) != 1 {
			t.Fatalf("got rows %q and %d senders of one row", rows, len(fold.dedupe.rows))
		}
		for _, row := range rows { // numbers have but one shortest form, so a longer one is not what was stored
			if name, _, _ := strings.Cut(row, "\x00"); !strings.HasPrefix(string(key), name) {
				t.Fatalf("got %q of key %q", row, key)
			}
			again := New(set, Options{})
			if err := again.Restore(key, []byte(row[len(key)+1:])); err != nil || !slices.Equal(rowsOf(again), rows) {
				t.Fatalf("got %q again, %v, want %q", rowsOf(again), err, rows)
			}
		}
		for _, at := range []int64{math.MinInt64, 0, hour, 2 * hour, math.MaxInt64} {
			_, _, id, _ := ParseRowKey(string(key))
			fold.Entry(&schemas.Entry{Time: at, Kind: "key", ID: id, Count: 3, Arrived: 3})
			fold.Entry(&schemas.Entry{Time: at, Kind: "key", ID: id, Count: 1, Cost: 9, Response: true, Status: 200, Arrived: schemas.Tick(0)})
			fold.SetRules(set)
			fold.Digest(at)
		}
		for _, c := range fold.TakeChanges() {
			if c.Kind != policy.Same && c.Closure.Peak < 0 {
				t.Fatalf("got %+v", c)
			}
		}
	})
}

// TestAStoredRowIsReadByItsRule: the value of a row says what its fold holds, and until when the fold keeps the row. A rule that counts in
// another way cannot read it.
func TestAStoredRowIsReadByItsRule(t *testing.T) {
	set := foldtest.Rules(t, "{name: a, callers: key, limit: 3, window: 90s, algorithm: fixed}", "{name: b, callers: key, limit: 3, window: 90s}")
	a, b := set.Rules[0], set.Rules[1]
	f := New(set, Options{})
	rowEntry(f, frameNow, "x", 3)
	key, value := f.table.encode(nil, rowOf(f, 0, "x"))
	v, err := ReadRow(a, value)
	if err != nil || v.LowerBound() || v.Closure.CloseAt != frameNow || a.Window.View(v.State, 3, frameNow).Total != 3 {
		t.Fatalf("got %+v and %v, want the row", v, err)
	}
	if _, err := ReadRow(b, value); !errors.Is(err, errRow) {
		t.Errorf("by another rule: got %v, want %v", err, errRow)
	}
	if _, err := ReadRow(a, value[:len(value)-1]); !errors.Is(err, errRow) {
		t.Errorf("cut short: got %v, want %v", err, errRow)
	}
	if none, err := ReadRow(a, nil); err != nil || none.LowerBound() || none.Closure != (policy.Closure{}) || len(none.State) != 0 {
		t.Errorf("of a caller that was never counted: got %+v and %v", none, err)
	}
	seen := map[bool]bool{}
	for now := frameNow; now < frameNow+20*minute; now += 7 * second {
		f.Advance(now)
		gone := rowOf(f, 0, "x") == nil
		seen[gone] = true
		if v.Dropped(a, now) != gone {
			t.Errorf("after %v: got dropped %v, and the row of the fold is gone: %v", time.Duration(now-frameNow), v.Dropped(a, now), gone)
		}
	}
	if len(seen) < 2 || KindOf(key) != CountRow || KindOf(nil) != 0 {
		t.Errorf("got %v, want a row that is dropped at some time", seen)
	}
	marked := New(set, Options{MaxRows: 1})
	rowEntry(marked, frameNow, "y", 1)
	rowEntry(marked, frameNow, "x", 1)
	marked.table.maxRows = 4
	rowEntry(marked, frameNow+second, "x", 1)
	_, value = marked.table.encode(nil, rowOf(marked, 0, "x"))
	if v, err := ReadRow(a, value); err != nil || !v.LowerBound() {
		t.Errorf("got %+v and %v, want a lower bound", v, err)
	}
}
