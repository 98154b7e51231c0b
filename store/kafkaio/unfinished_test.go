package kafkaio

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// halfRead is a batch of n empty records of which none has been read yet.
func halfRead(n int) *openBatch {
	raw := appendBatch(nil, make([]Message, n))
	return &openBatch{header: header{last: int64(n - 1), count: int32(n)}, left: int32(n), buf: raw[batchHeader:], maxRecord: 1 << 20, release: func() {}}
}

// holding keeps a batch of n records for a reader that goes on at its start.
func holding(u *unfinished, r FetchRequest, n, bytes int, now time.Time) {
	o := halfRead(n)
	o.packed = bytes
	u.keep(r, &Batch{Next: r.Offset, HighWater: 77, LogStart: 5, open: o}, now)
}

func TestUnfinishedGoesOnWhereItWas(t *testing.T) {
	var u unfinished
	now := time.Unix(1e9, 0)
	r := FetchRequest{Topic: "t", Partition: 3}
	holding(&u, r, 5, 1, now)
	for _, other := range []FetchRequest{{Topic: "u", Partition: 3}, {Topic: "t", Partition: 2}, {Topic: "t", Partition: 3, Offset: 1}} {
		if b, ok := u.resume(other, 1, now); ok {
			t.Errorf("%+v: got %q, which is another's", other, account(b))
		}
	}
	for ; r.Offset < 5; r.Offset++ {
		b, ok := u.resume(r, 1, now)
		if want := fmt.Sprintf("%d-%d next %d", r.Offset, r.Offset, r.Offset+1); !ok || account(b) != want || b.HighWater != 77 || b.LogStart != 5 {
			t.Errorf("got %q, %v, %d, %d, want %q", account(b), ok, b.HighWater, b.LogStart, want)
		}
	}
	if _, ok := u.resume(r, 1, now); ok || len(u.batches) != 0 {
		t.Errorf("got a piece behind the last, or %d batches kept", len(u.batches))
	}
}

func TestUnfinishedKeepsNoMoreThanItsBound(t *testing.T) {
	var u unfinished
	now := time.Unix(1e9, 0)
	for p := range 10 {
		holding(&u, FetchRequest{Topic: "t", Partition: p}, 3, maxUnfinished/4, now)
	}
	if len(u.batches) != 4 {
		t.Fatalf("got %d batches, want the four there is room for", len(u.batches))
	}
	for p := range 4 { // those that are read stay
		if _, ok := u.resume(FetchRequest{Topic: "t", Partition: p}, 1, now); !ok {
			t.Errorf("partition %d: got nothing, want it to go on", p)
		}
	}
	now = now.Add(unfinishedIdle)
	u.resume(FetchRequest{Topic: "t", Partition: 0, Offset: 1}, 1, now)
	now = now.Add(time.Second)
	holding(&u, FetchRequest{Topic: "t", Partition: 9}, 3, maxUnfinished/4, now)
	if len(u.batches) != 2 {
		t.Fatalf("got %d batches, want the one that is read, and the new one", len(u.batches))
	}
	u.close()
	if _, ok := u.resume(FetchRequest{Topic: "t", Partition: 9}, 1, now); ok {
		t.Error("got a piece after close")
	}
}

// TestUnfinishedIsUsedByOneAtATime has many readers of one batch, as when an audit meets an owner: each piece goes to one.
func TestUnfinishedIsUsedByOneAtATime(t *testing.T) {
	var u unfinished
	const records = 1000
	now := time.Unix(1e9, 0)
	holding(&u, FetchRequest{Topic: "t"}, records, 1, now)
	var mu sync.Mutex
	seen := make(map[int64]int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for at := range int64(records) {
				b, ok := u.resume(FetchRequest{Topic: "t", Offset: at}, 1, now)
				if !ok {
					continue
				}
				mu.Lock()
				for _, r := range b.Records {
					seen[r.Offset]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for offset, n := range seen {
		if n != 1 {
			t.Errorf("offset %d: got it %d times, want once", offset, n)
		}
	}
	if seen[0] != 1 {
		t.Error("got nothing at all")
	}
}
