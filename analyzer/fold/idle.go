package fold

import (
	"bytes"
	"cmp"

	"github.com/509da70d/floodgate/schemas/heap"
)

// idleHeap is all senders of a dedupe table: the sender that was silent for longest comes first; of two
// that were silent equally long, the one with the lower key. A sender that is heard of again keeps its place, and finds its new
// place when it comes first. By then log time has moved on by at least a grace period, so a sender moves at most once in a grace
// period, and a client whose senders come and go does not make others cost a pass over the table.
type idleHeap = heap.Heap[idleSender]

// idleSender is a sender that was not heard of before last, in Unix nanoseconds.
type idleSender struct {
	last int64
	id   senderID
}

func newIdleHeap() idleHeap { return heap.New((*idleSender).before, nil) }

func (s *idleSender) before(other *idleSender) bool {
	return s.last < other.last || s.last == other.last && s.id.compare(other.id) < 0
}

// compare orders senders as their keys in the store.
func (id senderID) compare(other senderID) int {
	if id.source != other.source {
		return cmp.Compare(id.prefix(), other.prefix())
	}
	return bytes.Compare(id.id[:], other.id[:])
}
