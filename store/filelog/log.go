package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// DefaultSegmentBytes is the size of a segment if Options do not say it.
const DefaultSegmentBytes = 64 << 20

// pointsName is the file with the recovery points of all partitions.
const pointsName = "recovery-points"

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
	buffers sync.Pool // of *[]byte: batches on their way
	closed  chan struct{}

	syncing sync.Mutex // held while recovery points are written; taken before mu
	points  []byte     // guarded by syncing: what the file has

	mu     sync.Mutex
	topics map[string]*topic // guarded by mu
	shut   bool              // guarded by mu
}

// topic is the partitions of a topic, and what messages it takes.
type topic struct {
	partitions []*partition
	maxMessage int
	maxAhead   time.Duration // 0: not bounded
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
	l := &Log{dir: dir, options: o, codec: kafkaio.NewBatchCodec(), closed: make(chan struct{}), topics: make(map[string]*topic)}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("open log: %w", err), l.Close())
	}
	return l, nil
}

// load opens all partitions.
func (l *Log) load() (err error) {
	d := l.options.disk
	if err := d.makeDir(l.dir); err != nil {
		return err
	}
	if l.points, err = d.read(filepath.Join(l.dir, pointsName)); err != nil {
		return err
	}
	durable, err := parsePoints(l.points)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(l.dir, pointsName), err)
	}
	names, err := d.list(l.dir)
	if err != nil {
		return err
	}
	found := make(map[string]int)
	for _, name := range names {
		if topic, n, ok := splitName(name); ok {
			found[topic] = max(found[topic], n+1)
		}
	}
	for name, partitions := range found {
		if err := l.create(name, partitions, durable); err != nil {
			return err
		}
	}
	return nil
}

// partitionName is the directory of a partition, as Kafka names it.
func partitionName(topic string, n int) string { return topic + "-" + strconv.Itoa(n) }

// splitName returns the topic and the number of a partition's directory.
func splitName(name string) (topic string, n int, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(name[i+1:])
	return name[:i], n, err == nil && n >= 0 && partitionName(name[:i], n) == name
}

// create opens partitions 0 to n-1 of a topic, and makes those that are missing.
func (l *Log) create(name string, n int, durable map[string]int64) error {
	t := l.topics[name]
	if t == nil {
		t = &topic{maxMessage: kafkaio.MaxMessage}
	}
	made := len(t.partitions) < n && durable == nil
	for p := len(t.partitions); p < n; p++ {
		dir := filepath.Join(l.dir, partitionName(name, p))
		if err := l.options.disk.makeDir(dir); err != nil {
			return err
		}
		opened, err := openPartition(l.options.disk, dir, durable[partitionName(name, p)], l.options.SegmentBytes, l.options.Logger)
		if err != nil {
			return err
		}
		t.partitions = append(t.partitions, opened)
	}
	l.topics[name] = t
	if !made {
		return nil
	}
	return l.options.disk.syncDir(l.dir)
}

// EnsureTopics makes the topics and partitions that are missing, and returns the names of the topics that it made. For as long as the Log is
// open, they take the messages that max.message.bytes and kafkaio.SettingAhead of the specs allow; other settings have no effect.
func (l *Log) EnsureTopics(_ context.Context, specs ...kafkaio.TopicSpec) (created []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return nil, kafkaio.ErrClosed
	}
	for _, spec := range specs {
		if l.topics[spec.Name] == nil {
			created = append(created, spec.Name)
		}
		if err := l.create(spec.Name, spec.Partitions, nil); err != nil {
			return created, fmt.Errorf("create topic %s: %w", spec.Name, err)
		}
		t := l.topics[spec.Name]
		settings := spec.Config()
		if n, err := strconv.Atoi(settings["max.message.bytes"]); err == nil {
			t.maxMessage = n
		}
		if ms, err := strconv.ParseInt(settings[kafkaio.SettingAhead], 10, 64); err == nil {
			t.maxAhead = time.Duration(ms) * time.Millisecond
		}
	}
	return created, nil
}

// Partitions returns how many partitions a topic has.
func (l *Log) Partitions(_ context.Context, name string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[name]
	switch {
	case l.shut:
		return 0, kafkaio.ErrClosed
	case t == nil:
		return 0, failed("partitions", name, -1, kafkaio.Unsent, kafkaio.ErrNoTopic)
	}
	return len(t.partitions), nil
}

// find returns a partition and its topic.
func (l *Log) find(name string, n int) (*topic, *partition, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[name]
	switch {
	case l.shut:
		return nil, nil, kafkaio.ErrClosed
	case t == nil || n < 0 || n >= len(t.partitions):
		return nil, nil, kafkaio.ErrNoTopic
	}
	return t, t.partitions[n], nil
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
	if errors.Is(err, os.ErrClosed) {
		err = kafkaio.ErrClosed // Close came in between
	}
	if err != nil {
		return kafkaio.Batch{}, failed("fetch", r.Topic, r.Partition, kafkaio.Unknown, err)
	}
	return b, nil
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
		case <-l.closed:
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
		return b, &kafkaio.CorruptError{From: r.Offset, To: max(min(d.by, end)-1, r.Offset), Detail: d.Error()}
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

// Sync makes durable everything that was produced before the call. After an error nobody knows what is on disk: the Log takes no more
// messages, and must be opened again.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	topics := make(map[string]*topic, len(l.topics))
	for name, t := range l.topics {
		topics[name] = &topic{partitions: slices.Clone(t.partitions)}
	}
	l.mu.Unlock()
	durable := make(map[string]int64)
	for name, t := range topics {
		for n, p := range t.partitions {
			end, err := p.sync()
			if err != nil {
				return err
			}
			durable[partitionName(name, n)] = end
		}
	}
	points := formatPoints(durable)
	if bytes.Equal(points, l.points) {
		return nil
	}
	if err := l.options.disk.replace(filepath.Join(l.dir, pointsName), points); err != nil {
		return fmt.Errorf("write recovery points: %w", err)
	}
	l.points = points
	return nil
}

// Trim removes the segments of a partition whose records are all before an offset, apart from the last segment.
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

// Close ends the calls in flight and closes all files. It syncs nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return nil
	}
	l.shut = true
	close(l.closed)
	var errs []error
	for _, t := range l.topics {
		for _, p := range t.partitions {
			errs = append(errs, p.close())
		}
	}
	l.codec.Close()
	return errors.Join(errs...)
}
