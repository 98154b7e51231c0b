package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// innocentSet closes whoever makes ten requests, however they are counted.
var innocentSet = []string{
	"{name: fixed, callers: key, limit: 10, window: 1m, algorithm: fixed, close_for: 1h}",
	"{name: sliding, callers: key, limit: 10, window: 1m, close_for: 1h}",
	"{name: log, callers: key, limit: 10, window: 1m, algorithm: log, close_for: 1h}",
	"{name: bucket, callers: key, limit: 10, window: 1m, algorithm: gcra, close_for: 1h}",
	"{name: monthly, callers: key, limit: 10, window: month, timezone: America/St_Johns}",
	"{name: cost, callers: key, limit: 10, window: 1m, measure: cost, close_for: 1h}",
}

// frameNow is when the frames of these tests are flushed.
const frameNow = 1_790_000_000 * second

// innocentFrame returns a frame of nine requests, which leave the caller open; it is the second of its producer.
func innocentFrame() schemas.Frame {
	var entries []schemas.Entry
	for n := range int64(9) {
		entries = append(entries,
			schemas.Entry{Time: frameNow - n*second, Kind: "key", ID: "innocent", Count: 1},
			schemas.Entry{Time: frameNow - n*second, Kind: "key", ID: "innocent", Count: 1, Response: true, Status: 200, Cost: 1})
	}
	return foldtest.Frame(2, frameNow, entries...)
}

