package filelog

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
)

// FuzzDamage opens a log of which one segment is damaged: bits are flipped, the end is cut off, and something is behind it. It opens, without a
// panic. Each record that is read is the one that was appended at its offset, no offset before the recovery point is used again, and what is
// appended then is read. Opened once more it is the same log.
func FuzzDamage(f *testing.F) {
	batch := batchOf(30, "value 030")
	f.Add(uint8(0), uint16(0), uint16(1000), []byte{}, []byte{})
	f.Add(uint8(1), uint16(8), uint16(1000), []byte{0xff, 0xff}, []byte{})       // a length
	f.Add(uint8(2), uint16(7), uint16(1000), []byte{1}, []byte{})                // an offset
	f.Add(uint8(2), uint16(70), uint16(600), []byte{1, 2, 3}, make([]byte, 200)) // zeros behind the end
	f.Add(uint8(2), uint16(0), uint16(6*batchBytes), []byte{}, batch)            // what was never there
	f.Add(uint8(1), uint16(77), uint16(900), batch[:61], batch)                  //
	f.Add(uint8(1), uint16(0), uint16(0), []byte{}, []byte("no batch at all, but long enough for the header of one, which has 61 bytes"))
	f.Fuzz(func(t *testing.T, which uint8, at, length uint16, flip, behind []byte) {
		d := memory()
		l := openOn(t, d, 1000) // 12 batches
		fill(t, l, 0, 30)
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		fill(t, l, 30, 36)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		n := d.root.names["log"].now.names["t-0"].now.names[segmentName([]int64{0, 12, 24}[which%3])].now
		n.data = n.data[:min(int(length), len(n.data))]
		for i, b := range flip {
			if k := int(at) + i; k < len(n.data) {
				n.data[k] ^= b
			}
		}
		n.data = append(n.data, behind...)
		l = openOn(t, d, 1000)
		_, end, err := l.Range(t.Context(), topicName, 0)
		if err != nil || end < 30 {
			t.Fatalf("got end %d, %v, want 30 or more", end, err)
		}
		fill(t, l, int(end), int(end)+3)
		got := contents(t, l, 0)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = openOn(t, d, 1000)
		if again := contents(t, l, 0); again != got {
			t.Errorf("got %s, want %s again", again, got)
		}
		if got := contents(t, l, end); got != fmt.Sprintf("%d-%d", end, end+2) {
			t.Errorf("got %s, want what was appended", got)
		}
	})
}

// TestDamageTakesLittleMemory: a header says that 60 MiB follow.
func TestDamageTakesLittleMemory(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, dir, 0)
	fill(t, l, 0, 10)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := osDisk{}.open(filepath.Join(dir, "t-0", segmentName(0)), false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := batchOf(10, "value 010")
	copy(head[8:], []byte{0x03, 0xc0, 0, 0})
	if _, err := f.WriteAt(head, 10*batchBytes); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(64 << 20); err != nil { // a hole
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, _ = openLog(t, dir, 0)
	got := contents(t, l, 0)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; got != "0-9" || grown > 4<<20 {
		t.Errorf("got %s and %d bytes of memory, want 0-9 and up to 4 MiB", got, grown)
	}
}
