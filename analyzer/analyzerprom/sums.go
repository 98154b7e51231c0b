package analyzerprom

import (
	"maps"
	"slices"
	"sync"

	"github.com/509da70d/floodgate/analyzer/histogram"
)

// sums adds up counters of all partitions. A sum of the partitions at hand would fall when one is given away, and Prometheus takes
// a counter that falls for one that has begun again: it would count what is left once more. So what a partition had counted when it
// was last seen stays in the sum. Make one with newSums; any goroutine may use it.
type sums struct {
	mu   sync.Mutex
	last counters       // guarded by mu: as of the last time
	past map[string]row // guarded by mu, by name: of partitions that were given away, and of owners that ended
}

// row is some counters that belong together. All rows of one name have the same length.
type row []float64

// counters are rows of partitions.
type counters map[counted]row

type counted struct {
	partition int
	name      string
}

func newSums() *sums { return &sums{past: make(map[string]row)} }

// add returns, by name, the sum of the rows that are now and of those that were. A name that no partition has any more is forgotten:
// its series end, and begin again at what its next partition has.
func (s *sums) add(now counters) map[string]row {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, was := range s.last {
		if is, ok := now[key]; !ok || is.fell(was) {
			addTo(s.past, key.name, was)
		}
	}
	s.last = now
	total := make(map[string]row)
	for key, is := range now {
		addTo(total, key.name, is)
	}
	maps.DeleteFunc(s.past, func(name string, _ row) bool { return total[name] == nil })
	for name, was := range s.past {
		addTo(total, name, was)
	}
	return total
}

func addTo(m map[string]row, name string, r row) {
	if m[name] == nil {
		m[name] = slices.Clone(r)
		return
	}
	for i := range r {
		m[name][i] += r[i]
	}
}

// fell reports whether a counter is below what it was: its owner has ended, and this is another's.
func (r row) fell(was row) bool {
	for i := range r {
		if r[i] < was[i] {
			return true
		}
	}
	return false
}

// rowOf returns a histogram with these bounds as counters: within each bound, of all, and their sum.
func rowOf(s *histogram.Snapshot, bounds []float64) row {
	r := make(row, 0, len(bounds)+2)
	for _, b := range bounds {
		r = append(r, float64(s.Within[b]))
	}
	return append(r, float64(s.Count), s.Sum)
}

// snapshot is the inverse of rowOf.
func (r row) snapshot(bounds []float64) histogram.Snapshot {
	s := histogram.Snapshot{Within: make(map[float64]uint64, len(bounds)), Count: uint64(r[len(bounds)]), Sum: r[len(bounds)+1]}
	for i, b := range bounds {
		s.Within[b] = uint64(r[i])
	}
	return s
}