// checksummed gives a damaged frame a right checksum: what no accident does, but a producer with a bug.
func checksummed(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func TestBadRecords(t *testing.T) {
	damaged := func(change func(f *schemas.Frame)) []byte {
		f := innocentFrame()
		change(&f)
		return foldtest.Encode(t, f)
	}
	bytesOf := func(change func(b []byte) []byte) []byte { return change(foldtest.Encode(t, innocentFrame())) }
	random := make([]byte, 1000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	tests := map[string]struct {
		value  []byte
		reason string
	}{
		"nothing":                       {nil, "short"},
		"empty":                         {[]byte{}, "short"},
		"random bytes":                  {random, "magic"},
		"random bytes behind a header":  {bytesOf(func(b []byte) []byte { return append(b[:64:64], random...) }), "crc"},
		"an unknown version":            {bytesOf(func(b []byte) []byte { b[2] = 3; return b }), "version"},
		"a wrong checksum":              {bytesOf(func(b []byte) []byte { b[4]++; return b }), "crc"},
		"a flipped bit in an id":        {bytesOf(func(b []byte) []byte { b[bytes.Index(b, []byte("innocent"))] ^= 1; return b }), "crc"},
		"more behind it":                {bytesOf(func(b []byte) []byte { return checksummed(append(b, 0)) }), "bounds"},
		"sequence 0":                    {bytesOf(func(b []byte) []byte { clear(b[24:32]); return checksummed(b) }), "bounds"},
		"unknown flags":                 {bytesOf(func(b []byte) []byte { b[60] |= 0x80; return checksummed(b) }), "bounds"},
		"more entries than there are":   {bytesOf(func(b []byte) []byte { b[59] = 0x1f; return checksummed(b) }), "short"},
		"more strings than there are":   {bytesOf(func(b []byte) []byte { b[57] = 0xff; return checksummed(b) }), "short"},
		"text of 4 GB":                  {bytesOf(func(b []byte) []byte { copy(b[52:], "\xff\xff\xff\xff"); return checksummed(b) }), "short"},
		"text of 2 GB":                  {bytesOf(func(b []byte) []byte { copy(b[52:], "\x00\x00\x00\x80"); return checksummed(b) }), "short"},
		"an entry of no such string":    {bytesOf(func(b []byte) []byte { b[len(b)-12] = 0xff; return checksummed(b) }), "entry"},
		"a count of 0":                  {bytesOf(func(b []byte) []byte { clear(b[len(b)-16 : len(b)-12]); return checksummed(b) }), "entry"},
		"a negative cost":               {bytesOf(func(b []byte) []byte { b[len(b)-17] = 0x80; return checksummed(b) }), "entry"},
		"a kind in capitals":            {bytesOf(func(b []byte) []byte { copy(b[bytes.Index(b, []byte("key")):], "KEY"); return checksummed(b) }), "entry"},
		"another partition key":         {damaged(func(f *schemas.Frame) { f.Fingerprint++ }), ReasonKey},
		"no partition key":              {damaged(func(f *schemas.Frame) { f.Fingerprint = 0 }), ReasonKey},
		"another number of partitions":  {damaged(func(f *schemas.Frame) { f.Partitions = 2 }), ReasonPartitions},
		"no partitions":                 {damaged(func(f *schemas.Frame) { f.Partitions = 0 }), ReasonPartitions},
		"four billion partitions":       {damaged(func(f *schemas.Frame) { f.Partitions = math.MaxUint32 }), ReasonPartitions},
		"a megabyte":                    {make([]byte, 1<<20), "magic"},
		"a megabyte that looks like us": {append(foldtest.Encode(t, innocentFrame()), make([]byte, 1<<20)...), "bounds"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { refused(t, test.value, test.reason) })
	}
	t.Run("every truncation", func(t *testing.T) {
		whole := foldtest.Encode(t, innocentFrame())
		for n := range whole {
			refused(t, whole[:n], "short")
		}
	})
}

// refused gives a fold a record that it must refuse for a reason, and count, and be as good as before.
func refused(t *testing.T, value []byte, reason string) {
	t.Helper()
	f := New(foldtest.Rules(t, innocentSet...), Options{})
	first := foldtest.Frame(1, frameNow, schemas.Entry{Time: frameNow, Kind: "key", ID: "other", Count: 3})
	if err := f.Frame(Record{Offset: 1, Time: frameNow, Value: foldtest.Encode(t, first)}); err != nil {
		t.Fatal(err)
	}
	rows, known, before := rowsOf(f), senders(f.dedupe), f.Stats()
	f.TakeDirty()
	if err := f.Frame(Record{Offset: 2, Time: frameNow, Value: value}); err == nil {
		t.Fatalf("got no error, want it refused as %s", reason)
	}
	after := f.Stats()
	if len(after.Rejected) != 1 || after.Rejected[reason] != 1 {
		t.Fatalf("got rejected %v, want one %s", after.Rejected, reason)
	}
	after.Rejected = before.Rejected
	if fmt.Sprint(after) != fmt.Sprint(before) || f.Dirty() != 0 || len(f.TakeChanges()) != 0 ||
		fmt.Sprint(rowsOf(f)) != fmt.Sprint(rows) || fmt.Sprint(senders(f.dedupe)) != fmt.Sprint(known) {
		t.Fatalf("got %+v, want %+v: what is refused changes nothing", after, before)
	}
	if err := f.Frame(Record{Offset: 3, Time: frameNow, Value: foldtest.Encode(t, innocentFrame())}); err != nil {
		t.Fatalf("the good frame after it: got %v", err)
	}
	if got := f.Stats(); got.Requests != 3+9 || got.Responses != 9 || len(f.TakeChanges()) != 0 {
		t.Fatalf("got %+v, want all of the good frame and nobody closed", got)
	}
}

// TestBadTimes: an entry may say any time. It counts at most up to its own limit, and never shuts a gate that other
// requests would not have shut.
func TestBadTimes(t *testing.T) {
	for name, at := range map[string]int64{
		"a day behind": frameNow - 24*hour, "a day ahead": frameNow + 24*hour, "1970": 0, "before 1970": -1, "just after": 1,
		"the first of times": math.MinInt64, "nearly": math.MinInt64 + 1, "the last of times": math.MaxInt64,
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []bool{true, false} {
				f := New(foldtest.Rules(t, innocentSet...), Options{})
				odd := foldtest.Frame(1, at, schemas.Entry{Time: at, Kind: "key", ID: "odd", Count: 9},
					schemas.Entry{Time: at, Kind: "key", ID: "odd", Count: 1, Response: true, Cost: 9})
				records := [][]byte{foldtest.Encode(t, odd), foldtest.Encode(t, innocentFrame())}
				if !first {
					records[0], records[1] = records[1], records[0]
				}
				for _, value := range records {
					for range 2 { // and again: a strange time makes nobody forget a producer
						if err := f.Frame(Record{Time: frameNow, Value: value}); err != nil {
							t.Fatal(err)
						}
					}
				}
				if got := f.Stats(); got.Requests != 9+9 || got.Responses != 1+9 || got.Duplicate != 2 {
					t.Errorf("got %d requests, %d responses and %d duplicates, want 18, 10 and 2", got.Requests, got.Responses, got.Duplicate)
				}
				if changes := f.TakeChanges(); len(changes) != 0 {
					t.Errorf("got %+v, want nobody closed", changes)
				}
				if f.LogTime() != frameNow {
					t.Errorf("got log time %d, want at most the message's", f.LogTime())
				}
			}
		})
	}
}

