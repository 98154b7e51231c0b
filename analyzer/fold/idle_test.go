package fold

import (
	"math/bits"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas/heap"
)

// TestProducersThatComeAndGoCostNoSearch: whoever may write frames fills the table with producers that are a moment
// apart, so that one of them can be evicted at a time. Then each new producer needs room, and finds it without a look at
// the others.
func TestProducersThatComeAndGoCostNoSearch(t *testing.T) {
	const limit, sources = 20_000, 20_000
	apart := int64(dedupeGrace) / limit
	tests := map[string]func(d *dedupe, n int, now int64){
		"nobody returns": func(*dedupe, int, int64) {},
		"the oldest return just before they can be evicted": func(d *dedupe, n int, now int64) {
			if n%2 == 0 {
				d.frame(foldtest.Producer(n-limit+1), 2, now, now)
			}
		},
		"one returns all the time": func(d *dedupe, n int, now int64) {
			d.frame(foldtest.Producer(0), uint64(n), now, now)
		},
	}
	for name, returns := range tests {
		t.Run(name, func(t *testing.T) {
			d, compared := countedDedupe(limit)
			for n := range limit {
				d.frame(foldtest.Producer(n), 1, int64(n)*apart, 0)
			}
			before, evicted := *compared, 0
			for n := limit; n < limit+sources; n++ {
				now := int64(n+2) * apart
				returns(d, n, now)
				size := len(d.rows)
				if d.frame(foldtest.Producer(n), 1, now, now) == fresh && len(d.rows) <= size {
					evicted++
				}
				if d.producers.Len() != len(d.rows) {
					t.Fatalf("got %d senders in the heap, want %d", d.producers.Len(), len(d.rows))
				}
			}
			if evicted < sources/4 {
				t.Fatalf("got %d producers that took another's place, want %d or more", evicted, sources/4)
			}
			perFrame := (*compared - before) / sources
			if bound := uint64(8 * bits.Len(limit)); perFrame > bound {
				t.Errorf("got %d comparisons for each new producer, want at most %d: four ways through a heap of %d", perFrame, bound, limit)
			}
		})
	}
}

// countedDedupe returns a table of senders that counts how often its heap compares two of them.
func countedDedupe(limit int) (d *dedupe, compared *uint64) {
	d, compared = newDedupe(limit), new(uint64)
	counted := func(a, b *idleSender) bool {
		*compared++
		return a.before(b)
	}
	d.producers, d.sources = heap.New(counted, nil), heap.New(counted, nil)
	return d, compared
}

// TestExpiryLooksAtThoseThatExpire: a minute that passes costs nothing for senders that are still alive.
func TestExpiryLooksAtThoseThatExpire(t *testing.T) {
	const limit = 10_000
	d, compared := countedDedupe(limit)
	for n := range limit {
		d.frame(foldtest.Producer(n), 1, int64(n), 0)
	}
	d.frame(foldtest.Producer(0), 2, hour, hour)
	before := *compared
	for m := range int64(24 * 60) {
		d.expire(m * minute)
	}
	if got := *compared - before; got != 0 {
		t.Errorf("got %d comparisons on a day without an expiry, want none", got)
	}
	if d.expire(24*hour + limit); len(d.rows) != 1 || d.producers.Len() != 1 {
		t.Errorf("got %d senders and %d in the heap, want the one that was heard of later", len(d.rows), d.producers.Len())
	}
}

// TestSendersThatComeAndGoDoNotFillTheListOfChanges: while nothing can be committed, the list of what is to be committed
// stays as long as the table, and has each sender that is there.
func TestSendersThatComeAndGoDoNotFillTheListOfChanges(t *testing.T) {
	const limit = 100
	d := newDedupe(limit)
	for n := range 200 * limit {
		now := int64(n) * int64(time.Minute)
		d.frame(foldtest.Producer(n), 1, now, now)
		d.frame(foldtest.Producer(0), uint64(n), now, now)
		if len(d.changed) > 2*limit {
			t.Fatalf("after %d producers: got a list of %d, want at most %d", n, len(d.changed), 2*limit)
		}
	}
	rows := len(d.rows)
	if changes := d.take(nil); len(changes) != rows {
		t.Errorf("got %d changes, want one for each of %d senders", len(changes), rows)
	}
}

// BenchmarkChosenInputOfSenders has a new producer in a full table, of which nobody can be evicted, many at a time, or one at
// a time.
func BenchmarkChosenInputOfSenders(b *testing.B) {
	const limit = 100_000
	for name, apart := range map[string]int64{"nobody idle": 0, "idle at once": 2 * int64(dedupeGrace), "idle one by one": int64(dedupeGrace) / limit} {
		b.Run(name, func(b *testing.B) {
			d := newDedupe(limit)
			now := int64(0)
			for n := range limit {
				if name == "idle one by one" {
					now += apart
				}
				d.frame(foldtest.Producer(n), 1, now, now)
			}
			d.take(nil)
			for n := limit; b.Loop(); n++ {
				if now += apart; name == "idle at once" && n%(limit/10) != 0 {
					now -= apart
				}
				d.frame(foldtest.Producer(n), 1, now, now)
				if n%1000 == 0 {
					d.take(nil) // as at a checkpoint
					clear(d.removed)
				}
			}
		})
	}
}

// A snapshot that has a sender twice leaves one row and one place in the heap.
func TestASenderThatIsThereTwice(t *testing.T) {
	d := newDedupe(4)
	for _, last := range []int64{hour, 2 * hour, minute} {
		id := senderID{id: foldtest.Producer(1)}
		if err := d.restore(id.key(), (&sender{highestSeq: 5, bitmap: 1, last: last}).value(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.rows[senderID{id: foldtest.Producer(1)}].last; d.producers.Len() != 1 || got != 2*hour {
		t.Errorf("got %d in the heap, last heard of at %v, want one at 2h", d.producers.Len(), time.Duration(got))
	}
	if d.expire(100 * hour); len(d.rows)+d.producers.Len() != 0 {
		t.Errorf("got %d rows and %d in the heap, want none", len(d.rows), d.producers.Len())
	}
}
