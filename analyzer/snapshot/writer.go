package snapshot

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// WriterConfig configures a Writer.
type WriterConfig struct {
	Topic     string
	Partition int
	Lease     func(now time.Time) bool // whether the partition may be written; nil is always
	Logger    *slog.Logger             // nil discards
}

// Writer is the only writer of state[p]. It writes one Piece at a time, with one request in flight, and writes nothing without a lease. The
// pieces are copies of what the fold holds, so that the fold never waits for the Writer.
//
// One goroutine calls Run. Another one, the owner's, calls SetEpoch before that, then Start, Busy and Mark.
// Complete, CompleteSince and Cycles may be called from any goroutine.
type Writer struct {
	appender *kafkaio.Appender
	logger   *slog.Logger
	pieces   chan Piece
	done     chan struct{} // has a token when the Writer may have become free
	busy     atomic.Bool
	complete atomic.Int64
	cycles   atomic.Uint64
	since    atomic.Pointer[time.Time] // when the last complete snapshot was begun

	// Owned by Run's goroutine once it has started.
	epoch uint64
	cycle uint64
	from  int64
	rows  int64
	began time.Time
}

// NewWriter returns a writer that has written nothing. It does no I/O.
func NewWriter(log kafkaio.Producer, c WriterConfig) *Writer {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Writer{
		appender: kafkaio.NewAppender(log, kafkaio.AppenderConfig{
			Topic: c.Topic, Partition: c.Partition, Lease: c.Lease, Retry: kafkaio.Always, Logger: c.Logger,
		}),
		logger: c.Logger, pieces: make(chan Piece, 1), done: make(chan struct{}, 1),
	}
}

// SetEpoch sets the epoch to write under. complete is what Complete returns until a cycle is complete.
func (w *Writer) SetEpoch(epoch uint64, complete int64) {
	w.epoch = epoch
	w.complete.Store(complete)
}

// Complete returns 1 + the offset where the last complete snapshot began; 0 if there is none. Heartbeats announce it.
func (w *Writer) Complete() int64 { return w.complete.Load() }

// Cycles returns how many cycles were completed since the Writer was made.
func (w *Writer) Cycles() uint64 { return w.cycles.Load() }

// CompleteSince returns when the last snapshot that this Writer has completed was begun; the zero time if there is none.
func (w *Writer) CompleteSince() time.Time {
	if t := w.since.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// Busy reports whether a piece is being written.
func (w *Writer) Busy() bool { return w.busy.Load() }

// Done returns a channel that receives when a piece was written. Check Busy after that, because the token may be an old one.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Start gives the Writer a piece. It must not be busy. It never waits.
func (w *Writer) Start(p Piece) {
	w.busy.Store(true)
	w.pieces <- p
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-w.pieces:
			if err := w.write(ctx, p); err != nil && ctx.Err() == nil {
				w.logger.Error("cannot write snapshot", "error", err)
			}
			w.busy.Store(false)
			select {
			case w.done <- struct{}{}:
			default: // the last token is still there
			}
		}
	}
}

// maxBatch bounds one request, in bytes: topics take batches of 1 MiB. A single record may be larger.
const maxBatch = 512 << 10

// write writes a piece. An error means that the piece cannot be written at all, or that ctx has ended. A copy after a lost answer does no
// harm, because readers skip it.
func (w *Writer) write(ctx context.Context, p Piece) error {
	if p.Begin != nil {
		w.cycle++
		w.rows = 0
		w.began = time.Now()
	}
	w.rows += int64(len(p.Rows)) // also rows whose write fails: the snapshot is incomplete then
	first, err := w.append(ctx, p.records(w.epoch, w.cycle))
	if err != nil {
		return err
	}
	if p.Begin != nil {
		failpoint.Here(failpoint.SnapshotBegun)
		w.from = first
	}
	if len(p.Rows) > 0 {
		failpoint.Here(failpoint.SnapshotPieced)
	}
	if !p.End {
		return nil
	}
	if _, err := w.append(ctx, []*pb.StateRecord{endRecord(w.epoch, w.cycle, w.rows, w.from, p.Tail)}); err != nil {
		return err
	}
	failpoint.Here(failpoint.SnapshotEnded)
	w.complete.Store(w.from + 1)
	w.cycles.Add(1)
	began := w.began
	w.since.Store(&began)
	return nil
}

// append appends records in as many batches as they need, and returns the offset of the first record.
func (w *Writer) append(ctx context.Context, records []*pb.StateRecord) (first int64, err error) {
	first = -1
	var b batch
	flush := func() error {
		base, err := w.appender.Append(ctx, b.messages...)
		if first < 0 {
			first = base
		}
		b = batch{}
		return err
	}
	for _, r := range records {
		if err := b.add(r); err != nil {
			return first, err
		}
		if b.size >= maxBatch {
			if err := flush(); err != nil {
				return first, err
			}
		}
	}
	return first, flush()
}
