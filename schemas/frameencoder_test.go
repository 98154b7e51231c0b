package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestEncoderRefusesWhatDecodeRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *Frame)
		want   error
	}{
		"no kind":               {func(f *Frame) { f.Entries[1].Kind = "" }, ErrCallerKind},
		"a kind in capitals":    {func(f *Frame) { f.Entries[1].Kind = "IP" }, ErrCallerKind},
		"a long kind":           {func(f *Frame) { f.Entries[1].Kind = strings.Repeat("k", MaxCallerKind+1) }, ErrCallerKind},
		"no kind at first":      {func(f *Frame) { f.Entries[0].Kind = "" }, ErrCallerKind},
		"no id":                 {func(f *Frame) { f.Entries[1].ID = "" }, ErrCallerID},
		"a long id":             {func(f *Frame) { f.Entries[1].ID = strings.Repeat("i", MaxCallerID+1) }, ErrCallerID},
		"a long resource":       {func(f *Frame) { f.Entries[1].Resource = strings.Repeat("r", MaxResource+1) }, errEntryResource},
		"count 0":               {func(f *Frame) { f.Entries[1].Count = 0 }, errEntryCount},
		"a negative cost":       {func(f *Frame) { f.Entries[1].Cost = -1 }, errEntryCost},
		"an offset":             {func(f *Frame) { f.Entries[1].Offset = 1 }, errEntryOffset},
		"a negative offset":     {func(f *Frame) { f.Source, f.Seq, f.Entries[1].Offset = true, 0, -1 }, errEntryOffset},
		"negative arrivals":     {func(f *Frame) { f.Entries[2].Arrived = -1 }, errEntryArrived},
		"a negative declared":   {func(f *Frame) { f.Entries[1].Declared = -1 }, errEntryDeclared},
		"early, not blocked":    {func(f *Frame) { f.Entries[1].Blocked, f.Entries[1].Early = false, true }, errEntryEarly},
		"early at first":        {func(f *Frame) { f.Entries[0].Early = true }, errEntryEarly},
		"sequence 0":            {func(f *Frame) { f.Seq = 0 }, ErrFrameBounds},
		"a source's sequence":   {func(f *Frame) { f.Source = true }, ErrFrameBounds},
		"more entries than fit": {func(f *Frame) { f.Entries = repeat(f.Entries[0], MaxFrameEntries+1) }, ErrFrameFull},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrame()
			test.change(&f)
			got, err := f.AppendTo([]byte("before"))
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if string(got) != "before" {
				t.Errorf("got %q, want the buffer as it was", got)
			}
		})
	}
}

// repeat returns n copies of e.
func repeat(e Entry, n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = e
	}
	return entries
}

// TestAFrameIsOfVersion2WhereAnEntryHolds: an encoder writes version 1 until then, whichever entry it is. An entry for which a frame of
// version 1 has room, and one of version 2 has not, is left out, and changes nothing.
func TestAFrameIsOfVersion2WhereAnEntryHolds(t *testing.T) {
	for _, source := range []bool{false, true} {
		for holds := range 6 {
			f := newFrame()
			if source {
				f = newSourceFrame()
			}
			f.Entries = append(f.Entries, f.Entries[0], f.Entries[1])
			want := uint32(1)
			if holds < len(f.Entries) {
				f.Entries[holds].Declared, want = 9, 2
			}
			b := encode(t, f)
			var got Frame
			if err := got.Decode(b); err != nil || !reflect.DeepEqual(got, f) || FrameVersionOf(b) != want {
				t.Errorf("source %v, entry %d holds: got version %d, %+v, %v, want version %d, %+v", source, holds, FrameVersionOf(b), got, err, want, f)
			}
		}
	}
	const entries = 6000 // of version 1 they fit
	var enc FrameEncoder
	plain := Entry{Kind: "ip", ID: "::1", Count: 1}
	for range entries {
		if err := enc.Add(&plain); err != nil {
			t.Fatal(err)
		}
	}
	holding, size := plain, enc.Size()
	holding.Declared = 1
	if err := enc.Add(&holding); !errors.Is(err, ErrFrameFull) || enc.Size() != size || enc.Len() != entries {
		t.Errorf("got %v, %d bytes and %d entries, want %v, %d and %d", err, enc.Size(), enc.Len(), ErrFrameFull, size, entries)
	}
}

