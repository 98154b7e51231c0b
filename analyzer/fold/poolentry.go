package fold

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// This file says what tallies and levels are in a log: entries of kinds _tally and _level. The id of a tally is the name of the rule, so
// that it comes into the partition that is the pool's home. The id of a level is the name of the rule, levelSeparator and a number, which is
// chosen so that the entry comes into a certain partition. The resource has the rest: version, the shape of the rule, and of a tally the
// partition that it is from.

const (
	poolVersion    = 1
	poolHead       = 9 // bytes of version and shape
	levelSeparator = "#"
)

// Reasons for which a tally or a level is dropped. They are labels of a metric.
const (
	PoolMalformed = "malformed" // it cannot be read
	PoolShape     = "rule"      // there is no such rule with a capacity, or it counts differently here
	PoolOld       = "old"       // one that is as new, or newer, has come
	PoolAhead     = "ahead"     // it is of a time that log time has not reached by far
)

// PoolReasons returns all reasons for which a tally or a level is dropped.
func PoolReasons() []string { return []string{PoolMalformed, PoolShape, PoolOld, PoolAhead} }

// PoolHome returns the partition in which the tallies of a pool are added up.
func PoolHome(key schemas.PartitionKey, rule string, partitions int) int {
	return schemas.Partition(key.Hash(schemas.KindTally, rule), partitions)
}

// LevelIDs returns for each partition the id of a level that comes into it.
func LevelIDs(key schemas.PartitionKey, rule string, partitions int) []string {
	ids := make([]string, partitions)
	for i, missing := 0, partitions; missing > 0; i++ {
		id := rule + levelSeparator + strconv.Itoa(i)
		if p := schemas.Partition(key.Hash(schemas.KindLevel, id), partitions); ids[p] == "" {
			ids[p] = id
			missing--
		}
	}
	return ids
}

func poolResource(r *rules.Rule) []byte {
	return binary.LittleEndian.AppendUint64([]byte{poolVersion}, r.Shape())
}

// Entry returns the tally as an entry from a partition.
func (t *PoolTally) Entry(partition int) schemas.Entry {
	b := t.Tally.AppendTo(binary.AppendUvarint(poolResource(t.Rule), uint64(partition))) // ≥ 0
	return schemas.Entry{Time: t.At, Kind: schemas.KindTally, ID: t.Rule.Name, Resource: string(b), Count: 1}
}

// Entry returns the level as an entry with one of LevelIDs.
func (l *PoolLevel) Entry(id string) schemas.Entry {
	return schemas.Entry{Time: l.At, Kind: schemas.KindLevel, ID: id, Resource: string(l.Level.AppendTo(poolResource(l.Rule))), Count: 1}
}

// poolEntry folds a tally or a level. It moves log time, as other entries do: a partition without traffic learns the time in this way.
func (f *Fold) poolEntry(e *schemas.Entry) {
	f.Advance(e.Time)
	reason := PoolMalformed
	switch name, _, _ := strings.Cut(e.ID, levelSeparator); {
	case len(e.Resource) < poolHead || e.Resource[0] != poolVersion:
	case e.Kind == schemas.KindTally:
		reason = f.foldTally(e.ID, []byte(e.Resource))
	default:
		reason = f.foldLevel(name, []byte(e.Resource))
	}
	if reason != "" {
		f.pools.drop(reason)
	}
}

func (p *pools) drop(reason string) {
	if p.dropped == nil {
		p.dropped = make(map[string]uint64)
	}
	p.dropped[reason]++
}

// poolOf returns the pool that a tally or a level is about, or nil, and its index.
func (f *Fold) poolOf(name string, b []byte) (*poolState, int) {
	i := f.rules.index(name)
	if i < 0 || f.rules.set.Rules[i].Pool == nil || f.rules.set.Rules[i].Shape() != binary.LittleEndian.Uint64(b[1:]) {
		return nil, 0
	}
	n := f.rules.set.Rules[i].Pool.Index
	return &f.pools.list[n], n
}

// ahead reports whether a quarter is so far ahead of log time that only a wrong clock can have made it.
func (f *Fold) ahead(p *poolState, quarter int64) bool {
	return quarter > integer.FloorDiv(integer.Add(f.table.now, pool.Holds), p.window.Quarter())
}

// foldTally folds a tally. It returns the reason if the tally is dropped.
func (f *Fold) foldTally(name string, b []byte) string {
	p, _ := f.poolOf(name, b)
	if p == nil {
		return PoolShape
	}
	partition, n := binary.Uvarint(b[poolHead:])
	if n <= 0 || partition >= uint64(f.opts.Partitions) { // > 0
		return PoolMalformed
	}
	t, err := pool.ReadTally(b[poolHead+n:])
	switch {
	case err != nil:
		return PoolMalformed
	case f.ahead(p, t.Quarter):
		return PoolAhead
	case !p.home.Receive(int(partition), &t, f.table.now): // < f.opts.Partitions
		return PoolOld
	}
	p.dirty = !f.opts.NoStore
	f.makeLevel(p)
	return ""
}

// foldLevel folds a level. It returns the reason if the level is dropped.
func (f *Fold) foldLevel(name string, b []byte) string {
	p, n := f.poolOf(name, b)
	if p == nil {
		return PoolShape
	}
	l, err := pool.ReadLevel(b[poolHead:])
	level := &f.rules.levels[n]
	switch {
	case err != nil:
		return PoolMalformed
	case f.ahead(p, l.Quarter):
		return PoolAhead
	case l.Quarter <= level.Quarter:
		return PoolOld
	}
	limited := level.Level > 0
	*level, p.levelAt, p.dirty = l, f.table.now, !f.opts.NoStore
	switch {
	case limited && l.Level == 0:
		f.endLevel(p)
	case !limited && l.Level > 0:
		f.beginLevel(p)
	}
	return ""
}
