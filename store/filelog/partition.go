package filelog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// ErrBroken says that a sync has failed. The system may forget what it could not write after it has said so once, so nobody knows what is on
// disk: nothing is appended or synced until the log is opened again.
var ErrBroken = errors.New("a sync of the log has failed: it must be opened again")

// partition is a list of segments, of which the last one grows. Its methods are safe for concurrent use.
type partition struct {
	disk   disk
	dir    string
	logger *slog.Logger
	limit  int64 // bytes of a segment

	syncing sync.Mutex // held while segments are synced or removed, which have an order; taken before mu

	mu       sync.Mutex
	segments []*segment    // guarded by mu: by offset; never empty
	durable  point         // guarded by mu: the recovery point
	changed  chan struct{} // guarded by mu: closed at the next append; nil: nobody waits
	broken   error         // guarded by mu: why nothing can be appended
	closed   bool          // guarded by mu
	settled  bool          // guarded by mu: what was cut off when the log was opened cannot come back
}

func (p *partition) last() *segment { return p.segments[len(p.segments)-1] }

// ends returns the first offset that the partition holds, and the one that its next record will get.
func (p *partition) ends() (start, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.segments[0].base, p.last().next
}

// append writes a batch of n messages, and returns the offset that it has given to the first.
func (p *partition) append(batch []byte, n int, now time.Time) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return -1, p.broken
	}
	s := p.last()
	if err := p.settle(s); err != nil {
		return -1, err
	}
	kafkaio.SetBase(batch, s.next)
	size := int64(len(batch))
	if s.size > 0 && s.size+size > p.limit {
		full := s
		s = newSegment(p.dir, s.next)
		p.segments = append(p.segments, s)
		p.closeUnused(full)
	}
	if err := p.write(s, batch); err != nil {
		return -1, err
	}
	base := s.next
	s.index.note(entry{base, s.size})
	s.size, s.next, s.changed = s.size+size, base+int64(n), now
	p.wake()
	return base, nil
}

// settle makes durable that the last segment is as long as it is, and that there is none behind it, before the first batch is appended. Else a
// loss of power could bring back what was cut off, behind that batch. The process that has cut it off may have been killed before it could sync.
func (p *partition) settle(s *segment) error {
	if p.settled {
		return nil
	}
	f, err := p.use(s, s.size == 0)
	if err != nil {
		return err
	}
	defer p.leave(s)
	if err := errors.Join(f.Sync(), p.disk.syncDir(p.dir)); err != nil {
		p.broken = fmt.Errorf("%w: sync %s: %s", ErrBroken, s.path, err.Error())
		return p.broken
	}
	p.settled = true
	return nil
}

// wake ends all waiting.
func (p *partition) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// write writes a batch behind a segment. After a failure the segment is as long as before.
func (p *partition) write(s *segment, batch []byte) error {
	f, err := p.use(s, s.size == 0)
	if err != nil {
		return err
	}
	defer p.leave(s)
	if _, err = f.WriteAt(batch, s.size); err == nil {
		return nil
	}
	err = fmt.Errorf("write %s: %w", s.path, err)
	if cut := f.Truncate(s.size); cut != nil { // a part of this batch would stay behind a shorter one
		p.broken = fmt.Errorf("%w: cut %s at byte %d: %s", ErrBroken, s.path, s.size, cut.Error())
	}
	return err
}

// use opens the file of a segment, if it is closed, and keeps it open until leave. The caller holds mu.
func (p *partition) use(s *segment, create bool) (file, error) {
	if p.closed {
		return nil, kafkaio.ErrClosed
	}
	if s.file == nil {
		f, err := p.disk.open(s.path, create)
		if err != nil {
			return nil, err
		}
		s.file = f
	}
	s.users++
	return s.file, nil
}

// leave ends the use of a segment. The caller holds mu.
func (p *partition) leave(s *segment) {
	s.users--
	p.closeUnused(s)
}

// closeUnused closes the file of a segment that is complete and on disk, if nobody uses it. The caller holds mu.
func (p *partition) closeUnused(s *segment) {
	if s.users == 0 && s != p.last() && s.synced == s.size {
		_ = s.close() // nothing is written any more
	}
}

// waiting returns a channel that is closed when there are records from the partition's end on, or nil if that is not the offset.
func (p *partition) waiting(offset int64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || offset != p.last().next {
		return nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// sync makes everything durable that was appended before, and returns where that ends.
func (p *partition) sync() (point, error) {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	p.mu.Lock()
	first := len(p.segments) - 1
	for first > 0 && p.segments[first-1].synced < p.segments[first-1].size {
		first--
	}
	todo, s := slices.Clone(p.segments[first:]), p.last()
	end := point{s.next, s.base, s.size}
	p.mu.Unlock()
	for _, s := range todo { // a segment counts only if those before it are whole
		if err := p.syncSegment(s, end.segment, end.bytes); err != nil {
			return point{}, fmt.Errorf("sync %s: %w", s.path, err)
		}
	}
	return end, nil
}

// syncSegment makes a segment and its name durable: all of it, or the first bytes of the last one.
func (p *partition) syncSegment(s *segment, last, bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return p.broken
	}
	if s.base != last {
		bytes = s.size
	}
	if s.synced >= bytes {
		return nil
	}
	f, err := p.use(s, false)
	if err != nil {
		return err
	}
	listed := s.listed
	p.mu.Unlock()
	if err = f.Sync(); err == nil && !listed {
		err = p.disk.syncDir(p.dir)
	}
	p.mu.Lock()
	if err == nil {
		s.synced, s.listed = bytes, true
	} else {
		p.broken = fmt.Errorf("%w: %s", ErrBroken, err.Error())
		err = p.broken
	}
	p.leave(s)
	return err
}

// setDurable notes that a recovery point is on disk.
func (p *partition) setDurable(to point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.durable = to
}

// trim removes the segments whose records are all before an offset, the oldest first, so that no crash leaves a gap. That of the recovery point
// stays, and those behind it.
func (p *partition) trim(before int64) error {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	for {
		s, err := p.takeOldest(before)
		if s == nil || err != nil {
			return err
		}
		if err = p.disk.syncDir(p.dir); err == nil { // the one before is gone for sure
			err = p.disk.remove(s.path)
		}
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.segments = slices.Insert(p.segments, 0, s)
			return fmt.Errorf("remove %s: %w", s.path, err)
		}
	}
}

// takeOldest takes a segment from the list that trim may remove, and nobody reads now.
func (p *partition) takeOldest(before int64) (*segment, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.segments[0]
	if p.closed {
		return nil, kafkaio.ErrClosed
	}
	if s.next > before || s.base >= p.durable.segment || s.users > 0 {
		return nil, nil
	}
	p.segments = p.segments[1:]
	return s, s.close()
}

func (p *partition) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.broken = true, kafkaio.ErrClosed
	p.wake()
	var errs []error
	for _, s := range p.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// byBase is the order of segments.
func byBase(s *segment, offset int64) int { return cmp.Compare(s.base, offset) }
