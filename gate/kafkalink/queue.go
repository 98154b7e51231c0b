package kafkalink

import (
	"sync"

	"github.com/509da70d/floodgate/gate/internal/merge"
	"github.com/509da70d/floodgate/schemas"
)

// queue holds the entries that wait for one partition, merged, in bounded memory. flush puts entries in, and the partition's
// sender takes all of them at once. The path of a request never uses it. Its tables grow with what waits, and shrink when it was
// sent: most partitions of most servers have a few entries at a time.
//
// Entries are merged here a second time, after the Recorder: while a frame is in flight, several flushes meet in the queue.
type queue struct {
	size   int           // how many entries may wait
	wake   chan struct{} // receives after a put or close
	tables *sync.Pool    // of newTables, for all queues of a session

	mu     sync.Mutex   // protects what follows
	table  *merge.Table // waiting
	canary int64        // time of a canary that waits, in Unix nanoseconds; 0: none waits
	closed bool
}

func newQueue(size int, tables *sync.Pool) *queue {
	return &queue{size: size, wake: make(chan struct{}, 1), tables: tables, table: newTable(tables)}
}

// newTables returns a pool of empty *merge.Table, for the entries of a Recorder that holds or does not.
func newTables(holds bool) *sync.Pool {
	if holds {
		return &sync.Pool{New: func() any { return merge.NewHolding(minTable) }}
	}
	return &sync.Pool{New: func() any { return merge.New(minTable) }}
}

func newTable(tables *sync.Pool) *merge.Table {
	return tables.Get().(*merge.Table) //nolint:errcheck,forcetypeassert // the pool holds nothing else
}

// minTable is how many entries a table has room for at first. One that is full gets growth times as much.
const (
	minTable = 16
	growth   = 4
)

// put adds an entry and returns how many requests were dropped to make room, of this or of others.
func (q *queue) put(hash uint64, e *schemas.Entry) (dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.table.Add(hash, e) {
		if q.table.Cap() >= q.size {
			return q.table.Replace(hash, e)
		}
		q.table = q.table.Grown(min(growth*q.table.Cap(), q.size))
	}
	return 0
}

// putCanary adds a canary of a time in Unix nanoseconds, unless one waits already.
func (q *queue) putCanary(at int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.canary == 0 {
		q.canary = at
	}
}

// signal wakes the sender if something waits.
func (q *queue) signal() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.table.Len() > 0 || q.canary != 0 || q.closed {
		select {
		case q.wake <- struct{}{}:
		default: // a signal is there already
		}
	}
}

// close ends the queue: no put follows.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// take waits for entries or a canary, and returns them; a nil table says that the queue is closed and empty. The sender gives
// the table back with done before it takes again.
func (q *queue) take() (t *merge.Table, canary int64) {
	for {
		if t, canary, closed := q.poll(); t != nil || closed {
			return t, canary
		}
		<-q.wake
	}
}

func (q *queue) poll() (t *merge.Table, canary int64, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.table.Len() == 0 && q.canary == 0 {
		return nil, 0, q.closed
	}
	t, canary = q.table, q.canary
	q.table, q.canary = newTable(q.tables), 0
	return t, canary, false
}

// done gives a table back, for any queue, unless it is much larger than what was in it.
func (q *queue) done(t *merge.Table) {
	if t.Cap() > minTable && t.Len() < t.Cap()/(growth*growth) {
		return
	}
	t.Reset()
	q.tables.Put(t)
}

// len returns how many entries wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.table.Len()
}
