package fold

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// FuzzFoldFrame folds mutated frames, with a right checksum where they get that far, into a fold that knows some callers.
// Nothing panics, and:
//
//   - a frame that is refused is counted once, by reason, and changes nothing;
//   - each entry of one that is not is folded, misplaced, a canary, or a line folded before;
//   - the same again changes no count;
//   - a restart finds everything as it was;
//   - an innocent whom the frame does not name stays open.
func FuzzFoldFrame(f *testing.F) {
	set := foldtest.Rules(f, innocentSet...)
	o := Options{Partition: 0, Partitions: 1, MaxSenders: 3, MaxRows: 50}
	f.Add(foldtest.Encode(f, innocentFrame()), frameNow, true)
	f.Add(foldtest.Encode(f, sourceFrame(o, lineEntries(1)...)), int64(0), true)
	f.Add(foldtest.Encode(f, sourceFrame(o, append(lineEntries(5), lineEntries(4)...)...)), int64(math.MaxInt64), false)
	f.Add(foldtest.Encode(f, foldtest.Frame(math.MaxUint64, math.MinInt64, schemas.Entry{
		Time: math.MinInt64, Kind: schemas.KindCanary, ID: "a", Count: math.MaxUint32,
	}, schemas.Entry{
		Time: math.MaxInt64, Kind: "key", ID: "b", Count: 1, Response: true, Cost: math.MaxInt64, Status: 500, Blocked: true,
	})), int64(math.MinInt64), true)
	f.Add([]byte{}, int64(0), false)
	f.Fuzz(func(t *testing.T, value []byte, at int64, fixed bool) {
		if fixed && len(value) >= 64 {
			value = checksummed(slices.Clone(value))
		}
		fold := New(set, o)
		first := foldtest.Frame(1, frameNow, schemas.Entry{Time: frameNow, Kind: "key", ID: "known", Count: 5})
		first.Producer = foldtest.Producer(1)
		if err := fold.Frame(Record{Time: frameNow, Value: foldtest.Encode(t, first)}); err != nil {
			t.Fatal(err)
		}
		var kept fakeStore
		kept.commit(t, fold)
		before, rows := fold.Stats(), rowsOf(fold)
		var fr schemas.Frame
		valid := fr.Decode(value) == nil
		err := fold.Frame(Record{Offset: 1, Time: at, Value: value})
		fold.TakeCanaries()
		after := fold.Stats()
		if err != nil {
			if sum(after.Rejected) != 1 || fold.Dirty() != 0 || !slices.Equal(rowsOf(fold), rows) {
				t.Fatalf("refused with %v: got rejected %v and %d rows changed", err, after.Rejected, fold.Dirty())
			}
		} else if !valid {
			t.Fatal("a frame that cannot be read was folded")
		}
		if err == nil {
			accounted(t, &fr, before, after)
			once := rowsOf(fold)
			_ = fold.Frame(Record{Offset: 2, Time: at, Value: value})
			fold.TakeCanaries()
			if got := rowsOf(fold); !slices.Equal(got, once) {
				t.Fatalf("delivered twice: got rows %q, want %q", got, once)
			}
		}
		kept.commit(t, fold)
		fold = kept.restore(t, set, o)
		open(t, fold, &fr)
	})
}

// accounted checks that each entry of a frame was folded, or is known not to have been.
func accounted(t *testing.T, fr *schemas.Frame, before, after Stats) {
	t.Helper()
	var canaries, entries, requests, responses uint64
	for i := range fr.Entries {
		if fr.Entries[i].Kind == schemas.KindCanary {
			canaries++
			continue
		}
		entries++
		if fr.Entries[i].Response {
			responses += uint64(fr.Entries[i].Count)
			continue
		}
		requests += uint64(fr.Entries[i].Count)
	}
	folded := after.Entries - before.Entries
	if !fr.Source && (folded != entries || after.Requests-before.Requests != requests || after.Responses-before.Responses != responses) {
		t.Fatalf("got %d entries, %d requests and %d responses folded, want %d, %d and %d",
			folded, after.Requests-before.Requests, after.Responses-before.Responses, entries, requests, responses)
	}
	if again := after.Duplicate - before.Duplicate; folded+again > entries+canaries || folded+again+canaries < entries {
		t.Fatalf("got %d folded and %d folded before, of %d and %d canaries", folded, again, entries, canaries)
	}
	if after.Rejected[ReasonMisplaced] != 0 || after.Frames != before.Frames+1 {
		t.Fatalf("got %+v", after)
	}
}

// open gives an innocent nine requests, unless fr is about it too, and checks that it stays open.
func open(t *testing.T, fold *Fold, fr *schemas.Frame) {
	t.Helper()
	for i := range fr.Entries {
		if fr.Entries[i].ID == "innocent" {
			return
		}
	}
	fold.TakeChanges()
	good := innocentFrame()
	good.Producer = foldtest.Producer(1)
	if err := fold.Frame(Record{Offset: 3, Time: frameNow, Value: foldtest.Encode(t, good)}); err != nil {
		t.Fatal(err)
	}
	if changes := fold.TakeChanges(); len(changes) != 0 {
		t.Fatalf("got %+v, want nobody closed", changes)
	}
}

func sum(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestMutatedFrames does for a few thousand mutations what FuzzFoldFrame does for as many as it is given time for.
func TestMutatedFrames(t *testing.T) {
	set := foldtest.Rules(t, innocentSet...)
	good := foldtest.Encode(t, innocentFrame())
	for at := range good {
		for _, change := range []byte{1, 0x80, 0xff} {
			value := slices.Clone(good)
			value[at] ^= change
			if at >= 8 {
				value = checksummed(value)
			}
			f := New(set, Options{})
			err := f.Frame(Record{Time: frameNow, Value: value})
			if got := f.Stats(); (err != nil) != (sum(got.Rejected) == 1) || (err != nil) != (got.Entries == 0) {
				t.Fatalf("byte %d changed by %#x: got %v, %+v", at, change, err, got)
			}
			for _, c := range f.TakeChanges() {
				if fmt.Sprint(c.Caller) == "key:innocent" && c.Count.Total < c.Limit {
					t.Fatalf("byte %d changed by %#x: got %+v", at, change, c)
				}
			}
		}
	}
}
