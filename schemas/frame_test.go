package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// newFrame returns a small producer frame in which entries share strings.
func newFrame() Frame {
	return Frame{
		Producer: ProducerID([]byte("0123456789abcdef")), Seq: 7, Flushed: 1_700_000_000_123_456_789,
		Partitions: 12, Fingerprint: DefaultPartitionKey().Fingerprint(),
		Entries: []Entry{
			{Time: 1_700_000_000_120_000_000, Kind: "ip", ID: "203.0.113.9", Resource: "/v1/search", Count: 3},
			{Time: 1_700_000_000_120_000_001, Kind: "key", ID: "abc", Resource: "/v1/search", Count: 1, Blocked: true},
			{Time: 1_700_000_000_121_000_000, Kind: "ip", ID: "203.0.113.9", Resource: "/v1/search", Count: 2, Status: 503, Cost: 17, Response: true},
		},
	}
}

// newEarlyFrame returns a frame of requests that early closures blocked, between others. The last entry is one of them.
func newEarlyFrame() Frame {
	f := newFrame()
	f.Entries = append(f.Entries,
		Entry{Time: 1_700_000_000_121_000_001, Kind: "key", ID: "abc", Resource: "/v1/search", Count: 4, Blocked: true},
		Entry{Time: 1_700_000_000_122_000_000, Kind: "ip", ID: "203.0.113.9", Resource: "/v1/search", Count: 1, Status: 429, Blocked: true, Response: true, Early: true},
		Entry{Time: 1_700_000_000_122_000_001, Kind: "key", ID: "abc", Resource: "/v1/search", Count: 2, Blocked: true, Early: true},
	)
	return f
}

// newHoldsFrame returns a frame of a recorder whose requests hold. The first entry says nothing of it. The last one is a response.
func newHoldsFrame() Frame {
	f := newFrame()
	f.Entries[1].Declared = 4000
	f.Entries[2].Arrived, f.Entries[2].Declared = 2*Tick(1_700_000_000_000_000_000)+3, 5000
	return f
}

// newSourceFrame returns a frame as ingest writes it.
func newSourceFrame() Frame {
	f := newFrame()
	f.Source, f.Seq = true, 0
	for i := range f.Entries {
		f.Entries[i].Offset = int64(1000 + i)
	}
	return f
}

// encode returns the frame's bytes.
func encode(t testing.TB, f Frame) []byte {
	t.Helper()
	b, err := f.AppendTo(nil)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

// reseal gives b, a frame that a test has tampered with, a fitting checksum.
func reseal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[frameCRCAt:], frameCRC(b))
	return b
}