// TestClocksOfMessages: a message's own time may be anything too, on a broker that does not bound it. Nothing breaks,
// and nobody is closed for it; what is ahead of all others makes windows forget, which closes nobody.
func TestClocksOfMessages(t *testing.T) {
	times := []int64{math.MinInt64, -hour, 0, frameNow - hour, frameNow, frameNow + hour, math.MaxInt64}
	for _, a := range times {
		for _, b := range times {
			f := New(foldtest.Rules(t, innocentSet...), Options{})
			odd := foldtest.Frame(1, a, schemas.Entry{Time: a, Kind: "key", ID: "odd", Count: 9})
			for range 2 {
				for _, rec := range []Record{{Time: a, Value: foldtest.Encode(t, odd)}, {Time: b, Value: foldtest.Encode(t, innocentFrame())}} {
					if err := f.Frame(rec); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := f.Stats(); got.Requests != 9+9 || got.Responses != 9 || got.Duplicate != 2 || len(f.TakeChanges()) != 0 {
				t.Errorf("messages at %d and %d: got %+v, want each counted once and nobody closed", a, b, got)
			}
		}
	}
}

// TestAClockAheadIsReported: by how much a frame was made later than its message, by the clock of its producer. A clock that is behind is
// like a message that took long.
func TestAClockAheadIsReported(t *testing.T) {
	var heard []time.Duration
	f := New(foldtest.Rules(t, innocentSet...), Options{OnClockAhead: func(producer schemas.ProducerID, by time.Duration) {
		if producer != foldtest.Producer(1) {
			t.Errorf("got producer %v", producer)
		}
		heard = append(heard, by)
	}})
	for n, ahead := range []int64{0, 1, -second, second, math.MaxInt64 - frameNow} {
		fr := foldtest.Frame(uint64(n)+1, frameNow+ahead, schemas.Entry{Time: frameNow, Kind: "key", ID: "a", Count: 1})
		if err := f.Frame(Record{Offset: int64(n), Time: frameNow, Value: foldtest.Encode(t, fr)}); err != nil {
			t.Fatal(err)
		}
	}
	fr := foldtest.Frame(9, math.MaxInt64, schemas.Entry{Time: frameNow, Kind: "key", ID: "a", Count: 1})
	if err := f.Frame(Record{Offset: 9, Time: -frameNow, Value: foldtest.Encode(t, fr)}); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{1, time.Second, math.MaxInt64 - time.Duration(frameNow), math.MaxInt64}; !slices.Equal(heard, want) {
		t.Errorf("got %v, want %v", heard, want)
	}
}

func TestMisplacedEntries(t *testing.T) {
	for _, partitions := range []int{2, 8} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) { misplaced(t, partitions) })
	}
}

