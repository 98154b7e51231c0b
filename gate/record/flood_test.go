package record

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// A caller floods among ten times as many newcomers as there is room for, and the link drains now and then. Everything that
// is dropped is the newcomers': of each stretch between two drains the flood can lose only the requests before its entry
// has counted two.
func TestAFloodAmongNewcomersIsReportedWhole(t *testing.T) {
	s := newServer(Options{MaxEntries: 1024})
	room := 1024
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	sent, reported, drains := 0, 0, 0
	drain := func() {
		drains++
		for _, e := range s.drain(t) {
			if e.ID == "flood" {
				reported += int(e.Count)
			}
		}
	}
	for i := range 50 * room {
		if r.IntN(10) == 0 {
			s.request("flood", "/", noon)
			sent++
		} else {
			s.request(fmt.Sprint("newcomer ", i), "/", noon)
		}
		if r.IntN(10*room) == 0 {
			drain()
		}
	}
	drain()
	st := s.rec.Stats()
	conserve(t, st)
	if st.Dropped[Full] < uint64(20*room) {
		t.Errorf("got %v dropped, want most of the newcomers: this tests nothing", st.Dropped)
	}
	if lost := sent - reported; lost > 2*drains {
		t.Errorf("got %d of the flood's %d requests reported in %d drains, want all but a few", reported, sent, drains)
	}
	t.Logf("%d of the flood's %d requests reported, %d of others dropped", reported, sent, st.Dropped[Full])
}

// Nothing that is asked of a Recorder makes it grow: not more callers than there is room for, not the longest ids and
// resources, not a link that never comes.
func TestMemoryIsFixedWhenTheRecorderIsMade(t *testing.T) {
	before := heap()
	s := newServer(Options{})
	if size := heap() - before; size > 8<<20 {
		t.Errorf("got %d bytes for a Recorder, want at most 8 MiB", size)
	}
	long := strings.Repeat("r", schemas.MaxResource)
	ids := make([]string, 3*DefaultMaxEntries)
	for i := range ids {
		ids[i] = fmt.Sprint(i, long[:i%schemas.MaxCallerID-6+7])[:1+i%schemas.MaxCallerID]
	}
	i := 0
	n := testing.AllocsPerRun(len(ids), func() {
		s.request(ids[i%len(ids)], long[:i%len(long)], noon.Add(time.Duration(i)*time.Millisecond))
		i++
	})
	if n != 0 {
		t.Errorf("got %v allocations a request, want 0", n)
	}
	st := s.rec.Stats()
	conserve(t, st)
	if st.Dropped[Full] == 0 {
		t.Error("got none dropped, want more entries than there is room for: this tests nothing")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A request is for the same stripe while its goroutine stays where it is, and goroutines are spread over all of them.
func TestStripesAreSharedOut(t *testing.T) {
	s := newServer(Options{})
	used := map[int]int{}
	for range 200 {
		done := make(chan int)
		go func() {
			near := grown(s.rec.homeStripe)
			if again := grown(s.rec.homeStripe); again != near {
				t.Errorf("got stripe %d, then %d, want the same", near, again)
			}
			done <- near
			<-done // so that the next goroutine has another stack
		}()
		used[<-done]++
		defer close(done)
	}
	for i := range s.rec.stripes {
		if used[i] == 0 {
			t.Errorf("got no goroutine of 200 on stripe %d of %d: %v", i, len(s.rec.stripes), used)
		}
	}
}

// grown calls f on a stack that has grown, as a server's have: until then goroutines take turns at small ones.
//
//go:noinline
func grown(f func() int) int {
	var room [16 << 10]byte
	n := f()
	room[n]++
	return n + int(room[n]) - 1
}
