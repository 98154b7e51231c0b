package kafkalink

import (
	"fmt"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// fill puts entries of n callers, one request each, and returns how many were dropped.
func (q *queue) fill(n int) (dropped uint64) {
	for i := range n {
		e := schemas.Entry{Kind: "key", ID: fmt.Sprint("caller-", i), Count: 1}
		dropped += q.put(uint64(i+1)*0x9e3779b97f4a7c15, &e)
	}
	return dropped
}

// drain takes all that waits and returns how many requests that was. The table is as large as it was afterwards.
func (q *queue) drain() (requests uint64, size int) {
	t, _, _ := q.poll()
	if t == nil {
		return 0, 0
	}
	requests, size = t.Requests(), t.Cap()
	q.done(t)
	return requests, size
}

// The memory of a queue follows what waits: from nothing to its bound, and back. No request is lost on the way.
func TestAQueueGrowsAndShrinks(t *testing.T) {
	const size = 1000
	q := newQueue(size, newTables(false))
	for _, step := range []struct{ callers, kept int }{{1, 1}, {minTable, minTable}, {minTable + 1, minTable + 1}, {300, 300}, {5000, size}, {5000, size}} {
		dropped := q.fill(step.callers)
		requests, table := q.drain()
		if int(requests) != step.kept || int(dropped) != step.callers-step.kept || table < step.callers && table < size || table > size {
			t.Errorf("%d callers: got %d requests, %d dropped, in a table for %d; want %d, and a table of at most %d",
				step.callers, requests, dropped, table, step.kept, size)
		}
	}
	for range 20 {
		q.fill(1)
		q.drain()
	}
	if got := q.table.Cap(); got > 2*minTable*growth {
		t.Errorf("got a table for %d entries after 20 times one caller, want a small one again", got)
	}
}
