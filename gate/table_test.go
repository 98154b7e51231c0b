package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// add puts a caller with a chosen hash into a table that has room for it.
func (t *table) add(hash uint64, tag uint32, id string) {
	t.insert(hash, t.arena.putCaller(subject{tag: tag, key: id, id: id}, []closure{{closeAt: 1, until: 2}}))
}

func tableFor(n int) *table {
	t := newTable(n)
	t.arena = newArena(n * maxClosedCaller)
	return t
}

func TestCallersWithEqualHashesAreDistinguished(t *testing.T) {
	const hash = 0xdeadbeefcafef00d
	ids := []string{
		"", "a", "aa", "aaa", "ab", "b", "a\x00", "\x00a", "203.0.113.9", "203.0.113.90", "203.0.113.", "\xff\xfe",
		strings.Repeat("x", schemas.MaxCallerID), strings.Repeat("x", schemas.MaxCallerID-1) + "y",
		strings.Repeat("x", schemas.MaxCallerID-1),
	}
	for closed := range 1 << len(ids[:8]) { // every subset of the first eight, all of the others
		tab := tableFor(2 * len(ids))
		in := func(i int) bool { return i >= 8 || closed>>i&1 != 0 }
		for i, id := range ids {
			if in(i) {
				tab.add(hash, 0, id)
			}
		}
		for i, id := range ids {
			if cc := tab.find(hash, 0, id); (cc != nil) != in(i) || cc != nil && cc.id() != id {
				t.Fatalf("subset %b: got %v for %q, want found %v", closed, cc, id, in(i))
			}
			if cc := tab.find(hash, 1, id); cc != nil {
				t.Fatalf("got %q in a gate where it is not closed", id)
			}
			if cc := tab.find(hash^1<<32, 0, id); cc != nil {
				t.Fatalf("got %q by a hash that is not its own", id)
			}
		}
	}
}

// TestCallersThatDifferInOneByteAreDistinguished, wherever the byte is, and even if their hashes are equal.
func TestCallersThatDifferInOneByteAreDistinguished(t *testing.T) {
	const hash = 0xdeadbeefcafef00d
	for n := 1; n <= 50; n++ {
		tab, id := tableFor(10), strings.Repeat("x", n)
		tab.add(hash, 0, id)
		for i := range n {
			other := id[:i] + "y" + id[i+1:]
			if cc := tab.find(hash, 0, other); cc != nil {
				t.Fatalf("got %q for %q", cc.id(), other)
			}
		}
	}
}

func TestHashesThatShareAPrefixOrASuffix(t *testing.T) {
	hashes := map[string]func(i int) uint64{
		"one group":      func(i int) uint64 { return uint64(i) << 40 },
		"one mark":       func(i int) uint64 { return uint64(i) },
		"one half":       func(i int) uint64 { return uint64(i) * 0x0100_0001 & 0xffff_ffff },
		"the other half": func(i int) uint64 { return uint64(i) * 0x0100_0001 << 32 },
		"the last group": func(i int) uint64 { return math.MaxUint64 - uint64(i) },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			const n = 400
			tab := tableFor(n)
			for i := range n {
				tab.add(hash(i), 0, fmt.Sprint(i))
			}
			for i := range 2 * n {
				if cc := tab.find(hash(i), 0, fmt.Sprint(i)); (cc != nil) != (i < n) || i < n && !tab.mayHold(hash(i)) {
					t.Fatalf("caller %d: got %v, want found %v", i, cc, i < n)
				}
			}
		})
	}
}

func TestSlotsAreUsedAgain(t *testing.T) {
	tab := tableFor(10)
	for i := range 5000 {
		id := fmt.Sprint(i)
		hash := uint64(i) * 0x9e3779b97f4a7c15
		if tab.arena.used == len(tab.arena.chunks) {
			break // the writer would build anew
		}
		if tab.full() {
			t.Fatalf("full with %d live, %d deleted after %d callers", tab.live, tab.tombs, i)
		}
		tab.add(hash, 0, id)
		cc := tab.find(hash, 0, id)
		if cc == nil {
			t.Fatalf("caller %d is not found", i)
		}
		tab.remove(tab.slot(hash, cc))
		if tab.find(hash, 0, id) != nil {
			t.Fatalf("caller %d is found after it was removed", i)
		}
		if tab.tombs > tab.slots()/2 { // as rebuild does
			tab = tableFor(10)
		}
	}
}

func TestFilterPassesFewMisses(t *testing.T) {
	const n = 15_000
	s := New(exact())
	g := s.Gate("key")
	s.ApplyAt(at(0), many(0, n, 0, 10))
	passed := 0
	tab := s.view.Load()
	for i := range n {
		if tab.mayHold(g.sum(fmt.Sprint("stranger", i))) {
			passed++
		}
		if v := s.CheckAt(callersOf(s, "key", fmt.Sprint("stranger", i)), at(1)); v.Closed {
			t.Fatalf("stranger %d is closed", i)
		}
	}
	if share := float64(passed) / n; share > 0.012 {
		t.Errorf("got %.2f %% of misses through the filter, want at most 1.2 %%", 100*share)
	}
}

