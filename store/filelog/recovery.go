package filelog

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
)

// openPartition opens a partition that ended at a recovery point when it was last synced, and cuts off what follows and cannot be trusted.
func openPartition(d disk, dir string, durable point, limit int64, logger *slog.Logger) (*partition, error) {
	p := &partition{disk: d, dir: dir, limit: limit, durable: durable, logger: logger}
	names, err := d.list(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names {
		if base := baseOf(name); base >= 0 {
			p.segments = append(p.segments, newSegment(dir, base))
		}
	}
	slices.SortFunc(p.segments, func(a, b *segment) int { return byBase(a, b.base) })
	if err := p.recover(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// recover finds out how far the segments can be trusted. What is before the recovery point is not read: Fetch checks it.
func (p *partition) recover() error {
	durable := p.durable
	if len(p.segments) > 0 && p.segments[0].base > durable.end && durable != unknown {
		if durable.bytes > 0 {
			p.logger.Error("the beginning of the log is missing, though it was on disk", "dir", p.dir, "offset", durable.segment)
		} else if err := p.removeFrom(0); err != nil {
			return err
		}
	}
	first := len(p.segments) // the one that the recovery point is in, or that begins there
	for i, s := range p.segments {
		if err := p.measure(s); err != nil {
			return err
		}
		if i == 0 || s.base <= durable.end {
			first = i
		}
	}
	for i, s := range p.segments[:min(first, len(p.segments))] {
		s.next, s.synced, s.listed = p.segments[i+1].base, s.size, true
	}
	if first == len(p.segments) {
		return p.beginAtPoint()
	}
	s, from := p.segments[first], int64(0)
	expected := s.base
	switch {
	case s.base >= durable.end: // all of it came later
	case s.base == durable.segment && s.size >= durable.bytes:
		from, expected = durable.bytes, durable.end
	default: // the end was there, and is lost; or the last segment had no record yet
		s.next, s.synced, s.listed = durable.end, s.size, true
		if err := p.removeFrom(first + 1); err != nil {
			return err
		}
		return p.beginAtPoint()
	}
	for i := first; ; i++ {
		if err := p.scan(p.segments[i], from, expected); err != nil {
			return err
		}
		from, expected = 0, p.segments[i].next
		if i+1 == len(p.segments) {
			return nil
		}
		if p.segments[i+1].base != expected {
			return p.removeFrom(i + 1)
		}
	}
}

// beginAtPoint makes the next record get the offset of the recovery point though the files end before, so that no offset is used twice.
func (p *partition) beginAtPoint() error {
	if p.durable.bytes > 0 {
		p.logger.Error("the end of the log is missing, though it was on disk", "dir", p.dir, "next_offset", p.durable.end)
	}
	p.segments = append(p.segments, newSegment(p.dir, max(p.durable.end, 0)))
	return nil
}

// removeFrom removes the segments from index i on: what is before them lacks its end.
func (p *partition) removeFrom(i int) error {
	for _, s := range p.segments[i:] {
		p.logger.Warn("removed a part of the log that was never synced: the part before it is not whole", "file", s.path)
		if err := p.disk.remove(s.path); err != nil {
			return fmt.Errorf("remove %s: %w", s.path, err)
		}
	}
	p.segments = p.segments[:i]
	return nil
}

// measure asks how long a segment is and when it was last changed.
func (p *partition) measure(s *segment) error {
	f, err := p.disk.open(s.path, false)
	if err != nil {
		return err
	}
	s.size, s.changed, err = f.info()
	return errors.Join(err, f.Close())
}

// scan walks over the batches of a segment from a byte on that the recovery point is at or before, and cuts off what follows the last whole one.
func (p *partition) scan(s *segment, from, expected int64) error {
	f, err := p.use(s, false)
	if err != nil {
		return err
	}
	defer p.leave(s)
	w := &window{file: f, size: s.size}
	at := from
	for at < s.size {
		b, err := w.batchAt(at, expected, math.MaxInt64)
		if isBad(err) {
			p.logger.Warn("cut off the end of the log, which was never synced", "file", s.path, "byte", at, "bytes", s.size-at, "because", err)
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		s.index.note(entry{b.Base, at})
		at, expected = at+b.Bytes, b.Last+1
	}
	if err := rewrite(f, from, at); err != nil {
		return fmt.Errorf("write %s again: %w", s.path, err)
	}
	if at < s.size {
		if err := f.Truncate(at); err != nil {
			return fmt.Errorf("cut %s at byte %d: %w", s.path, at, err)
		}
	}
	s.size, s.next, s.synced, s.listed = at, expected, from, from > 0
	return nil
}

// rewrite writes a part of a file again as it is. It may be on disk, or in memory only: if a sync fails, the system may keep pages that the next
// sync takes for written.
func rewrite(f file, from, to int64) error {
	w := &window{file: f, size: to}
	for from < to {
		b, err := w.from(from, readAhead)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(b, from); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}
