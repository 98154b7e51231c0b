package schemas

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

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

// firstVersion makes a frame of version 1 of one that a test has encoded, as producers of before write it.
func firstVersion(b []byte) []byte {
	binary.LittleEndian.PutUint16(b[frameVersionAt:], frameFirstVersion)
	return reseal(b)
}

// vectorFrames2 are the frames of version 2 that must be read.
func vectorFrames2() map[string]Frame {
	source := newEarlyFrame()
	source.Source, source.Seq = true, 0
	for i := range source.Entries {
		source.Entries[i].Offset = int64(1000 + i)
	}
	extremes := vectorFrames()["reads_extremes"]
	extremes.Entries = append([]Entry{{Kind: "_", ID: strings.Repeat("\xff", MaxCallerID), Count: 1, Blocked: true, Early: true}}, extremes.Entries...)
	extremes.Entries[2].Early = true
	return map[string]Frame{
		"reads_v2_producer": newFrame(), "reads_v2_early": newEarlyFrame(), "reads_v2_source": source, "reads_v2_extremes": extremes,
		"reads_v2_empty": {Seq: math.MaxUint64},
	}
}

// vectorRejects2 are changes to the frame of early entries after which it must be refused, as those of vectorRejects.
func vectorRejects2() map[string]func(b []byte) []byte {
	flags := func(v byte) func(b []byte) []byte {
		return func(b []byte) []byte { b[len(b)-frameEntry+entryFlagsAt] = v; return b }
	}
	return map[string]func(b []byte) []byte{
		"version 0":               func(b []byte) []byte { b[frameVersionAt] = 0; return b },
		"version 258":             func(b []byte) []byte { b[frameVersionAt+1] = 1; return b },
		"entry v2 early alone":    flags(entryFlagEarly),
		"entry v2 early response": flags(entryFlagEarly | entryFlagResponse),
		"entry v2 flag":           flags(entryFlags + 1),
		"entry v2 all flags":      flags(math.MaxUint8),
		"entry v2 as version 1":   firstVersion,
		"crc v2":                  func(b []byte) []byte { b[len(b)-frameEntry+entryFlagsAt] &^= entryFlagEarly; return b },
	}
}

// A server that was not updated yet sends frames of version 1: they say the same as before, and nothing in them is early.
func TestFramesOfVersion1AreStillRead(t *testing.T) {
	for name, want := range map[string]Frame{"producer": newFrame(), "source": newSourceFrame()} {
		t.Run(name, func(t *testing.T) {
			var got Frame
			if err := got.Decode(encode(t, newEarlyFrame())); err != nil { // whose entries must leave nothing behind
				t.Fatal(err)
			}
			if err := got.Decode(firstVersion(encode(t, want))); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// An analyzer of before must not count an entry that it half understands: it sees another version.
func TestEncodersWriteVersion2(t *testing.T) {
	for name, f := range map[string]Frame{"plain": newFrame(), "early": newEarlyFrame(), "empty": {Seq: 1}} {
		if got := binary.LittleEndian.Uint16(encode(t, f)[frameVersionAt:]); got != 2 {
			t.Errorf("%s: got version %d, want 2", name, got)
		}
	}
}

// All values of the flags, in both versions: an entry has those that it may have, and all others refuse the frame.
func TestFlagsOfAnEntry(t *testing.T) {
	for version, allowed := range map[uint16]string{
		1: "\x00\x01\x02\x03",
		2: "\x00\x01\x02\x03\x05\x07",
	} {
		for flags := range 256 {
			b := encode(t, newFrame())
			binary.LittleEndian.PutUint16(b[frameVersionAt:], version)
			b[len(b)-frameEntry+entryFlagsAt] = byte(flags)
			var f Frame
			err := f.Decode(reseal(b))
			if !strings.Contains(allowed, string([]byte{byte(flags)})) {
				if !errors.Is(err, ErrFrameEntry) || Reason(err) != "entry" || len(f.Entries) != 0 {
					t.Errorf("version %d, flags %#x: got %v and %+v, want reason entry", version, flags, err, f)
				}
				continue
			}
			if err != nil {
				t.Errorf("version %d, flags %#x: got %v", version, flags, err)
				continue
			}
			e := f.Entries[len(f.Entries)-1]
			if e.Blocked != (flags&1 != 0) || e.Response != (flags&2 != 0) || e.Early != (flags&4 != 0) {
				t.Errorf("version %d, flags %#x: got %+v", version, flags, e)
			}
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
