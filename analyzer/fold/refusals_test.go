package fold

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// stored is the rows of a list of Refusals as a store holds them.
type stored map[string][]byte

// commit takes what has changed; each change must know what was there before.
func (s stored) commit(t foldtest.T, r *Refusals) {
	changes := r.take(nil)
	for key, sum := range r.removed {
		changes = append(changes, rows.Change{Key: []byte(key), Old: sum})
	}
	clear(r.removed)
	if len(changes) > 0 && r.dirty() != 0 {
		t.Fatalf("got %d changes left behind a commit", r.dirty())
	}
	for _, c := range changes {
		var previous uint64
		if v, ok := s[string(c.Key)]; ok {
			previous = rows.Sum(c.Key, v)
		}
		if c.Old != previous {
			t.Fatalf("row %x: got %x as what was there, want %x", c.Key, c.Old, previous)
		}
		if c.Value == nil {
			delete(s, string(c.Key))
		} else {
			s[string(c.Key)] = slices.Clone(c.Value)
		}
	}
}

func (s stored) open(t foldtest.T) *Refusals {
	r := &Refusals{}
	for key, value := range s {
		if err := r.Restore([]byte(key), value, rows.Sum([]byte(key), value)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestTheListIsASetOfOffsets, whatever is added, removed, pruned, committed and read back.
func TestTheListIsASetOfOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offsets := rapid.Int64Range(0, 5*refusedBlock)
		list, disk, model, start := &Refusals{}, make(stored), make(map[int64]bool), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			o := offsets.Draw(t, "offset")
			switch rapid.SampledFrom([]string{"add", "add", "add", "remove", "prune", "commit", "reopen", "snapshot"}).Draw(t, "step") {
			case "add":
				list.Add(o, 7)
				if o/refusedBlock >= start/refusedBlock {
					model[o] = true
				}
			case "remove":
				list.Remove(o)
				delete(model, o)
			case "prune":
				start = max(start, o)
				list.Prune(o)
				maps.DeleteFunc(model, func(o int64, _ bool) bool { return o/refusedBlock < start/refusedBlock })
			case "commit":
				list.JudgedSince(o, 0)
				disk.commit(t, list)
			case "reopen":
				disk.commit(t, list)
				list, start = disk.open(t), 0
			case "snapshot":
				next := &Refusals{}
				for _, row := range list.rows() {
					if err := next.Restore(row.Key, row.Value, 0); err != nil {
						t.Fatal(err)
					}
				}
				list, disk, start = next, make(stored), 0
			}
			if got := list.Within(0, math.MaxInt64); !slices.Equal(got, slices.Sorted(maps.Keys(model))) {
				t.Fatalf("got %v, want %v", got, slices.Sorted(maps.Keys(model)))
			}
			if list.Has(o) != model[o] {
				t.Fatalf("offset %d: got %v, want %v", o, list.Has(o), model[o])
			}
		}
	})
}

// TestTheListIsBounded: the oldest are forgotten, and the list says so.
func TestTheListIsBounded(t *testing.T) {
	r := &Refusals{}
	r.JudgedSince(5, 0)
	for n := range int64(maxRefusedBlocks + 3) {
		r.Add(n*refusedBlock, 1)
	}
	if len(r.blocks) != maxRefusedBlocks || r.Has(2*refusedBlock) || !r.Has(3*refusedBlock) {
		t.Errorf("got %d blocks, want %d without the oldest three", len(r.blocks), maxRefusedBlocks)
	}
	if r.head.since != 3*refusedBlock || r.head.doubt != 3*refusedBlock {
		t.Errorf("got complete since %d, in doubt before %d, want %d", r.head.since, r.head.doubt, 3*refusedBlock)
	}
}

// TestRefusalsThatCannotBeRead are from another version, or broken.
func TestRefusalsThatCannotBeRead(t *testing.T) {
	good := (&refusedOffsets{epoch: 1}).value()
	for name, row := range map[string]struct{ Key, Value []byte }{
		"no value":             {refusedKey(1), nil},
		"another version":      {refusedKey(1), append([]byte{9}, good[1:]...)},
		"half a key":           {[]byte{byte(RefusalRow), 1, 2}, good},
		"a block cut short":    {refusedKey(1), good[:40]},
		"a block with more":    {refusedKey(1), append(slices.Clone(good), 1)},
		"a block beyond all":   {refusedKey(math.MaxInt64 / refusedBlock), good},
		"a negative block":     {refusedKey(-1), good},
		"a head cut short":     {[]byte{byte(RefusalRow)}, []byte{rowVersion, 1}},
		"a head with more":     {[]byte{byte(RefusalRow)}, []byte{rowVersion, 1, 1, 1}},
		"a head that is no 63": {[]byte{byte(RefusalRow)}, []byte{rowVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0}},
	} {
		if err := (&Refusals{}).Restore(row.Key, row.Value, 1); !errors.Is(err, errRow) {
			t.Errorf("%s: got %v, want %v", name, err, errRow)
		}
	}
}

// FuzzRestoreRefusals: what is read can be written, and is the same then.
func FuzzRestoreRefusals(f *testing.F) {
	r := &Refusals{}
	r.JudgedSince(3, 4)
	r.Add(1, 2)
	r.Add(5000, 3)
	for _, row := range r.rows() {
		f.Add(row.Key, row.Value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r := &Refusals{}
		if KindOf(key) != RefusalRow || r.Restore(key, value, 0) != nil {
			return
		}
		again := &Refusals{}
		for _, row := range r.rows() {
			if err := again.Restore(row.Key, row.Value, 0); err != nil {
				t.Fatalf("read what was written: %v", err)
			}
		}
		if got, want := again.Within(0, math.MaxInt64), r.Within(0, math.MaxInt64); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestARefusedMessageIsNotFolded: a fold ignores the messages on its list, counts them as refused, and folds all others. The
// dedupe table does not learn of them, so that the same frame counts when it comes again at another offset.
func TestARefusedMessageIsNotFolded(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 3, window: 1m}"), Options{})
	f.Refusals().Add(7, 1)
	value := foldtest.Encode(t, foldtest.Frame(1, frameNow, schemas.Entry{Time: frameNow + hour, Kind: "key", ID: "a", Count: 9}))
	err := f.Frame(Record{Offset: 7, Time: frameNow + hour, Value: value})
	if err == nil || Reason(err) != ReasonFuture {
		t.Errorf("got %v, want it refused as one from the future", err)
	}
	if s := f.Stats(); s.Entries != 0 || s.Closes != 0 || s.Rejected[ReasonFuture] != 1 || f.LogTime() != never {
		t.Errorf("got %+v at log time %d, want nothing but one refusal", s, f.LogTime())
	}
	if err := f.Frame(Record{Offset: 8, Time: frameNow, Value: value}); err != nil {
		t.Fatal(err)
	}
	if s := f.Stats(); s.Entries != 1 || s.Closes != 1 || s.Duplicate != 0 || f.LogTime() != frameNow {
		t.Errorf("got %+v at log time %d, want the frame folded at its message's time", s, f.LogTime())
	}
}
