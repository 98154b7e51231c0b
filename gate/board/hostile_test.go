package board

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// FuzzBoard applies decisions, ends and restarts that the input describes, and compares with a plain map after each.
func FuzzBoard(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte("\x00\x00\x10\x00\x00\x20\x00\x00\x00\xff\x00\x00"))
	f.Add([]byte(strings.Repeat("\x01\x07\x90\xfe\x00\x00", 50)))
	f.Fuzz(func(t *testing.T, input []byte) {
		b := ready(2, Options{MaxClosures: 50})
		want := map[Key]schemas.Decision{}
		for step := 0; len(input) >= 3; step++ {
			id, rule, length := input[0], input[1], input[2]
			input = input[3:]
			now := float64(step)
			switch rule % 8 {
			case 6:
				b.Expire(at(now))
				for key, d := range want {
					if end(&d) <= at(now).UnixNano() {
						delete(want, key)
					}
				}
			case 7:
				b.compactNow()
			default:
				d := closing(fmt.Sprint("rule-", rule%3), fmt.Sprint(id%60), now-1, now-2+float64(length)/8)
				d.Epoch, d.Seq, d.Partition = 1, uint64(step+1), int32(id%2)
				if rule&64 != 0 {
					d.Until, d.Next = at(now+1).UnixNano(), schemas.Span{CloseAt: at(now + 2).UnixNano(), Until: at(now + 3).UnixNano(), Early: true}
				}
				key := Key{d.Rule, d.Caller}
				_, held := want[key]
				b.Apply([]schemas.Decision{d}, at(now))
				switch {
				case end(&d) <= at(now).UnixNano():
					delete(want, key)
				case held || len(want) < 50:
					want[key] = d
				}
			}
			check(t, b, want)
		}
		b.Expire(at(1e6))
		check(t, b, nil)
	})
}

// compactNow moves all bodies to new memory, and joins all pages that fit together.
func (b *Board) compactNow() {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.table
	for number := range t.arena.chunks {
		if t.arena.chunks[number].bytes != nil {
			t.empty(uint32(number))
		}
	}
	for _, p := range slices.Clone(t.order) {
		if t.pages[p.id] == p {
			t.tidy(p)
		}
	}
}

// TestTheBoardPinsNoBatch: decisions come as parts of large batches. A closure that lasts keeps its own bytes, and not the batch.
func TestTheBoardPinsNoBatch(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	b := ready(1, Options{})
	before := heap()
	for i := range 64 {
		batch := fmt.Sprintf("%08d", i) + strings.Repeat("x", 1<<20)
		d := closing(batch[:4], batch[:8], 0, 60)
		d.Caller.Kind = strings.ToLower(batch[8:12])
		b.Apply([]schemas.Decision{d}, at(1))
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("got %d bytes for 64 closures, want no batch of 1 MiB kept by one of them", grown)
	}
	if b.Len() != 64 {
		t.Errorf("got %d closures, want 64", b.Len())
	}
}

// TestStrangeDecisionsAreHeld as they are: ids of 256 bytes and of any bytes, times at both ends. None makes the board panic.
func TestStrangeDecisionsAreHeld(t *testing.T) {
	b := ready(1, Options{})
	for _, id := range []string{strings.Repeat("\xff", 256), "\x00", "a\nb", "", "ip:1"} {
		d := closing("r", id, 0, 60)
		b.Apply([]schemas.Decision{d}, at(1))
		if got := b.Of(d.Caller); len(got) != 1 || !reflect.DeepEqual(got[0], d) {
			t.Errorf("%q: got %+v, want it held", id, got)
		}
	}
	n := b.Len()
	b.Apply([]schemas.Decision{closing("r", strings.Repeat("x", schemas.MaxCallerID+1), 0, 60)}, at(1))
	if s := b.Status(); s.Closures != n || s.Dropped != 1 {
		t.Errorf("got %+v, want the id that no caller can have dropped, and counted", s)
	}
	for _, times := range [][2]int64{
		{math.MinInt64, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}, {math.MinInt64, math.MinInt64}, {0, math.MinInt64}, {math.MaxInt64, math.MinInt64},
	} {
		d := closing("times", "x", 0, 0)
		d.CloseAt, d.Until = times[0], times[1]
		d.Next = schemas.Span{CloseAt: times[1], Until: times[0]}
		b.Apply([]schemas.Decision{d}, at(1))
		if b.Len() > n+1 {
			t.Errorf("%v: got %d closures", times, b.Len())
		}
	}
	b.Expire(at(61))
	if left := b.Of(schemas.Caller{Kind: "key", ID: "\x00"}); len(left) != 0 {
		t.Errorf("got %+v, want it ended", left)
	}
}

// TestPagesAreBounded, and end.
func TestPagesAreBounded(t *testing.T) {
	b := ready(1, Options{})
	for i := range 3000 {
		b.Apply([]schemas.Decision{closing("r", fmt.Sprint(i), 0, 60)}, at(1))
	}
	for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1, 1024: 1024, 100_000: 1024} {
		if got := len(b.After(0, limit)); got != want {
			t.Errorf("limit %d: got %d, want %d", limit, got, want)
		}
	}
	if got := b.After(3000, 10); len(got) != 0 {
		t.Errorf("got %d behind the last", len(got))
	}
	for i := range 2990 { // far more places are empty than one piece looks at
		b.Apply([]schemas.Decision{closing("r", fmt.Sprint(i), 2, 2)}, at(2))
	}
	if got := b.After(0, 5); len(got) != 5 || got[0].Number != 2991 {
		t.Errorf("got %+v, want the first that are left", got)
	}
	if got := b.Changes(0); len(got) != 0 {
		t.Errorf("got %d changes, want none", len(got))
	}
}