func TestFrameRoundTrip(t *testing.T) {
	extremes := newSourceFrame()
	extremes.Flushed, extremes.Partitions, extremes.Fingerprint = math.MinInt64, math.MaxUint32, math.MaxUint64
	extremes.Entries = []Entry{
		{Time: math.MinInt64, Kind: "a", ID: "\x00", Count: 1},
		{Time: math.MaxInt64, Kind: strings.Repeat("z", MaxCallerKind), ID: strings.Repeat("\xff", MaxCallerID),
			Resource: strings.Repeat("/", MaxResource), Cost: math.MaxInt64, Offset: math.MaxInt64, Count: math.MaxUint32,
			Status: math.MaxUint16, Blocked: true, Response: true},
		{Kind: "ip", ID: "ip", Resource: "ip", Count: 1}, // one string in three roles
	}
	empty := Frame{Seq: 1}
	for name, want := range map[string]Frame{
		"producer": newFrame(), "source": newSourceFrame(), "early": newEarlyFrame(), "holds": newHoldsFrame(), "extremes": extremes, "empty": empty,
	} {
		t.Run(name, func(t *testing.T) {
			var got Frame
			if err := got.Decode(encode(t, want)); err != nil {
				t.Fatal(err)
			}
			if want.Entries == nil {
				want.Entries = got.Entries[:0] // nil and empty are the same
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestFrameAppendsBehindWhatIsThere(t *testing.T) {
	f := newFrame()
	got, err := f.AppendTo([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "before" + string(encode(t, f)); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecodeReplacesAllOfTheLastFrame(t *testing.T) {
	big := newSourceFrame()
	small := Frame{Seq: 1, Entries: []Entry{{Kind: "ip", ID: "::1", Count: 1}}}
	var f Frame
	for _, want := range []Frame{big, small, big} {
		if err := f.Decode(encode(t, want)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(f, want) {
			t.Errorf("got  %+v\nwant %+v", f, want)
		}
	}
	if err := f.Decode(nil); !errors.Is(err, ErrFrameShort) {
		t.Errorf("got %v, want %v", err, ErrFrameShort)
	}
	if f.Source || f.Flushed != 0 || len(f.Entries) != 0 {
		t.Errorf("after an error: got %+v, want an empty frame", f)
	}
}

func TestDecodedStringsOutliveTheirBuffer(t *testing.T) {
	b := encode(t, newFrame())
	var f Frame
	if err := f.Decode(b); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if want := newFrame(); !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v, want %+v", f, want)
	}
}

func TestEveryTruncationOfAFrameIsRefused(t *testing.T) {
	for _, want := range []Frame{newFrame(), newSourceFrame(), newEarlyFrame(), newHoldsFrame(), {Seq: 1}} {
		b := encode(t, want)
		for n := range b {
			var f Frame
			if err := f.Decode(b[:n:n]); !errors.Is(err, ErrFrameShort) {
				t.Fatalf("first %d of %d bytes: got %v, want %v", n, len(b), err, ErrFrameShort)
			}
		}
	}
}

func TestEveryFlippedBitOfAFrameIsFound(t *testing.T) {
	for _, b := range [][]byte{
		encode(t, newFrame()), encode(t, newSourceFrame()), encode(t, newEarlyFrame()), encode(t, newHoldsFrame()),
	} {
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			var f Frame
			if err := f.Decode(b); err == nil {
				t.Fatalf("bit %d of byte %d: got no error", bit%8, bit/8)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// A frame with a fitting checksum may still be hostile.
func TestDecodeRefuses(t *testing.T) {
	firstEntry := func(b []byte) []byte { return b[len(b)-3*frameEntry:] }
	for name, test := range map[string]struct {
		change func(b []byte) []byte
		want   error
	}{
		"nothing":                {func([]byte) []byte { return nil }, ErrFrameShort},
		"another magic":          {func(b []byte) []byte { b[0] = 'F'; return b }, ErrFrameMagic},
		"a later version":        {func(b []byte) []byte { b[frameVersionAt] = 3; return b }, ErrFrameVersion},
		"no version":             {func(b []byte) []byte { b[frameVersionAt] = 0; return b }, ErrFrameVersion},
		"a later, short version": {func(b []byte) []byte { b[frameVersionAt+1] = 1; return b[:frameHeader] }, ErrFrameVersion},
		"a wrong checksum":       {func(b []byte) []byte { b[frameCRCAt]++; return b }, ErrFrameCRC},
		"a trailing byte":        {func(b []byte) []byte { return reseal(append(b, 0)) }, ErrFrameBounds},
		"too many bytes":         {func(b []byte) []byte { return reseal(append(b, make([]byte, MaxFrame)...)) }, ErrFrameBounds},
		"sequence 0":             {func(b []byte) []byte { clear(b[frameSeqAt:][:8]); return reseal(b) }, ErrFrameBounds},
		"an unknown flag":        {func(b []byte) []byte { b[frameFlagsAt] |= 2; return reseal(b) }, ErrFrameBounds},
		"a reserved byte":        {func(b []byte) []byte { b[frameReservedAt+2] = 1; return reseal(b) }, ErrFrameBounds},
		"4 GiB of text": {func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[frameTextAt:], math.MaxUint32)
			return reseal(b)
		}, ErrFrameShort},
		"65535 strings": {func(b []byte) []byte {
			binary.LittleEndian.PutUint16(b[frameStringsAt:], math.MaxUint16)
			return reseal(b)
		}, ErrFrameShort},
		"65535 entries": {func(b []byte) []byte {
			binary.LittleEndian.PutUint16(b[frameEntriesAt:], math.MaxUint16)
			return reseal(b)
		}, ErrFrameShort},
		"text that starts late":    {func(b []byte) []byte { b[frameHeader] = 1; return reseal(b) }, ErrFrameBounds},
		"a string before its last": {func(b []byte) []byte { b[frameHeader+2*frameOffset] = 0; return reseal(b) }, ErrFrameBounds},
		"a string beyond the text": {func(b []byte) []byte { b[frameHeader+4*frameOffset] = 200; return reseal(b) }, ErrFrameBounds},
		"an id that is no string":  {func(b []byte) []byte { firstEntry(b)[entryIDAt] = 99; return reseal(b) }, errEntryString},
		"a kind that is no string": {func(b []byte) []byte { firstEntry(b)[entryKindAt+1] = 1; return reseal(b) }, errEntryString},
		"a resource that is no string": {
			func(b []byte) []byte { firstEntry(b)[entryResourceAt] = 5; return reseal(b) }, errEntryString},
		"a kind that is a path":   {func(b []byte) []byte { firstEntry(b)[entryKindAt] = 1; return reseal(b) }, ErrCallerKind},
		"count 0":                 {func(b []byte) []byte { firstEntry(b)[entryCountAt] = 0; return reseal(b) }, errEntryCount},
		"a negative cost":         {func(b []byte) []byte { firstEntry(b)[entryCostAt+7] = 0x80; return reseal(b) }, errEntryCost},
		"an unknown entry flag":   {func(b []byte) []byte { firstEntry(b)[entryFlagsAt] = 8; return reseal(b) }, errEntryFlags},
		"early but not blocked":   {func(b []byte) []byte { firstEntry(b)[entryFlagsAt] = 4; return reseal(b) }, errEntryEarly},
		"an early answer":         {func(b []byte) []byte { firstEntry(b)[entryFlagsAt] = 6; return reseal(b) }, errEntryEarly},
		"a reserved entry byte":   {func(b []byte) []byte { firstEntry(b)[entryReservedAt+2] = 1; return reseal(b) }, errEntryFlags},
		"an entry without string": {func([]byte) []byte { return reseal(entryWithoutString(t)) }, errEntryString},
	} {
		t.Run(name, func(t *testing.T) {
			var f Frame
			err := f.Decode(test.change(encode(t, newFrame())))
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if reason := Reason(err); reason == "" || reason == "other" {
				t.Errorf("reason for %v: got %q", err, reason)
			}
		})
	}
}

// All values of the flags: an entry has those that it may have, and all others refuse the frame.
func TestFlagsOfAnEntry(t *testing.T) {
	const allowed = "\x00\x01\x02\x03\x05\x07"
	for flags := range 256 {
		b := encode(t, newFrame())
		b[len(b)-frameEntry+entryFlagsAt] = byte(flags)
		var f Frame
		err := f.Decode(reseal(b))
		if !strings.Contains(allowed, string([]byte{byte(flags)})) {
			if !errors.Is(err, ErrFrameEntry) || Reason(err) != "entry" || len(f.Entries) != 0 {
				t.Errorf("flags %#x: got %v and %+v, want reason entry", flags, err, f)
			}
			continue
		}
		if err != nil {
			t.Errorf("flags %#x: got %v", flags, err)
			continue
		}
		e := f.Entries[len(f.Entries)-1]
		if e.Blocked != (flags&1 != 0) || e.Response != (flags&2 != 0) || e.Early != (flags&4 != 0) {
			t.Errorf("flags %#x: got %+v", flags, e)
		}
	}
}

// The error says which entry is wrong, and what was wanted.
func TestAnEarlyEntryThatWasNotBlockedIsNamed(t *testing.T) {
	b := encode(t, newEarlyFrame())
	b[len(b)-frameEntry+entryFlagsAt] = entryFlagEarly
	var f Frame
	err := f.Decode(reseal(b))
	const want = "bad entry in frame 5: early but not blocked, want early only together with blocked: got flags 0x4"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var enc FrameEncoder
	if err := enc.Add(&Entry{Kind: "ip", ID: "::1", Count: 1, Early: true}); !errors.Is(err, errEntryEarly) || enc.Len() != 0 {
		t.Errorf("encoder: got %v and %d entries, want %v and none", err, enc.Len(), errEntryEarly)
	}
}

// entryWithoutString returns a frame that has an entry and an empty string table.
func entryWithoutString(t *testing.T) []byte {
	t.Helper()
	b := append(encode(t, Frame{Seq: 1}), make([]byte, frameEntry)...)
	b[frameEntriesAt] = 1
	return b
}

func TestDecodeRefusesSourceOffsets(t *testing.T) {
	b := encode(t, newSourceFrame())
	b[len(b)-1] = 0x80
	var f Frame
	if err := f.Decode(reseal(b)); !errors.Is(err, errEntryOffset) {
		t.Errorf("a negative offset: got %v, want %v", err, errEntryOffset)
	}
}

func TestReason(t *testing.T) {
	for want, err := range map[string]error{
		"": nil, "short": ErrFrameShort, "magic": ErrFrameMagic, "version": ErrFrameVersion, "crc": ErrFrameCRC,
		"bounds": ErrFrameBounds, "entry": fmt.Errorf("%w 3: %w", ErrFrameEntry, ErrCallerID), "full": ErrFrameFull,
		"caller_kind": ErrCallerKind, "caller_id": fmt.Errorf("parse: %w", ErrCallerID), "other": errors.New("disk on fire"),
	} {
		if got := Reason(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}

func TestOnlyAFrameWithoutEntriesSaysThatCountsWereBrought(t *testing.T) {
	empty := newFrame()
	empty.Entries = nil
	ofSource := empty
	ofSource.Source, ofSource.Seq = true, 0
	for _, tc := range []struct {
		name  string
		value []byte
		want  bool
	}{
		{"a frame without entries", encode(t, empty), true},
		{"a frame with entries", encode(t, newFrame()), false},
		{"a source frame without entries", encode(t, ofSource), false},
		{"no frame", []byte("fg"), false},
		{"nothing", nil, false},
	} {
		at, got := Migrated(tc.value)
		if got != tc.want || got && at != empty.Flushed {
			t.Errorf("%s: got %d, %v, want %v", tc.name, at, got, tc.want)
		}
	}
}
