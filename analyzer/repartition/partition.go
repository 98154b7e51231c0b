package repartition

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// partition is one partition being read. Only run's goroutine may use it.
type partition struct {
	*Repartitioner

	number  int
	source  schemas.ProducerID
	fold    *fold.Fold // which finds duplicates, and refuses what it must; it has no rules
	offset  int64      // of the record being folded
	index   int64      // of the next entry in it
	time    int64      // of the newest message whose entries are collected
	targets []target
	err     error // of an entry that no frame can hold
}

// target is what waits to be sent to one partition.
type target struct {
	appender *kafkaio.Appender
	frame    schemas.FrameEncoder
	messages []kafkaio.Message
}

func newPartition(r *Repartitioner, number int) *partition {
	c := &r.config
	sum := sha256.Sum256([]byte(c.From + "/" + strconv.Itoa(number)))
	p := &partition{Repartitioner: r, number: number, source: schemas.ProducerID(sum[:16]), targets: make([]target, c.Targets)}
	for i := range p.targets {
		p.targets[i].appender = kafkaio.NewAppender(r.log, kafkaio.AppenderConfig{Topic: c.To, Partition: i, Logger: c.Logger})
		p.targets[i].frame.Reset(true)
	}
	o := c.Fold
	o.Partition, o.NoStore, o.OnEntry = number, true, p.add
	p.fold = fold.New(&rules.Set{}, o)
	return p
}

func (p *partition) run(ctx context.Context) error {
	start, end, err := p.log.Range(ctx, p.config.From, p.number)
	if err != nil {
		return fmt.Errorf("read the log's range: %w", err)
	}
	p.behind[p.number].Store(end - start)
	cursor := kafkaio.NewCursor(p.log, kafkaio.CursorConfig{
		Topic: p.config.From, Partition: p.number, Offset: start, MaxBytes: 1 << 20, Retry: kafkaio.Always, Logger: p.config.Logger,
	})
	for p.config.Follow || cursor.Offset() < end {
		b, err := cursor.Next(ctx)
		if err != nil {
			return err
		}
		if err := p.take(ctx, &b); err != nil {
			return err
		}
		p.behind[p.number].Store(max(0, b.HighWater-b.Next))
	}
	return nil
}

// take folds a batch and writes the entries that it was found to hold.
func (p *partition) take(ctx context.Context, b *kafkaio.Batch) error {
	p.report(b.Skipped)
	for i := range b.Records {
		p.record(&b.Records[i])
	}
	return p.send(ctx)
}

// report logs what could not be read of the log.
func (p *partition) report(skipped []kafkaio.Skip) {
	for _, s := range skipped {
		switch s.Reason {
		case kafkaio.SkipControl: // holds no records
		case kafkaio.SkipLost:
			p.config.Logger.Error("log no longer holds records that were not written", "partition", p.number, "lost", s.To-s.From+1)
		default:
			p.config.Logger.Error("skipped records: they are not written", "partition", p.number, "from", s.From, "to", s.To,
				"reason", s.Reason, "error", s.Err)
		}
	}
}

// record folds one record.
func (p *partition) record(r *kafkaio.Record) {
	p.offset, p.index = r.Offset, 0
	p.time = max(p.time, r.Time)
	if err := p.fold.Frame(fold.Record{Offset: r.Offset, Time: r.Time, Value: r.Value}); err != nil {
		p.config.Logger.Warn("refused record, as an analyzer does", "partition", p.number, "offset", r.Offset, "error", err)
	}
	p.fold.TakeCanaries()
}

// add collects an entry for the partition that it belongs to in the new topic. Its offset orders it among all entries of
// the old partition: a record holds at most MaxFrameEntries.
func (p *partition) add(e *schemas.Entry) {
	copied := *e
	copied.Offset = p.offset*schemas.MaxFrameEntries + p.index
	p.index++
	t := &p.targets[schemas.Partition(p.config.Fold.Key.Hash(e.Kind, e.ID), p.config.Targets)]
	err := t.frame.Add(&copied)
	if errors.Is(err, schemas.ErrFrameFull) {
		p.pack(t)
		err = t.frame.Add(&copied)
	}
	if err != nil {
		p.err = errors.Join(p.err, err)
	}
}

// pack makes a message of what was collected for a target.
func (p *partition) pack(t *target) {
	if t.frame.Len() == 0 {
		return
	}
	value, err := t.frame.AppendTo(nil, &schemas.Frame{
		Producer: p.source, Source: true, Flushed: p.time, Partitions: uint32(p.config.Targets), Fingerprint: p.config.Fold.Key.Fingerprint(),
	})
	if err != nil {
		p.err = errors.Join(p.err, err)
	}
	t.messages = append(t.messages, kafkaio.Message{Time: p.time, Value: value})
	t.frame.Reset(true)
}

// sendFrames is how many frames of the largest size surely fit one request.
const sendFrames = 3

// send writes everything that was collected: in order, and again until it is acknowledged. Copies are passed over by their
// offsets where they are counted.
func (p *partition) send(ctx context.Context) error {
	for i := range p.targets {
		t := &p.targets[i]
		p.pack(t)
		if p.err != nil {
			return fmt.Errorf("encode frame: %w", p.err)
		}
		for len(t.messages) > 0 {
			n := min(len(t.messages), sendFrames)
			if _, err := t.appender.Append(ctx, t.messages[:n]...); err != nil {
				return err
			}
			t.messages = t.messages[n:]
		}
	}
	return nil
}
