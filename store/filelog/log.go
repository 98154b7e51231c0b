package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// DefaultSegmentBytes is the size of a segment if Options do not say it.
const DefaultSegmentBytes = 64 << 20

// Options says how a Log is opened. The zero value is ready to use.
type Options struct {
	SegmentBytes int64            // how long a segment becomes before the next one begins; 0 is DefaultSegmentBytes
	Logger       *slog.Logger     // says what was cut off or is damaged; nil discards
	Clock        func() time.Time // nil is time.Now
	disk         disk
}

// Log is a directory of topics. Make one with Open. One process may have a directory open at a time: the caller locks it. The methods are
// safe for concurrent use, and return the errors that those of kafkaio.Client return.
type Log struct {
	dir     string
	options Options
	codec   *kafkaio.BatchCodec
	buffers sync.Pool     // of *[]byte: batches on their way
	ended   chan struct{} // closed by Close

	asked   atomic.Uint64 // calls of Sync
	syncing sync.Mutex    // held while recovery points are written; taken before mu
	synced  uint64        // guarded by syncing: so many of the calls have what they asked for
	points  []byte        // guarded by syncing: the file of recovery points

	unlisted bool // guarded by syncing: there are partitions that it does not name

	mu     sync.Mutex
	topics map[string]*topic // guarded by mu
	closed bool              // guarded by mu
}

var _ kafkaio.Log = (*Log)(nil)

// Open opens the log in a directory, which it makes if it is missing, with all topics that are there.
func Open(dir string, o Options) (*Log, error) {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	l := &Log{dir: dir, options: o, codec: kafkaio.NewBatchCodec(), ended: make(chan struct{}), topics: make(map[string]*topic)}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open log: %w", err), l.Close())
	}
	return l, nil
}

// failed wraps an error of a call.
func failed(op, topic string, partition int, outcome kafkaio.Outcome, err error) error {
	return &kafkaio.RequestError{Op: op, Topic: topic, Partition: partition, Outcome: outcome, Err: err}
}

// Produce appends messages to a partition as one batch, all or none, and returns the offset of the first. They can be read at once; after a
// power loss they are there only if Sync was called. A produce that failed has appended nothing.
func (l *Log) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (base int64, err error) {
	base, err = l.produce(ctx, topic, partition, msgs)
	switch {
	case errors.Is(err, kafkaio.ErrTooLarge), errors.Is(err, kafkaio.ErrTimestamp):
		return -1, failed("produce", topic, partition, kafkaio.Refused, err)
	case err != nil:
		return -1, failed("produce", topic, partition, kafkaio.Unsent, err)
	}
	return base, nil
}

func (l *Log) produce(ctx context.Context, topic string, partition int, msgs []kafkaio.Message) (int64, error) {
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	if len(msgs) == 0 {
		return -1, kafkaio.ErrNoMessages
	}
	t, p, err := l.find(topic, partition)
	if err != nil {
		return -1, err
	}
	now, size := l.options.Clock(), 0
	for i := range msgs {
		size += len(msgs[i].Key) + len(msgs[i].Value)
		if ahead := msgs[i].Time - now.UnixNano(); t.maxAhead > 0 && ahead > int64(t.maxAhead) {
			return -1, fmt.Errorf("%w: got %v ahead of the clock, want up to %v", kafkaio.ErrTimestamp, time.Duration(ahead), t.maxAhead)
		}
	}
	if size > t.maxMessage {
		return -1, fmt.Errorf("%w: got %d bytes of messages, want up to %d", kafkaio.ErrTooLarge, size, t.maxMessage)
	}
	batch, _ := l.buffers.Get().(*[]byte)
	if batch == nil {
		batch = new([]byte)
	}
	defer l.buffers.Put(batch)
	*batch = l.codec.Append((*batch)[:0], msgs)
	return p.append(*batch, len(msgs), now)
}

// Range returns the first offset that a partition holds and the one that its next record will get.
func (l *Log) Range(ctx context.Context, topic string, partition int) (start, end int64, err error) {
	_, p, err := l.find(topic, partition)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return 0, 0, failed("range", topic, partition, kafkaio.Unsent, err)
	}
	start, end = p.ends()
	return start, end, nil
}

