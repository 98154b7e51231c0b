package heap_test

import (
	stdheap "container/heap"
	"math/rand/v2"
	"testing"

	"github.com/509da70d/floodgate/schemas/heap"
)

// model is container/heap's heap of the same items.
type model []*item

type item struct {
	value int
	index int
}

func (m model) Len() int           { return len(m) }
func (m model) Less(i, j int) bool { return m[i].value < m[j].value }
func (m model) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *model) Push(x any)        { *m = append(*m, x.(*item)) } //nolint:errcheck,forcetypeassert // nothing else is pushed

func (m *model) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// TestAgreesWithContainerHeap: after each of 20,000 changes, items stand where container/heap would have them, also items that are
// equal, and Moved has said where.
func TestAgreesWithContainerHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var want model
	got := heap.Heap[*item]{
		Less:  func(a, b *item) bool { return a.value < b.value },
		Moved: func(i *item, at int) { i.index = at },
	}
	for range 20_000 {
		switch n := len(want); {
		case n == 0 || random.IntN(5) < 2:
			i := &item{value: random.IntN(50), index: -1}
			stdheap.Push(&want, i)
			got.Push(i)
		case random.IntN(3) == 0:
			if g, w := got.Pop(), stdheap.Pop(&want); g != w {
				t.Fatalf("pop: got %v, want %v", g, w)
			}
		case random.IntN(2) == 0:
			at := random.IntN(n)
			want[at].value = random.IntN(50)
			stdheap.Fix(&want, at)
			got.Fix(at)
		default:
			at := random.IntN(n)
			if g, w := got.Remove(at), stdheap.Remove(&want, at); g != w {
				t.Fatalf("remove %d: got %v, want %v", at, g, w)
			}
		}
		if len(got.Items) != len(want) {
			t.Fatalf("got %d items, want %d", len(got.Items), len(want))
		}
		for at, i := range got.Items {
			if i != want[at] || i.index != at {
				t.Fatalf("at %d: got %+v, want %+v with this index", at, i, want[at])
			}
		}
	}
}

// TestRemovedItemsCanBeCollected: no memory behind the last item refers to one that was removed.
func TestRemovedItemsCanBeCollected(t *testing.T) {
	h := heap.Heap[*item]{Less: func(a, b *item) bool { return a.value < b.value }}
	for value := range 10 {
		h.Push(&item{value: value})
	}
	for range 10 {
		h.Remove(len(h.Items) / 2)
	}
	for at, i := range h.Items[:cap(h.Items)] {
		if i != nil {
			t.Errorf("at %d: got %+v, want nil", at, i)
		}
	}
}
