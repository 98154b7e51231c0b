package fold

import (
	"encoding/binary"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/store/rows"
)

func poolKey(r *rules.Rule) []byte { return append([]byte{byte(PoolRow)}, r.Name...) }

// poolValue encodes what the fold keeps of a pool: a version, the shape of the rule, when its level came and the level, what all callers
// asked for, and what the home keeps. The first two of these parts stand behind their lengths.
func (s *inForce) poolValue(p *poolState) []byte {
	r := s.set.Rules[p.rule]
	b := binary.LittleEndian.AppendUint64([]byte{rowVersion}, r.Shape())
	b = binary.AppendVarint(b, p.levelAt)
	level := s.levels[r.Pool.Index].AppendTo(nil)
	b = append(binary.AppendUvarint(b, uint64(len(level))), level...)
	b = binary.AppendUvarint(b, uint64(len(p.asked)))
	for _, number := range p.asked {
		b = binary.AppendVarint(b, number)
	}
	return p.home.AppendTo(b)
}

// readPool reads what value wrote, behind version and shape.
func readPool(b []byte) (levelAt int64, level pool.Level, asked window.State, home pool.Home, err error) {
	bad := fmt.Errorf("%w: got a pool cut short", errRow)
	levelAt, n := binary.Varint(b)
	if n <= 0 {
		return 0, level, nil, home, bad
	}
	b = b[n:]
	length, n := binary.Uvarint(b)
	if n <= 0 || length > uint64(len(b)-n) {
		return 0, level, nil, home, bad
	}
	if level, err = pool.ReadLevel(b[n : n+int(length)]); err != nil { // ≤ len(b)
		return 0, level, nil, home, fmt.Errorf("%w: %w", errRow, err)
	}
	b = b[n+int(length):]
	numbers, n := binary.Uvarint(b)
	if n <= 0 || numbers > uint64(len(b)) {
		return 0, level, nil, home, bad
	}
	for b = b[n:]; numbers > 0; numbers-- {
		number, n := binary.Varint(b)
		if n <= 0 {
			return 0, level, nil, home, bad
		}
		asked, b = append(asked, number), b[n:]
	}
	if home, err = pool.ReadHome(b); err != nil {
		err = fmt.Errorf("%w: %w", errRow, err)
	}
	return levelAt, level, asked, home, err
}

// takePools appends the pools that changed since the last checkpoint, for the store.
func (f *Fold) takePools(changes []rows.Change) []rows.Change {
	for i := range f.pools.list {
		p := &f.pools.list[i]
		if !p.dirty {
			continue
		}
		key, value := poolKey(f.rules.set.Rules[p.rule]), f.rules.poolValue(p)
		if p.stored == 0 && len(f.table.removed) > 0 {
			p.stored = f.table.removed.Take(key)
		}
		changes = append(changes, rows.Change{Key: key, Value: value, Old: p.stored})
		p.stored, p.dirty = rows.Sum(key, value), false
	}
	return changes
}

// scanPools returns all pools that hold anything.
func (f *Fold) scanPools() []rows.Change {
	var list []rows.Change
	for i := range f.pools.list {
		if p := &f.pools.list[i]; p.asked != nil || p.levelAt != 0 || len(p.home.Tallies) > 0 {
			list = append(list, rows.Change{Key: poolKey(f.rules.set.Rules[p.rule]), Value: f.rules.poolValue(p)})
		}
	}
	return list
}

// restorePool puts a pool back. stored is its sum in the store, or 0 if it comes from a snapshot. If no such rule exists, or if it counts
// differently now, the pool is dropped.
func (f *Fold) restorePool(key, value []byte, stored uint64) error {
	if len(value) < 9 || value[0] != rowVersion {
		return fmt.Errorf("%w: got a pool of %d bytes", errRow, len(value))
	}
	levelAt, level, asked, home, err := readPool(value[9:])
	if err != nil {
		return err
	}
	i := f.rules.index(string(key[1:]))
	if i < 0 || f.rules.set.Rules[i].Pool == nil || f.rules.set.Rules[i].Shape() != binary.LittleEndian.Uint64(value[1:]) ||
		len(home.Tallies) > f.opts.Partitions {
		f.table.removed.Add(key, stored)
		return nil
	}
	n := f.rules.set.Rules[i].Pool.Index
	p := &f.pools.list[n]
	if !p.window.Valid(asked) {
		return fmt.Errorf("%w: got a pool with %d numbers of demand", errRow, len(asked))
	}
	p.asked, p.levelAt, p.home, f.rules.levels[n] = asked, levelAt, home, level
	p.stored, p.dirty = stored, stored == 0 && !f.opts.NoStore
	return nil
}
