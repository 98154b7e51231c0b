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
	targets []poolTarget        // by partition
}

// poolTarget is what goes to one partition.
type poolTarget struct {
	waiting map[string]schemas.Entry // by kind and id
	sent    map[string]schemas.Entry // those of the last frame
	busy    bool                     // something was offered, and not all of it is acknowledged
	seq     uint64                   // of the last frame that was acknowledged
}

// NewPools returns a Pools of an owner of one of the partitions. The producer must be new: sequence numbers begin at 1.
func NewPools(key schemas.PartitionKey, producer schemas.ProducerID, from, partitions int) *Pools {
	return &Pools{
		head: schemas.Frame{Producer: producer, Partitions: uint32(partitions), Fingerprint: key.Fingerprint()}, // a number of partitions
		key:  key, from: from, ids: make(map[string][]string), targets: make([]poolTarget, partitions),
	}
}

// Offer takes what a fold has made. It returns the partitions for which nothing was offered that is not acknowledged, and how many entries
// were dropped because newer ones take their place.
func (p *Pools) Offer(tallies []fold.PoolTally, levels []fold.PoolLevel) (idle []int, dropped int) {
	put := func(to int, e schemas.Entry) {
		t := &p.targets[to]
		if !t.busy {
			t.busy = true
			idle = append(idle, to)
		}
		if t.waiting == nil {
			t.waiting, t.sent = make(map[string]schemas.Entry), make(map[string]schemas.Entry)
		}
		if _, taken := t.waiting[e.Kind+e.ID]; taken {
			dropped++
		}
		t.waiting[e.Kind+e.ID] = e
	}
	for i := range tallies {
		t := &tallies[i]
		put(fold.PoolHome(p.key, t.Rule.Name, len(p.targets)), t.Entry(p.from))
	}
	for i := range levels {
		l := &levels[i]
		name := l.Rule.Name
		if p.ids[name] == nil {
			p.ids[name] = fold.LevelIDs(p.key, name, len(p.targets))
		}
		for to, id := range p.ids[name] {
			put(to, l.Entry(id))
		}
	}
	return idle, dropped
}

// Frame returns what waits for a partition, as a frame that is made now. A frame that was not acknowledged and the next one have the same
// sequence number, so that no reader misses one. If both come into the log, the second one is a duplicate, and what it says comes a quarter of
// a window later.
func (p *Pools) Frame(to int, now int64) ([]byte, error) {
	t, f := &p.targets[to], p.head
	f.Seq, f.Flushed = t.seq+1, now
	clear(t.sent)
	for _, at := range slices.Sorted(maps.Keys(t.waiting)) {
		f.Entries = append(f.Entries, t.waiting[at])
		t.sent[at] = t.waiting[at]
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		return nil, fmt.Errorf("make a frame for partition %d: %w", to, err)
	}
	return value, nil
}

// Acked notes that the last frame for a partition is in the log, and reports whether something has come meanwhile.
func (p *Pools) Acked(to int) (more bool) {
	t := &p.targets[to]
	t.seq++
	for at, sent := range t.sent {
		if t.waiting[at] == sent {
			delete(t.waiting, at)
		}
	}
	t.busy = len(t.waiting) > 0
	return t.busy
}