// many returns decisions that close the callers key:from … key:from+n−1 between two times.
func many(from, n int, closeAt, until float64) []schemas.Decision {
	ds := make([]schemas.Decision, n)
	for i := range ds {
		ds[i] = schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: fmt.Sprintf("caller-%015d", from+i)}, Mode: schemas.ModeEnforce,
			CloseAt: at(closeAt).UnixNano(), Until: at(until).UnixNano(),
		}
	}
	return ds
}

func TestMemoryOfAClosedCaller(t *testing.T) {
	s := New(exact())
	closed, worst := 0, 0.0
	for closed < 25_000 {
		s.ApplyAt(at(0), many(closed, 1000, 0, 10))
		closed += 1000
		if each := float64(s.StatusAt(at(0)).Bytes) / float64(closed); closed >= 10_000 {
			worst = max(worst, each)
		}
	}
	t.Logf("at most %.1f bytes for each of 10 000 to 25 000 callers with ids of 22 bytes", worst)
	if worst > 64 {
		t.Errorf("got %.1f bytes a closed caller, want at most 64", worst)
	}
	tab := s.view.Load()
	want := len(tab.filter)*int(unsafe.Sizeof(tab.filter[0])) + len(tab.groups)*int(unsafe.Sizeof(tab.groups[0])) +
		tab.arena.used*int(unsafe.Sizeof(*tab.arena.chunks[0]))
	if got := s.StatusAt(at(0)).Bytes; got != want {
		t.Errorf("got %d bytes, want all that the table takes, %d", got, want)
	}
	s.verify(t)
}

func TestMemoryDoesNotGrowUnderChange(t *testing.T) {
	s := New(exact())
	for i := range 300 {
		now := float64(i)
		s.ApplyAt(at(now), many(0, 1000, now, now+10))    // the same callers, moved
		s.ApplyAt(at(now), many(1000*i, 500, now, now+2)) // others, that end soon
		s.Tick(at(now))
	}
	s.verify(t)
	if st := s.StatusAt(at(25)); st.Bytes > 1<<20 || st.Rebuilds == 0 {
		t.Errorf("got %d bytes after %d rebuilds, want at most 1 MiB", st.Bytes, st.Rebuilds)
	}
	for i := range 50 {
		s.Tick(at(400 + float64(i)))
	}
	s.verify(t)
	if st := s.StatusAt(at(500)); st.Closed != 0 || st.Bytes > 256<<10 || s.view.Load() != nil {
		t.Errorf("got %d closed, %d bytes when all is over, want 0, little, and no table to look at", st.Closed, st.Bytes)
	}
}

func TestMemoryDoesNotGrowWithCallersThatComeAndGo(t *testing.T) {
	s, most := New(exact()), 0
	for i := range 20_000 {
		now := float64(i)
		s.ApplyAt(at(now), []schemas.Decision{closing("r", fmt.Sprint("key:", i), now, now+60), closing("r", fmt.Sprint("key:", i-1), 0, 0)})
		if i%50 == 0 {
			most = max(most, s.Status().Bytes)
		}
	}
	if most > 64<<10 {
		t.Errorf("got up to %d bytes for one caller at a time, want at most 64 KiB", most)
	}
	s.verify(t)
}

func TestFullSetFailsOpenAndRecovers(t *testing.T) {
	o := exact()
	o.MaxClosed = 100
	s := New(o)
	s.ApplyAt(at(0), many(0, 150, 0, 10))
	st := s.StatusAt(at(0))
	if st.Closed != 100 || st.Full != 50 {
		t.Fatalf("got %d closed, %d dropped, want 100 and 50", st.Closed, st.Full)
	}
	s.ApplyAt(at(1), many(0, 100, 0, 20)) // callers in the table may change
	if v := s.CheckAt(callersOf(s, "key", "caller-000000000000007"), at(15)); !v.Closed {
		t.Errorf("got %+v, want closed for longer", v)
	}
	s.ApplyAt(at(25), many(1000, 100, 25, 30)) // all have ended: the room is theirs, even without a Tick
	if st := s.StatusAt(at(25)); st.Closed != 100 || st.Full != 50 {
		t.Errorf("got %d closed, %d dropped, want 100 and still 50", st.Closed, st.Full)
	}
	s.verify(t)
}

