package outbox

import (
	"fmt"
	"maps"
	"slices"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/schemas"
)

// Pools holds the tallies and levels that an owner must still send, by the partition of requests that they go to. Of each pool, only the
// newest tally and the newest level wait: older ones would change nothing. NewPools makes one. One goroutine at a time may use it.
type Pools struct {
	head    schemas.Frame
	key     schemas.PartitionKey
	from    int
	ids     map[string][]string // of the levels of each rule, by partition
	waiting []map[string]schemas.Entry
	seqs    []uint64
}

// NewPools returns a Pools of an owner of one of the partitions. The producer must be new: sequence numbers begin at 1.
func NewPools(key schemas.PartitionKey, producer schemas.ProducerID, from, partitions int) *Pools {
	return &Pools{
		head: schemas.Frame{Producer: producer, Partitions: uint32(partitions), Fingerprint: key.Fingerprint()}, // a number of partitions
		key:  key, from: from, ids: make(map[string][]string),
		waiting: make([]map[string]schemas.Entry, partitions), seqs: make([]uint64, partitions),
	}
}

// Offer takes what a fold has made. It returns the partitions for which something waits that did not before, and how many entries were
// dropped because newer ones take their place.
func (p *Pools) Offer(tallies []fold.PoolTally, levels []fold.PoolLevel) (targets []int, dropped int) {
	put := func(target int, e schemas.Entry) {
		w := p.waiting[target]
		if w == nil {
			w = make(map[string]schemas.Entry)
			p.waiting[target] = w
		}
		if len(w) == 0 {
			targets = append(targets, target)
		}
		at := e.Kind + e.ID
		if _, taken := w[at]; taken {
			dropped++
		}
		w[at] = e
	}
	for i := range tallies {
		t := &tallies[i]
		put(fold.PoolHome(p.key, t.Rule.Name, len(p.waiting)), t.Entry(p.from))
	}
	for i := range levels {
		l := &levels[i]
		name := l.Rule.Name
		if p.ids[name] == nil {
			p.ids[name] = fold.LevelIDs(p.key, name, len(p.waiting))
		}
		for target, id := range p.ids[name] {
			put(target, l.Entry(id))
		}
	}
	return targets, dropped
}

// Take takes what waits for a partition, as a frame that is made now; nil if nothing waits.
func (p *Pools) Take(target int, now int64) ([]byte, error) {
	w := p.waiting[target]
	if len(w) == 0 {
		return nil, nil
	}
	f := p.head
	p.seqs[target]++
	f.Seq, f.Flushed = p.seqs[target], now
	for _, at := range slices.Sorted(maps.Keys(w)) {
		f.Entries = append(f.Entries, w[at])
	}
	clear(w)
	value, err := f.AppendTo(nil)
	if err != nil {
		return nil, fmt.Errorf("make a frame for partition %d: %w", target, err)
	}
	return value, nil
}