func TestEncoderWritesEachStringOnce(t *testing.T) {
	resource := strings.Repeat("/long", 100)
	var enc FrameEncoder
	for i := range 100 {
		e := Entry{Time: int64(i), Kind: "ip", ID: fmt.Sprint("10.0.0.", i%10), Resource: resource, Count: 1}
		if err := enc.Add(&e); err != nil {
			t.Fatal(err)
		}
	}
	b, err := enc.AppendTo(nil, &Frame{Seq: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(b, []byte(resource)); got != 1 {
		t.Errorf("got the resource %d times, want once", got)
	}
	if got := bytes.Count(b, []byte("10.0.0.")); got != 10 {
		t.Errorf("got %d ids, want 10", got)
	}
	if len(b) != enc.Size() || enc.Len() != 100 {
		t.Errorf("got %d bytes and %d entries, want %d and 100", len(b), enc.Len(), enc.Size())
	}
}

// A producer fills frame after frame until none is left to send; every entry arrives, once and in order.
func TestEncoderFillsFrames(t *testing.T) {
	for _, source := range []bool{false, true} {
		t.Run(fmt.Sprint("source=", source), func(t *testing.T) {
			var want, got []Entry
			for i := range 30_000 {
				e := Entry{Time: int64(i), Kind: fmt.Sprint("kind", i%3), ID: fmt.Sprint(i % 5000), Resource: fmt.Sprint("/", i), Count: 1}
				if i%7 == 0 {
					e.ID = e.Resource // new strings in two roles are taken back from a full frame, too
				}
				if source {
					e.Offset = int64(i)
				}
				want = append(want, e)
			}
			var enc FrameEncoder
			enc.Reset(source)
			frames := 0
			send := func() {
				frames++
				f := Frame{Source: source, Seq: uint64(frames)}
				if source {
					f.Seq = 0
				}
				b, err := enc.AppendTo(nil, &f)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Decode(b); err != nil {
					t.Fatal(err)
				}
				got = append(got, f.Entries...)
				enc.Reset(source)
			}
			for i := range want {
				err := enc.Add(&want[i])
				if errors.Is(err, ErrFrameFull) {
					if enc.Size() < MaxFrame-200 {
						t.Fatalf("full at %d bytes, want close to %d", enc.Size(), MaxFrame)
					}
					send()
					err = enc.Add(&want[i])
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			send()
			if frames < 3 {
				t.Errorf("got %d frames, want several", frames)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %d entries that differ from the %d sent", len(got), len(want))
			}
		})
	}
}

func TestEncoderForgetsAnEntryThatDoesNotFit(t *testing.T) {
	long := func(i int) string { return fmt.Sprintf("%0*d", MaxResource, i) }
	var enc FrameEncoder
	i := 0
	for enc.Add(&Entry{Kind: "ip", ID: "a", Resource: long(i), Count: 1}) == nil {
		i++
	}
	before, size := encodeAs(t, &enc), enc.Size()
	refused := Entry{Kind: "new", ID: long(-1)[:MaxCallerID], Resource: long(-1), Count: 1}
	if err := enc.Add(&refused); !errors.Is(err, ErrFrameFull) {
		t.Fatalf("got %v, want %v", err, ErrFrameFull)
	}
	if enc.Size() != size || !bytes.Equal(encodeAs(t, &enc), before) {
		t.Errorf("a refused entry changed the frame: %d bytes, want %d", enc.Size(), size)
	}
	small := Entry{Kind: "ip", ID: "a", Resource: long(0), Count: 1}
	if err := enc.Add(&small); err != nil {
		t.Errorf("an entry of known strings: got %v, want it to fit still", err)
	}
	var f Frame
	if err := f.Decode(encodeAs(t, &enc)); err != nil {
		t.Fatal(err)
	}
	if got := f.Entries[len(f.Entries)-1]; got != small {
		t.Errorf("got %+v, want %+v", got, small)
	}
}

func encodeAs(t *testing.T, enc *FrameEncoder) []byte {
	t.Helper()
	b, err := enc.AppendTo(nil, &Frame{Seq: 1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEncoderRefusesAnotherKindOfHeader(t *testing.T) {
	var enc FrameEncoder
	enc.Reset(true)
	if _, err := enc.AppendTo(nil, &Frame{Seq: 1}); !errors.Is(err, ErrFrameBounds) {
		t.Errorf("got %v, want %v", err, ErrFrameBounds)
	}
}

func TestEncoderDoesNotAllocateOnceWarm(t *testing.T) {
	f := newBusyFrame(1000)
	var enc FrameEncoder
	var b []byte
	encode := func() {
		enc.Reset(false)
		for i := range f.Entries {
			if err := enc.Add(&f.Entries[i]); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if b, err = enc.AppendTo(b[:0], &f); err != nil {
			t.Fatal(err)
		}
	}
	encode()
	if n := testing.AllocsPerRun(20, encode); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestDecodeAllocatesOnceWhenWarm(t *testing.T) {
	b := encode(t, newBusyFrame(1000))
	var f Frame
	decode := func() {
		if err := f.Decode(b); err != nil {
			t.Fatal(err)
		}
	}
	decode()
	if n := testing.AllocsPerRun(20, decode); n > 1 {
		t.Errorf("got %v allocations, want 1: the strings", n)
	}
}

// newBusyFrame returns what a busy recorder sends: each request's address and key, many of each.
func newBusyFrame(entries int) Frame {
	f := Frame{Seq: 1, Partitions: 8}
	for i := range entries / 2 {
		at := 1_700_000_000_000_000_000 + int64(i)*1000
		resource := fmt.Sprint("/v1/things/", i%20)
		f.Entries = append(f.Entries,
			Entry{Time: at, Kind: "ip", ID: fmt.Sprintf("10.1.%d.%d", i/256, i%256), Resource: resource, Count: 1},
			Entry{Time: at, Kind: "key", ID: fmt.Sprint("key-", i%100), Resource: resource, Count: 2})
	}
	return f
}

func BenchmarkFrameDecode(b *testing.B) {
	frame := newBusyFrame(2000)
	data := encode(b, frame)
	var f Frame
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(frame.Entries)), "ns/entry")
	b.ReportMetric(float64(len(data))/float64(len(frame.Entries)), "B/entry")
}

func BenchmarkFrameEncode(b *testing.B) {
	f := newBusyFrame(2000)
	var enc FrameEncoder
	var data []byte
	b.ReportAllocs()
	for b.Loop() {
		enc.Reset(false)
		for i := range f.Entries {
			if err := enc.Add(&f.Entries[i]); err != nil {
				b.Fatal(err)
			}
		}
		data, _ = enc.AppendTo(data[:0], &f)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(f.Entries)), "ns/entry")
}
