package analyzer

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// heavy finds the heaviest of more callers than can be kept: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi:
// Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005). It holds a fixed number of callers. One
// that is new takes the place of the lightest, whose count it inherits as its error: its own count is then known to lie
// between count − error and count. Whoever made more than 1/heavySlots of all requests since the last reset is among
// those held.
//
// Time goes by the log, in periods: at the start of each, all is forgotten. A restart forgets too, so that for up to
// heavyPeriod later it depends on when the analyzer was restarted which of the callers beyond the bound are admitted; it
// never depends on it what is counted of those who were. The zero value is empty. One goroutine may use it.
type heavy struct {
	period int64
	items  []heavyItem       // a heap: the lightest first
	at     map[uint64]uint32 // hash → index in items
}

type heavyItem struct {
	hash         uint64
	count, error uint64
}

const (
	heavySlots  = 1 << 14
	heavyPeriod = int64(10 * time.Second)
	heavyCount  = 8 // requests within a period that make a caller heavy
)

// add counts requests of a caller, and returns how many it has made in this period at least.
func (h *heavy) add(hash uint64, requests uint32, now int64) uint64 {
	if p := now / heavyPeriod; p != h.period || h.at == nil {
		h.reset(p)
	}
	i, ok := h.at[hash]
	switch {
	case ok:
		h.items[i].count += uint64(requests)
	case len(h.items) < heavySlots:
		i = uint32(len(h.items)) // < heavySlots
		h.items = append(h.items, heavyItem{hash: hash, count: uint64(requests)})
		h.at[hash] = i
		h.up(i)
		return uint64(requests)
	default:
		lightest := &h.items[0]
		delete(h.at, lightest.hash)
		*lightest = heavyItem{hash: hash, count: lightest.count + uint64(requests), error: lightest.count}
		h.at[hash] = 0
	}
	item := h.items[i]
	h.down(i)
	return item.count - item.error
}

func (h *heavy) reset(period int64) {
	h.period, h.items = period, h.items[:0]
	if h.at == nil {
		h.at = make(map[uint64]uint32)
	}
	clear(h.at)
}

func (h *heavy) up(i uint32) {
	for i > 0 {
		parent := (i - 1) / 2
		if h.items[parent].count <= h.items[i].count {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heavy) down(i uint32) {
	n := uint32(len(h.items)) // ≤ heavySlots
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < n; child++ {
			if h.items[child].count < h.items[least].count {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *heavy) swap(i, j uint32) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.at[h.items[i].hash], h.at[h.items[j].hash] = i, j
}

// admits reports whether a caller that has no row yet gets one. Everyone does until there are MaxRows; after that those
// do who make so many requests that a rule may concern them, in an eighth as much room again. They are counted from there
// on, so that what is counted is never more than what was.
func (f *Fold) admits(hash uint64, e *schemas.Entry) bool {
	switch {
	case f.table.used < f.opts.MaxRows:
		return true
	case f.table.used >= f.opts.MaxRows+(f.opts.MaxRows+7)/8:
		return false
	}
	return f.heavy.add(hash, e.Count, f.now) >= heavyCount
}
