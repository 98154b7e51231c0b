package analyzer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// MirrorConfig configures a Mirror.
type MirrorConfig struct {
	Fold    FoldOptions // Key is both topics'; Partitions is From's
	From    string      // topic of requests to read
	To      string      // topic of requests to write, which must be another
	Targets int         // partitions of To
	Follow  bool        // go on when all that From held at the start is written
	Logger  *slog.Logger
}

// Mirror writes the requests of one topic to another with another number of partitions, each entry that would be counted
// there once. Make one with NewMirror and call Run once; Behind may be called from any goroutine.
//
// It is a source (ARCHITECTURE.md §3) for each partition that it reads: an entry's offset tells the place in the old log,
// so that whoever counts the new topic skips what was sent before. It keeps no state: started again, it sends again what
// the log retains. That must not come after a day of silence, when sources are forgotten.
type Mirror struct {
	log    Log
	config MirrorConfig
	behind []atomic.Int64 // records, by partition
}

// NewMirror returns a mirror that has done nothing yet.
func NewMirror(log Log, c MirrorConfig) *Mirror {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Fold.Partitions = max(c.Fold.Partitions, 1)
	if c.Fold.Key == (schemas.PartitionKey{}) {
		c.Fold.Key = schemas.DefaultPartitionKey()
	}
	return &Mirror{log: log, config: c, behind: make([]atomic.Int64, c.Fold.Partitions)}
}

// Behind returns how many records are still to be read, as far as is known.
func (m *Mirror) Behind() int64 {
	var sum int64
	for i := range m.behind {
		sum += m.behind[i].Load()
	}
	return sum
}

// Run reads all partitions until ctx ends, or without Follow until everything is written that was there at the start.
func (m *Mirror) Run(ctx context.Context) error {
	if m.config.From == m.config.To || m.config.Targets < 1 {
		return fmt.Errorf("mirror %s to %d partitions of %s: want another topic, and at least one", m.config.From, m.config.Targets, m.config.To)
	}
	g, ctx := errgroup.WithContext(ctx)
	for p := range m.config.Fold.Partitions {
		g.Go(func() error {
			if err := newMirrored(m, p).run(ctx); err != nil {
				return ended(ctx, fmt.Errorf("mirror partition %d: %w", p, err))
			}
			return nil
		})
	}
	return g.Wait()
}

// mirrored is one partition being mirrored. Only run's goroutine may use it.
type mirrored struct {
	*Mirror
	partition int
	source    schemas.ProducerID
	fold      *Fold // which tells duplicates, and refuses what it must; it has no rules
	offset    int64 // of the record being folded
	index     int64 // of the next entry in it
	time      int64 // of the newest message whose entries are collected
	targets   []target
	err       error // of an entry that no frame can hold
}

// target is what waits to be sent to one partition.
type target struct {
	frame    schemas.FrameEncoder
	messages []kafkaio.Message
}

func newMirrored(m *Mirror, partition int) *mirrored {
	sum := sha256.Sum256([]byte(m.config.From + "/" + strconv.Itoa(partition)))
	d := &mirrored{Mirror: m, partition: partition, source: schemas.ProducerID(sum[:16]), targets: make([]target, m.config.Targets)}
	for i := range d.targets {
		d.targets[i].frame.Reset(true)
	}
	o := m.config.Fold
	o.Partition, o.NoStore, o.Each = partition, true, d.add
	d.fold = NewFold(&rules.Set{}, o)
	return d
}

func (d *mirrored) run(ctx context.Context) error {
	start, end, err := d.log.Range(ctx, d.config.From, d.partition)
	if err != nil {
		return fmt.Errorf("read the log's range: %w", err)
	}
	d.behind[d.partition].Store(end - start)
	o := d.config.Fold
	o.Partition = d.partition
	f := newFetcher(d.log, OwnerConfig{Fold: o, Requests: d.config.From, Logger: d.config.Logger}, start)
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { f.run(ctx); return nil })
	err = d.mirror(ctx, f, start, end)
	cancel()
	_ = g.Wait() // returns no error
	return err
}

func (d *mirrored) mirror(ctx context.Context, f *fetcher, next, end int64) error {
	for d.config.Follow || next < end {
		var b fetched
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b = <-f.batches:
		}
		if b.err != nil {
			return b.err
		}
		if b.lost > 0 {
			d.config.Logger.Error("log no longer holds records that were not mirrored", "partition", d.partition, "lost", b.lost)
		}
		for i := range b.batch.Records {
			r := &b.batch.Records[i]
			d.offset, d.index = r.Offset, 0
			d.time = max(d.time, r.Time)
			if err := d.fold.Frame(Record{Offset: r.Offset, Time: r.Time, Value: r.Value}); err != nil {
				d.config.Logger.Warn("refused record, as an analyzer does", "partition", d.partition, "offset", r.Offset, "error", err)
			}
			d.fold.TakeCanaries()
		}
		if err := d.send(ctx); err != nil {
			return err
		}
		next = max(next, b.batch.Next)
		d.behind[d.partition].Store(max(0, b.batch.HighWater-next))
	}
	return nil
}

// add collects an entry for the partition that it belongs to in the new topic. Its offset orders it among all entries of
// the old partition: a record holds at most MaxFrameEntries.
func (d *mirrored) add(e *schemas.Entry) {
	copied := *e
	copied.Offset = d.offset*schemas.MaxFrameEntries + d.index
	d.index++
	p := schemas.Partition(d.config.Fold.Key.Hash(e.Kind, e.ID), d.config.Targets)
	err := d.targets[p].frame.Add(&copied)
	if errors.Is(err, schemas.ErrFrameFull) {
		d.pack(p)
		err = d.targets[p].frame.Add(&copied)
	}
	if err != nil {
		d.err = errors.Join(d.err, err)
	}
}

// pack makes a message of what was collected for partition p.
func (d *mirrored) pack(p int) {
	t := &d.targets[p]
	if t.frame.Len() == 0 {
		return
	}
	value, err := t.frame.AppendTo(nil, &schemas.Frame{
		Producer: d.source, Source: true, Flushed: d.time, Partitions: uint32(d.config.Targets), Fingerprint: d.config.Fold.Key.Fingerprint(),
	})
	if err != nil {
		d.err = errors.Join(d.err, err)
	}
	t.messages = append(t.messages, kafkaio.Message{Time: d.time, Value: value})
	t.frame.Reset(true)
}

// sendFrames is how many frames of the largest size surely fit one request.
const sendFrames = 3

// send writes everything that was collected: in order, and again until it is acknowledged. What arrives twice is skipped
// by its offsets.
func (d *mirrored) send(ctx context.Context) error {
	for p := range d.targets {
		d.pack(p)
		if d.err != nil {
			return fmt.Errorf("encode frame: %w", d.err)
		}
		t := &d.targets[p]
		for len(t.messages) > 0 {
			n := min(len(t.messages), sendFrames)
			if err := d.produce(ctx, p, t.messages[:n]); err != nil {
				return err
			}
			t.messages = t.messages[n:]
		}
	}
	return nil
}

func (d *mirrored) produce(ctx context.Context, p int, messages []kafkaio.Message) error {
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		_, err := d.log.Produce(ctx, d.config.To, p, messages...)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !kafkaio.Temporary(err):
			return fmt.Errorf("write %s/%d: %w", d.config.To, p, err)
		}
		d.config.Logger.Warn("cannot write requests, trying again", "partition", p, "error", err)
		sleep(ctx, wait)
	}
}
