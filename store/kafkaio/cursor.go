package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Earliest is the offset of a Cursor that begins at the first record that its partition holds. No record is lost before it.
const Earliest int64 = -1

// Defaults and bounds of a Cursor.
const (
	DefaultMaxWait      = 500 * time.Millisecond
	DefaultCorruptTries = 3
	// MaxCorrupt is the largest number of offsets that a Cursor passes over at once for a corrupt batch. The batch itself
	// says where it ends, and that cannot be trusted.
	MaxCorrupt = 10_000
)

// Errors of a Cursor. Test with errors.Is.
var (
	// ErrTruncated says that the partition has lost records that were there before: it ends before the offset of the Cursor, or
	// before the offset that Scan must reach, or has another record in the place of the last one that was read. A new leader did
	// not have its last records, or the topic was deleted and created again. The error is also a *RangeError where a broker
	// refused the offset.
	ErrTruncated = errors.New("partition has lost records that it had before")
)

// CursorConfig says what a Cursor reads, and how. Topic is needed.
type CursorConfig struct {
	Topic     string
	Partition int
	Offset    int64         // of the first record wanted, or Earliest
	MaxWait   time.Duration // how long Next waits for a record; 0 is DefaultMaxWait, less than 0 is not at all
	MaxBytes  int           // as in FetchRequest
	Tail      Tail          // a record before Offset that the caller has read; the zero value is none

	// CorruptTries is how often a corrupt batch is fetched before the Cursor passes over it, because bits may also flip on
	// the network. 0 is DefaultCorruptTries.
	CorruptTries int
	// Retry decides what follows a failed attempt; nil is Temporary. The Cursor itself decides about ErrTruncated and corrupt
	// batches.
	Retry Retry
	// Logger logs the first failed attempt of a call, and each tenth. Nil logs nothing.
	Logger *slog.Logger
}

// Cursor reads one partition from an offset on, and waits for as long as the brokers are away. Make one with NewCursor. One
// goroutine may use it at a time.
//
// Everything that a Cursor passes over is in Batch.Skipped, with its offsets and the reason. SkipLost are records that the
// partition no longer held; SkipCorrupt is a batch that stayed corrupt. The other reasons are those of Fetch. A caller that
// must read every record checks Batch.Skipped.
type Cursor struct {
	log     Fetcher
	config  CursorConfig
	next    int64
	witness witness
	corrupt int // successive fetches that were corrupt
	err     error
}