// Fetch returns records from r.Offset on, and waits for some if there are none. Each byte is checked. A *kafkaio.CorruptError names the file
// and the byte of a damage, and the offsets that it has cost.
func (l *Log) Fetch(ctx context.Context, r kafkaio.FetchRequest) (b kafkaio.Batch, err error) {
	_, p, err := l.find(r.Topic, r.Partition)
	if err == nil {
		err = l.wait(ctx, p, r)
	}
	if err == nil {
		b, err = l.fetch(p, r)
	}
	if errors.Is(err, os.ErrClosed) || err == nil && l.over() {
		err = kafkaio.ErrClosed // Close came in between
	}
	if err != nil {
		return kafkaio.Batch{}, failed("fetch", r.Topic, r.Partition, kafkaio.Unknown, err)
	}
	return b, nil
}

// over reports whether Close was called.
func (l *Log) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// wait waits until the partition has a record at the offset, or for as long as the request says.
func (l *Log) wait(ctx context.Context, p *partition, r kafkaio.FetchRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	changed := p.waiting(r.Offset)
	if changed == nil || r.MaxWait <= 0 {
		return nil
	}
	timer := time.NewTimer(r.MaxWait)
	defer timer.Stop()
	for changed != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ended:
			return kafkaio.ErrClosed
		case <-timer.C:
			return nil
		case <-changed:
			changed = p.waiting(r.Offset)
		}
	}
	return nil
}

// fetch reads what the partition has.
func (l *Log) fetch(p *partition, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	start, end := p.ends()
	b := kafkaio.Batch{Next: r.Offset, HighWater: end, LogStart: start}
	if r.Offset == end {
		return b, nil
	}
	set, err := p.read(r.Offset, r.MaxBytes)
	if d, ok := errors.AsType[*damage](err); ok {
		return b, &kafkaio.CorruptError{From: r.Offset, To: max(min(d.next, end)-1, r.Offset), Detail: d.Error()}
	}
	if err != nil {
		return b, err
	}
	err = l.codec.Unpack(&b, set.bytes)
	if c, ok := errors.AsType[*kafkaio.CorruptError](err); ok {
		c.Detail = fmt.Sprintf("%s: damaged at byte %d: %s", set.path, set.at, c.Detail)
	}
	return b, err
}

// Sync makes durable everything that was produced before the call. After ErrBroken no other Sync succeeds, and the partition takes no more
// messages. After other errors Sync may be called again. Calls that come while one is under way share the next one.
func (l *Log) Sync() error {
	call := l.asked.Add(1)
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.synced >= call {
		return nil
	}
	covered := l.asked.Load() // what these calls ask for was produced before
	err := l.sync()
	if err == nil {
		l.synced = covered
	}
	return err
}

// sync is Sync for whoever holds syncing.
func (l *Log) sync() error {
	l.mu.Lock()
	closed, all := l.closed, make(map[string]*partition)
	for name, t := range l.topics {
		for n, p := range t.partitions {
			all[partitionName(name, n)] = p
		}
	}
	l.mu.Unlock()
	if closed {
		return kafkaio.ErrClosed
	}
	durable := make(map[string]point)
	for name, p := range all {
		end, err := p.sync()
		if err != nil {
			return err
		}
		durable[name] = end
	}
	if points := formatPoints(durable); !bytes.Equal(points, l.points) {
		path := filepath.Join(l.dir, pointsName)
		if err := replaceFile(l.options.disk, path, points); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		l.points = points
	}
	l.unlisted = false
	for name, p := range all {
		p.setDurable(durable[name])
	}
	return nil
}

// Trim removes the segments of a partition whose records are all before an offset. It keeps what was appended since the last Sync, the segment
// before that, and one that is read at the moment: the next call removes them.
func (l *Log) Trim(topic string, partition int, before int64) error {
	_, p, err := l.find(topic, partition)
	if err != nil {
		return failed("trim", topic, partition, kafkaio.Unsent, err)
	}
	return p.trim(before)
}

// Segment is a part of a partition that Trim removes as a whole.
type Segment struct {
	Base, Next int64 // the offsets of the first record, and behind the last one
	Bytes      int64
	Changed    time.Time // when the last record was appended
}

// Segments returns the segments of a partition, the oldest first.
func (l *Log) Segments(topic string, partition int) ([]Segment, error) {
	_, p, err := l.find(topic, partition)
	if err != nil {
		return nil, failed("segments", topic, partition, kafkaio.Unsent, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Segment, len(p.segments))
	for i, s := range p.segments {
		list[i] = Segment{s.base, s.next, s.size, s.changed}
	}
	return list, nil
}

// Close waits for a Sync in flight, ends the other calls, and closes all files. It syncs nothing.
func (l *Log) Close() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	close(l.ended)
	var errs []error
	for _, t := range l.topics {
		for _, p := range t.partitions {
			errs = append(errs, p.close())
		}
	}
	l.codec.Close()
	return errors.Join(errs...)
}