// misplaced sends a hundred callers to the last of some partitions.
func misplaced(t *testing.T, partitions int) {
	t.Helper()
	key := schemas.DefaultPartitionKey()
	var fr schemas.Frame
	here := uint64(0)
	for n := range 100 {
		fr.Entries = append(fr.Entries, schemas.Entry{Time: frameNow, Kind: "key", ID: fmt.Sprint(n), Count: 1})
		if schemas.Partition(key.Hash("key", fmt.Sprint(n)), partitions) == partitions-1 {
			here++
		}
	}
	fr = foldtest.Frame(1, frameNow, fr.Entries...)
	fr.Partitions = uint32(partitions)
	f := New(foldtest.Rules(t, innocentSet...), Options{Partition: partitions - 1, Partitions: partitions})
	if err := f.Frame(Record{Time: frameNow, Value: foldtest.Encode(t, fr)}); err != nil {
		t.Fatal(err)
	}
	if got := f.Stats(); got.Entries != here || got.Rejected[ReasonMisplaced] != 100-here || here == 0 {
		t.Errorf("got %d entries and %d misplaced, want %d and %d: they would double a limit", got.Entries, got.Rejected[ReasonMisplaced], here, 100-here)
	}
}

// TestAMisplacedFrameIsNotRemembered: a frame of another partition takes no sequence number of its producer, and moves no source's last
// place. What its producer or source sends to this partition counts once, as if the misplaced frame had not come.
func TestAMisplacedFrameIsNotRemembered(t *testing.T) {
	o := Options{Partition: 1, Partitions: 2}
	var callers [2]string // one of each partition
	key := schemas.DefaultPartitionKey()
	for n := range 64 {
		id := fmt.Sprint(n)
		callers[schemas.Partition(key.Hash("key", id), 2)] = id
	}
	frame := func(seq uint64, callers ...string) schemas.Frame {
		fr := foldtest.Frame(seq, frameNow)
		fr.Partitions = 2
		for _, id := range callers {
			fr.Entries = append(fr.Entries, schemas.Entry{Time: frameNow, Kind: "key", ID: id, Count: 1})
		}
		return fr
	}
	lines := func(first int64, callers ...string) schemas.Frame {
		fr := sourceFrame(o)
		for n, id := range callers {
			fr.Entries = append(fr.Entries, schemas.Entry{Time: frameNow, Kind: "key", ID: id, Count: 1, Offset: first + int64(n)})
		}
		return fr
	}
	other, own := callers[0], callers[1]
	for name, test := range map[string]struct {
		misplaced, good schemas.Frame
		here            uint64 // entries of misplaced that belong here
	}{
		"the same number":               {frame(1, other), frame(1, own), 0},
		"a number far ahead":            {frame(99, other, other), frame(1, own, own), 0},
		"the same line":                 {lines(0, other), lines(0, own), 0},
		"a later line":                  {lines(500, other, other), lines(100, own, own), 0},
		"a later line, beside one here": {lines(100, own, other, other), lines(101, own, own), 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, innocentSet...), o)
			fold := func(fr schemas.Frame) Stats {
				if err := f.Frame(Record{Time: frameNow, Value: foldtest.Encode(t, fr)}); err != nil {
					t.Fatal(err)
				}
				return f.Stats()
			}
			before := fold(test.misplaced)
			if want := uint64(len(test.misplaced.Entries)) - test.here; before.Entries != test.here || before.Rejected[ReasonMisplaced] != want {
				t.Errorf("got %d entries and %d misplaced, want %d and %d", before.Entries, before.Rejected[ReasonMisplaced], test.here, want)
			}
			if test.here == 0 && (before.Senders != 0 || before.Frames != 0 || f.Dirty() != 0) {
				t.Errorf("got %d senders, %d frames and %d rows to commit, want none", before.Senders, before.Frames, f.Dirty())
			}
			want := test.here + uint64(len(test.good.Entries))
			for delivery := range 2 {
				if after := fold(test.good); after.Entries != want || (after.Duplicate > 0) != (delivery > 0) {
					t.Errorf("delivery %d: got %d entries and %d duplicates, want %d entries, and duplicates only of the second delivery",
						delivery+1, after.Entries, after.Duplicate, want)
				}
			}
		})
	}
}

