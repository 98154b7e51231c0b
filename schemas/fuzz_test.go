package schemas

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Whatever decodes is within bounds, and encodes to something that decodes to the same. Each input is tried as it is
// and under a checksum that fits, so that the fuzzer gets past it.
func FuzzFrameDecode(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.hex"))
	if err != nil || len(files) == 0 {
		f.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		_, b := readVector(f, file)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkDecode(t, b)
		if len(b) >= frameHeader {
			checkDecode(t, reseal(bytes.Clone(b)))
		}
	})
}

func checkDecode(t *testing.T, b []byte) {
	t.Helper()
	var f Frame
	if err := f.Decode(b); err != nil {
		if reason := Reason(err); reason == "other" || reason == "full" {
			t.Fatalf("got reason %s for %v", reason, err)
		}
		return
	}
	if len(f.Entries)*frameEntry > len(b) {
		t.Fatalf("got %d entries from %d bytes", len(f.Entries), len(b))
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		if err := e.Caller().Validate(); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if e.Count == 0 || e.Cost < 0 || len(e.Resource) > MaxResource || e.Offset < 0 || e.Offset > 0 && !f.Source ||
			e.Early && !e.Blocked || e.Arrived < 0 || e.Declared < 0 {
			t.Fatalf("entry %d is out of bounds: %+v", i, e)
		}
	}
	again := encode(t, f)
	if len(again) > len(b) { // less, if strings were there twice, or if version 2 had nothing to say
		t.Fatalf("got %d bytes again, want at most the %d there were", len(again), len(b))
	}
	var g Frame
	if err := g.Decode(again); err != nil {
		t.Fatal(err)
	}
	if len(f.Entries) == 0 {
		f.Entries, g.Entries = nil, nil
	}
	if !reflect.DeepEqual(f, g) {
		t.Fatalf("got %+v, want %+v", g, f)
	}
	if third := encode(t, g); !bytes.Equal(third, again) {
		t.Fatalf("encoding is not stable: got %x, then %x", again, third)
	}
}

// Whatever an encoder takes, Decode gives back; what it refuses leaves no trace.
func FuzzFrameEncode(f *testing.F) {
	f.Add(int64(1), "ip", "::1", "/", int64(0), int64(0), uint32(1), uint16(200), byte(3), false, int64(7), int64(8))
	f.Add(int64(2), "ip", "::2", "/", int64(0), int64(0), uint32(1), uint16(429), byte(5), false, int64(0), int64(0))
	f.Add(int64(3), "ip", "::3", "/", int64(0), int64(0), uint32(1), uint16(0), byte(6), false, int64(-7), int64(8))
	f.Add(int64(-1), "key", strings.Repeat("i", MaxCallerID+1), "", int64(-1), int64(9), uint32(0), uint16(0), byte(0), true, int64(7), int64(-8))
	f.Fuzz(func(t *testing.T, at int64, kind, id, resource string, cost, offset int64, count uint32, status uint16, flags byte, source bool,
		arrived, declared int64,
	) {
		want := newFrame()
		if source {
			want = newSourceFrame()
		}
		e := Entry{
			Time: at, Kind: kind, ID: id, Resource: resource, Cost: cost, Offset: offset, Count: count, Status: status,
			Blocked: flags&1 != 0, Response: flags&2 != 0, Early: flags&4 != 0, Arrived: arrived, Declared: declared,
		}
		var enc FrameEncoder
		enc.Reset(source)
		entries := append([]Entry{}, want.Entries[0], e, want.Entries[1], e, want.Entries[2])
		want.Entries = nil
		for i := range entries {
			err := enc.Add(&entries[i])
			if entries[i] == e && err != nil {
				if Reason(err) != "entry" {
					t.Fatalf("got reason %s for %v", Reason(err), err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			want.Entries = append(want.Entries, entries[i])
		}
		b, err := enc.AppendTo(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		var got Frame
		if err := got.Decode(b); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}