// NewCursor returns a cursor. It does no I/O.
func NewCursor(log Fetcher, c CursorConfig) *Cursor {
	if c.MaxWait == 0 {
		c.MaxWait = DefaultMaxWait
	}
	if c.CorruptTries <= 0 {
		c.CorruptTries = DefaultCorruptTries
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("topic", c.Topic, "partition", c.Partition)
	return &Cursor{log: log, config: c, next: max(c.Offset, Earliest), witness: newWitness(c.Tail)}
}

// Offset returns the offset of the next record to read: everything before it was returned, or is in Skipped. A Cursor that
// begins at Earliest returns Earliest until its first answer from the partition.
func (c *Cursor) Offset() int64 { return c.next }

// MoveTo makes the Cursor continue at another offset, or at Earliest, of the same log.
func (c *Cursor) MoveTo(offset int64) {
	c.next, c.corrupt = max(offset, Earliest), 0
}

// Next returns the next records, and the stretches before or behind them that had to be skipped. It waits for a record for
// at most CursorConfig.MaxWait. At the end of the partition it returns an empty Batch, whose Next is the Cursor's offset.
// If an attempt fails it tries again, as CursorConfig.Retry says, until ctx ends.
//
// Errors: ErrTruncated, that of ctx, or the last one of Fetch if Retry wants no other attempt. After an error the Cursor has
// the same offset as before. After ErrTruncated it has forgotten what it has read: the next call reads the log that exists then.
func (c *Cursor) Next(ctx context.Context) (Batch, error) {
	a := newAttempts(c.retry, c.config.Logger, "read")
	for {
		b, err := c.fetch(ctx)
		if err == nil {
			a.succeeded()
			c.next = max(c.next, b.Next)
			return b, nil
		}
		c.witness.doubt = true
		if err := a.again(ctx, err); err != nil {
			return Batch{}, err
		}
	}
}

// retry asks CursorConfig.Retry, except about the errors that the Cursor decides about itself.
func (c *Cursor) retry(err error) bool {
	switch {
	case errors.Is(err, ErrTruncated):
		return false
	case errors.Is(err, ErrCorrupt):
		return true // until fetch passes over it
	case c.config.Retry != nil:
		return c.config.Retry(err)
	}
	return Temporary(err)
}

// fetch makes one attempt.
func (c *Cursor) fetch(ctx context.Context) (Batch, error) {
	if c.next == Earliest {
		start, _, err := c.log.Range(ctx, c.config.Topic, c.config.Partition)
		if err != nil {
			return Batch{}, err
		}
		c.next = start
	}
	wait := max(c.config.MaxWait, 0)
	c.witness.asks(wait)
	b, err := c.log.Fetch(ctx, FetchRequest{
		Topic: c.config.Topic, Partition: c.config.Partition, Offset: c.next, MaxWait: wait, MaxBytes: c.config.MaxBytes,
	})
	if err == nil {
		err = c.verify(ctx, &b)
	}
	outside, isOutside := errors.AsType[*RangeError](err)
	corrupt, isCorrupt := errors.AsType[*CorruptError](err)
	if isCorrupt {
		c.corrupt++
	} else if err == nil || isOutside {
		c.corrupt = 0
	}
	switch {
	case errors.Is(err, ErrTruncated):
		return Batch{}, err
	case isOutside && c.next < outside.Start:
		return c.skip(outside.Start-1, SkipLost, err, outside.End), nil
	case isOutside:
		c.witness = witness{}
		return Batch{}, fmt.Errorf("%w: %w", ErrTruncated, err)
	case isCorrupt && c.corrupt >= c.config.CorruptTries:
		return c.passOver(ctx, corrupt, err)
	}
	return b, err
}

// passOver skips a corrupt batch: no more offsets than a batch can hold, and none that the partition does not have yet.
func (c *Cursor) passOver(ctx context.Context, corrupt *CorruptError, why error) (Batch, error) {
	_, end, err := c.log.Range(ctx, c.config.Topic, c.config.Partition)
	if err != nil {
		return Batch{}, err
	}
	if end <= c.next {
		return Batch{}, why // Range and Fetch contradict each other: ask again
	}
	c.corrupt = 0
	last := min(corrupt.To, c.next+MaxCorrupt-1, end-1)
	return c.skip(max(last, c.next), SkipCorrupt, why, end), nil
}

// skip returns a batch of no records that ends behind offset last.
func (c *Cursor) skip(last int64, reason SkipReason, why error, end int64) Batch {
	return Batch{
		Next: last + 1, HighWater: end, LogStart: -1,
		Skipped: []Skip{{From: c.next, To: last, Reason: reason, Err: why}},
	}
}

// Range returns the first offset that the partition holds and the one that its next record will get. It tries again as
// Next does.
func (c *Cursor) Range(ctx context.Context) (start, end int64, err error) {
	a := newAttempts(c.retry, c.config.Logger, "ask for the range")
	for {
		start, end, err = c.log.Range(ctx, c.config.Topic, c.config.Partition)
		if err == nil {
			a.succeeded()
			return start, end, nil
		}
		if err := a.again(ctx, err); err != nil {
			return 0, 0, err
		}
	}
}

// Leading returns the last of the records that the partition begins with and that is accepts, up to the first record that it does not
// accept or that cannot be read. ok is false if there is none. It tries again as Next does, and leaves the Cursor behind what it has read.
func (c *Cursor) Leading(ctx context.Context, is func(r *Record) bool) (last Record, ok bool, err error) {
	start, end, err := c.Range(ctx)
	c.MoveTo(start)
	for more := true; err == nil && more && c.next < end; {
		var b Batch
		b, err = c.Next(ctx)
		if len(b.Skipped) > 0 {
			more = false
			b.cut(b.Skipped[0].From)
		}
		for i := range b.Records {
			if !is(&b.Records[i]) {
				more = false
				break
			}
			last, ok = b.Records[i], true
		}
	}
	return last, ok, err
}

// Scan reads the records before offset end, calls f for each batch that is not empty, and leaves the Cursor at end. The
// partition must have reached end before: if it ends earlier now, the error is ErrTruncated. Other errors are those of Next
// and of f. An error of f ends the scan; the Cursor is then behind that batch.
func (c *Cursor) Scan(ctx context.Context, end int64, f func(b *Batch) error) error {
	for c.next < end {
		b, err := c.Next(ctx)
		if err != nil {
			return err
		}
		if len(b.Records) == 0 && len(b.Skipped) == 0 {
			if err := c.stillReaches(ctx, end); err != nil {
				return err
			}
			continue
		}
		b.cut(end)
		c.next = min(c.next, end)
		if err := f(&b); err != nil {
			return err
		}
	}
	return nil
}

// cut removes records and skips at offset end and later.
func (b *Batch) cut(end int64) {
	for n := len(b.Records); n > 0 && b.Records[n-1].Offset >= end; n-- {
		b.Records = b.Records[:n-1]
	}
	for n := len(b.Skipped); n > 0 && b.Skipped[n-1].From >= end; n-- {
		b.Skipped = b.Skipped[:n-1]
	}
	if n := len(b.Skipped); n > 0 && b.Skipped[n-1].To >= end {
		b.Skipped = slices.Clone(b.Skipped)
		b.Skipped[n-1].To = end - 1
	}
	b.Next = min(b.Next, end)
}

// stillReaches checks that the partition has not become shorter than a scan must read.
func (c *Cursor) stillReaches(ctx context.Context, end int64) error {
	_, now, err := c.Range(ctx)
	if err == nil && now < end {
		err = fmt.Errorf("%w: %s, partition %d: got %d as its end, want %d", ErrTruncated, c.config.Topic, c.config.Partition, now, end)
	}
	return err
}

// Run reads ahead: it sends what Next returns, without empty batches, until ctx ends or Next fails, and then closes batches.
// The capacity of batches is how many are read ahead. Run returns nil if ctx has ended, else the error of Next. Err returns
// the same.
func (c *Cursor) Run(ctx context.Context, batches chan<- Batch) error {
	defer close(batches)
	for {
		b, err := c.Next(ctx)
		if ctx.Err() != nil {
			return nil // the caller has stopped it: no failure
		}
		if err != nil {
			c.err = err
			return err
		}
		if len(b.Records) == 0 && len(b.Skipped) == 0 {
			continue
		}
		select {
		case batches <- b:
		case <-ctx.Done():
			return nil
		}
	}
}

// Err returns why Run has ended. It may be called once the channel of Run is closed.
func (c *Cursor) Err() error { return c.err }

// Fetcher reads partitions. A *Client is a Fetcher, and so is the cluster in memory of package kafkaiotest. Its methods are
// safe for concurrent use, and return the errors that the methods of Client return.
type Fetcher interface {
	Fetch(ctx context.Context, r FetchRequest) (Batch, error)
	Range(ctx context.Context, topic string, partition int) (start, end int64, err error)
}