func TestExtremeWeights(t *testing.T) {
	f := New(foldtest.Rules(t, innocentSet...), Options{})
	var entries []schemas.Entry
	for _, cost := range []int64{0, 1, math.MaxUint32, math.MaxInt64, math.MaxInt64} {
		entries = append(entries, schemas.Entry{Time: frameNow, Kind: "key", ID: "big", Count: math.MaxUint32, Response: true, Cost: cost},
			schemas.Entry{Time: frameNow, Kind: "key", ID: "big", Count: math.MaxUint32})
	}
	entries = append(entries, schemas.Entry{Time: frameNow, Kind: "key", ID: "free", Count: math.MaxUint32, Response: true})
	if err := f.Frame(Record{Time: frameNow, Value: foldtest.Encode(t, foldtest.Frame(1, frameNow, entries...))}); err != nil {
		t.Fatal(err)
	}
	closed := make(map[string]int)
	for _, c := range f.TakeChanges() {
		if c.Kind == policy.Closed {
			closed[c.Rule.Name]++
		}
		if c.Caller.ID != "big" || c.Closure.Peak < 10 || c.Closure.Until <= frameNow {
			t.Errorf("got %+v", c)
		}
	}
	for _, r := range f.Rules().Rules {
		if closed[r.Name] != 1 {
			t.Errorf("rule %s: got %d closes, want 1", r.Name, closed[r.Name])
		}
	}
	f.View().Rows(frameNow, func(r Row) bool {
		if r.Total < 10 {
			t.Errorf("rule %s: got a total of %d", r.Rule.Name, r.Total)
		}
		return true
	})
}

func TestTooManyProducersAndRows(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 10, window: 1m}"), Options{MaxSenders: 2, MaxRows: 3})
	for n := range 5 {
		fr := foldtest.Frame(1, frameNow, schemas.Entry{Time: frameNow, Kind: "key", ID: fmt.Sprint(n), Count: 4},
			schemas.Entry{Time: frameNow, Kind: "key", ID: fmt.Sprint("more", n), Count: 2})
		fr.Producer = foldtest.Producer(n)
		if fr.Source = n == 4; fr.Source {
			fr.Seq = 0
		}
		if err := f.Frame(Record{Time: frameNow, Value: foldtest.Encode(t, fr)}); (err == nil) != (n < 2) {
			t.Errorf("producer %d: got %v", n, err)
		}
	}
	if got := f.Stats(); got.Rejected[ReasonSenders] != 3 || got.Rows != 3 || got.Senders != 2 || got.UncountedWeight() != 2 {
		t.Errorf("got %+v, want three frames refused, three rows, and two requests of the fourth caller not counted", got)
	}
}

func TestCanariesCountNowhere(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: a, callers: key, limit: 1, window: 1m}"), Options{})
	probe := schemas.Entry{Time: frameNow + hour, Kind: schemas.KindCanary, ID: "probe", Count: 1}
	if err := f.Frame(Record{Time: frameNow, Value: foldtest.Encode(t, foldtest.Frame(1, frameNow, probe))}); err != nil {
		t.Fatal(err)
	}
	if got := f.TakeCanaries(); len(got) != 1 || got[0].ID != "probe" || got[0].Time != frameNow {
		t.Errorf("got %+v, want the probe, not after its message", got)
	}
	if got := f.Stats(); got.Rows != 0 || got.Requests != 0 || len(f.TakeChanges()) != 0 || len(f.TakeCanaries()) != 0 {
		t.Errorf("got %+v, want it counted nowhere", got)
	}
	if f.LogTime() != math.MinInt64 {
		t.Errorf("got log time %d, want none", f.LogTime())
	}
}

func TestErrorsOfFramesAreTheDecoders(t *testing.T) {
	f := New(foldtest.Rules(t, innocentSet...), Options{})
	if err := f.Frame(Record{Value: []byte("fg")}); !errors.Is(err, schemas.ErrFrameShort) {
		t.Errorf("got %v, want %v", err, schemas.ErrFrameShort)
	}
}