// TestAFullSetIsSweptOnceASecond: whoever fills it does not make the writer look through all of it for each decision.
func TestAFullSetIsSweptOnceASecond(t *testing.T) {
	o := exact()
	o.MaxClosed = 100
	s := New(o)
	s.ApplyAt(at(0), append(many(0, 50, 0, 10.2), many(50, 50, 0, 20)...))
	for i, step := range []struct {
		at   float64
		full uint64
	}{{10.1, 1}, {10.5, 2}, {11.09, 3}, {11.2, 3}, {11.3, 3}} {
		s.ApplyAt(at(step.at), many(1000+i, 1, 10, 20))
		if st := s.StatusAt(at(step.at)); st.Full != step.full {
			t.Errorf("at %v s: got %d dropped, want %d", step.at, st.Full, step.full)
		}
	}
	s.verify(t)
}

func TestManyRulesOnOneCaller(t *testing.T) {
	s := New(exact())
	for i := range 300 {
		s.ApplyAt(at(0), []schemas.Decision{closing(fmt.Sprint("rule", i), "key:x", 0, 10+float64(i))})
	}
	v := check(t, s, 1, "key:x")
	if !v.Closed || v.Rule != "rule254" || v.RetryAfter != 263*time.Second {
		t.Errorf("got %+v, want closed by the last of %d rules", v, maxClosures)
	}
	if st := s.StatusAt(at(1)); st.Full != 300-maxClosures {
		t.Errorf("got %d dropped, want %d", st.Full, 300-maxClosures)
	}
	s.verify(t)
}

// TestASharesCallerHasRoomForItsClosures: a share, and those that hold until it begins, take the place of the last four closures. A
// caller with more closures than that gets no share, and all its closures hold.
func TestASharesCallerHasRoomForItsClosures(t *testing.T) {
	for _, closures := range []int{maxClosures - maxHeld - 1, maxClosures - maxHeld, maxClosures} {
		s := New(exact())
		for i := range closures {
			s.ApplyAt(at(0), []schemas.Decision{closing(fmt.Sprint("rule", i), "key:x", 0, 10+float64(i))})
		}
		for i := range 9 {
			s.ApplyAt(at(1), []schemas.Decision{sharing("shares", "key:x", 1+float64(i), 20, 100, int64(60+i), 0)})
		}
		want, ignored := 0, uint64(9)
		if closures == maxClosures-maxHeld-1 {
			want, ignored = 1, 0
		}
		st := s.StatusAt(at(1))
		if st.Shares != want || st.Ignored != ignored || st.Full != 0 {
			t.Errorf("%d closures: got %d shares, %d ignored, %d dropped, want %d, %d, none", closures, st.Shares, st.Ignored, st.Full, want, ignored)
		}
		if v := check(t, s, 1, "key:x"); v.Rule != fmt.Sprint("rule", closures-1) || v.RetryAfter != time.Duration(9+closures-1)*time.Second {
			t.Errorf("%d closures: got %+v, want closed by the last of them", closures, v)
		}
		s.verify(t)
	}
}

// A caller that a decision opens may have no closure in force any more. Then the rebuild that makes room for the change has
// swept it already.
func TestOpeningACallerThatARebuildSwept(t *testing.T) {
	s := New(exact())
	s.ApplyAt(at(0), many(0, 1000, 0, 10))
	for !s.writer.wasteful() { // each change leaves a dead value in the arena
		s.apply(&many(1, 1, 0, 20+rand.Float64())[0], at(1).UnixNano())
	}
	s.ApplyAt(at(15), many(7, 1, 0, 0))
	if st := s.StatusAt(at(15)); st.Rebuilds != 1 || st.Closed != 1 || st.Expired != 999 {
		t.Errorf("got %d rebuilds, %d closed, %d expired, want the rebuild to leave the one whose closure lasts", st.Rebuilds, st.Closed, st.Expired)
	}
	s.verify(t)
}

func TestMemoryDoesNotGrowWithRules(t *testing.T) {
	s := New(exact())
	for i := range 5000 {
		rule := fmt.Sprint(strings.Repeat("r", 1000), i)
		s.ApplyAt(at(float64(i)), []schemas.Decision{closing(rule, "key:x", float64(i), float64(i)+0.5)})
	}
	s.verify(t)
	if st := s.StatusAt(at(5000)); st.Bytes > 512<<10 || len(s.writer.terms) > 500 {
		t.Errorf("got %d bytes and %d terms, want at most 512 KiB and 500", st.Bytes, len(s.writer.terms))
	}
}

func TestMemoryDoesNotGrowWhenEveryCallerHasItsOwnLimit(t *testing.T) {
	s := New(exact())
	ds := many(0, 5000, 0, 1000)
	for i := range ds {
		ds[i].Evidence.Limit = int64(i + 1)
	}
	for i := range 20 {
		s.ApplyAt(at(float64(i)), ds) // repeats
	}
	s.verify(t)
	if st := s.StatusAt(at(20)); st.Rebuilds > 40 || st.Bytes > 5000*160 {
		t.Errorf("got %d rebuilds, %d bytes, want few", st.Rebuilds, st.Bytes)
	}
}
