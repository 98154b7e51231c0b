//go:build lab

package lab

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

const (
	loadEntries = 2000                 // the most entries of a frame
	loadTick    = 5 * time.Millisecond // what a busy server's link gathers before it sends
)

// frames encodes the entries of each partition.
func (l *loadRun) frames(entries [][]schemas.Entry, now int64) [][]loadFrame {
	frames := make([][]loadFrame, l.partitions)
	for p, list := range entries {
		for len(list) > 0 {
			n := min(len(list), loadEntries)
			l.seq[p]++
			f := schemas.Frame{
				Producer: schemas.ProducerID{5}, Seq: l.seq[p], Flushed: now, Partitions: uint32(l.partitions),
				Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: list[:n],
			}
			value, err := f.AppendTo(nil)
			if err != nil {
				l.t.Fatal(err)
			}
			frames[p] = append(frames[p], loadFrame{value, n, now})
			list = list[n:]
		}
	}
	return frames
}

func loadCaller(n uint64) string { return fmt.Sprintf("caller-%08d", n) }

// add adds requests of a caller to its partition, and to the truth.
func (l *loadRun) add(entries [][]schemas.Entry, caller uint64, count uint32, now int64) {
	id := loadCaller(caller)
	l.truth[id] += int64(count)
	p := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), l.partitions)
	entries[p] = append(entries[p], schemas.Entry{Time: now, Kind: "key", ID: id, Count: count})
}

// distinct is one request of each caller.
func (l *loadRun) distinct(n int) [][]loadFrame {
	now := time.Now().UnixNano()
	entries := make([][]schemas.Entry, l.partitions)
	for i := range n {
		l.add(entries, uint64(i), 1, now)
	}
	return l.frames(entries, now)
}

// zipf is requests at a rate, merged as recorders and links do: those of a caller within a tick are one entry.
func (l *loadRun) zipf(size loadSize) [][]loadFrame {
	tick := int(int64(size.rate) * int64(loadTick) / int64(time.Second))
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 8, uint64(size.callers-1))
	now := time.Now().UnixNano()
	all := make([][]loadFrame, l.partitions)
	for at := 0; at < size.requests; at += tick {
		merged := make(map[uint64]uint32)
		for range min(tick, size.requests-at) {
			merged[zipf.Uint64()]++
		}
		entries := make([][]schemas.Entry, l.partitions)
		for caller, count := range merged {
			l.add(entries, caller, count, now)
		}
		for p, frames := range l.frames(entries, now) {
			all[p] = append(all[p], frames...)
		}
	}
	return all
}

func TestLoadIsWhatItSays(t *testing.T) {
	l := &loadRun{rig: &rig{t: t, partitions: 3}, seq: make([]uint64, 3), truth: make(map[string]int64)}
	counted := make(map[string]int64)
	entries := 0
	for _, frames := range [][][]loadFrame{l.distinct(5000), l.zipf(loadSize{callers: 5000, requests: 20_000, rate: 1_000_000, partitions: 3})} {
		for p, list := range frames {
			for _, lf := range list {
				var f schemas.Frame
				if err := f.Decode(lf.value); err != nil || len(f.Entries) != lf.entries || lf.entries > loadEntries {
					t.Fatalf("got a frame of %d entries, %v, want %d", len(f.Entries), err, lf.entries)
				}
				entries += lf.entries
				for _, e := range f.Entries {
					counted[e.ID] += int64(e.Count)
					if schemas.Partition(schemas.DefaultPartitionKey().Hash(e.Kind, e.ID), 3) != p {
						t.Fatalf("%s: in partition %d, where it is not counted", e.ID, p)
					}
				}
			}
		}
	}
	var sum int64
	for id, n := range counted {
		if sum += n; n != l.truth[id] {
			t.Errorf("%s: got %d requests in frames, want %d", id, n, l.truth[id])
		}
	}
	if sum != 25_000 || entries >= 25_000 || len(counted) != 5000 {
		t.Errorf("got %d requests of %d callers in %d entries, want 25000 of 5000 in fewer", sum, len(counted), entries)
	}
}
