package board

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// TestAMillionClosuresAtTheStart: a board that starts in the middle of an attack, by a client that chooses ids, takes all of them
// and at most 130 bytes for each with all of its evidence. Then they all end at the same moment, and the memory comes back.
func TestAMillionClosuresAtTheStart(t *testing.T) {
	testenv.Long(t)
	const wanted = 130 // bytes for a closure
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	b := New(Options{})
	b.Resize(4)
	empty := heap()
	batch := make([]schemas.Decision, 0, 1024)
	for i := range defaultMaxClosures {
		d := closing("requests-per-minute", fmt.Sprintf("client-%025d", i), 0, 60) // 32 bytes
		d.Partition, d.Epoch, d.Seq = int32(i%4), 1, uint64(i+1)
		d.Evidence = evidence(i)
		if batch = append(batch, d); len(batch) < cap(batch) {
			continue
		}
		b.Apply(batch, at(1))
		batch = batch[:0]
		if n := b.Len(); n&(1<<18-1) == 0 { // tables have just grown, or soon will
			each := float64(heap()-empty) / float64(n)
			t.Logf("%d closures: %.0f bytes for each", n, each)
			if each > wanted {
				t.Errorf("got %.0f bytes for a closure, of %d closures, want at most %d", each, n, wanted)
			}
		}
	}
	b.Apply([]schemas.Decision{closing("r", strings.Repeat("x", 256), 0, 60)}, at(1))
	for p := range 4 {
		b.Loaded(p)
	}
	if s := b.Status(); s.Closures != defaultMaxClosures || s.Dropped != 1 || s.Changes != 0 || len(s.Incomplete) != 1 {
		t.Errorf("got %+v, want %d closures, and one that found no room", s, defaultMaxClosures)
	}
	n := 0
	for range b.All {
		n++
	}
	if n != defaultMaxClosures {
		t.Errorf("got %d listed, want %d", n, defaultMaxClosures)
	}
	b.Expire(at(60))
	if s := b.Status(); s.Closures != 0 || s.Callers != 0 || s.Changes != defaultMaxClosures {
		t.Errorf("got %+v, want nothing in force, and as many changes", s)
	}
	if left := int64(heap()) - int64(empty); left > 4<<20 {
		t.Errorf("got %d bytes for nothing, want at most 4 MiB", left)
	}
	runtime.KeepAlive(b)
}

// evidence returns evidence of the i-th decision, as an analyzer that predicts gives it.
func evidence(i int) schemas.Evidence {
	return schemas.Evidence{
		Count: 100 + int64(i%7), Limit: 100, Window: 60e9, WindowStart: at(-30).UnixNano(), Rate: float64(i) / 1000,
		AsOfOffset: 1_000_000 + int64(i), AsOfTime: at(0).UnixNano(), Lag: 4_123_000 + int64(i%4096)*311,
		Expected: float64(i%911) / 9100, Bound: float64(i%911) / 4100,
	}
}

// TestChangesKeepTheBound: closures that change, end and come again leave holes and garbage. What they take stays below 200 bytes for each.
func TestChangesKeepTheBound(t *testing.T) {
	const closures = 3000
	b := ready(1, Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	most := 0
	for i := range 20 * closures {
		d := closing("r", fmt.Sprintf("client-%025d", rng.IntN(closures*5/4)), 0, 60)
		d.Seq = uint64(i + 1)
		if i < closures || rng.IntN(2) == 0 { // with more or less evidence, so that its size changes
			d.Evidence = evidence(i)
		}
		if rng.IntN(4) == 0 {
			d.Until = d.CloseAt
		}
		b.Apply([]schemas.Decision{d}, at(1))
		if n := b.Len(); i > closures && n > 0 {
			most = max(most, b.table.bytes()/n)
		}
	}
	t.Logf("%d closures, at most %d bytes for each", b.Len(), most)
	if most > 200 {
		t.Errorf("got %d bytes for a closure, want at most 200", most)
	}
}

// bytes returns the memory of what grows with the closures.
func (t *table) bytes() int {
	sum := t.arena.memory + len(t.order)*int(unsafe.Sizeof(page{})) + t.len()*4
	for i := range t.index.segments {
		sum += len(t.index.segments[i].tags) * 6
	}
	return sum
}

// BenchmarkApply measures decisions about new callers, and repeats of them.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1000, 1 << 18} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			board := ready(1, Options{})
			ds := make([]schemas.Decision, n)
			for i := range ds {
				ds[i] = closing("r", fmt.Sprint("client-", i), 0, 60)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				board.Apply(ds[i%n:i%n+1], at(1))
			}
		})
	}
}

// BenchmarkOf measures look-ups of callers that are closed, among a quarter of a million.
func BenchmarkOf(b *testing.B) {
	board := ready(1, Options{})
	for i := range 1 << 18 {
		board.Apply([]schemas.Decision{closing("r", fmt.Sprint("client-", i), 0, 60)}, at(1))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if ds := board.Of(schemas.Caller{Kind: "key", ID: fmt.Sprint("client-", i%(1<<18))}); len(ds) != 1 {
			b.Fatal(ds)
		}
	}
}
