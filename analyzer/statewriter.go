package analyzer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// stateJob is a piece of a snapshot, or a change of rules; what is set of it is written in this order.
type stateJob struct {
	rules   *pb.StateRules
	begin   *pb.StateBegin // without its senders
	senders []sent
	rows    []scanned
	next    int64 // which the rows are as of
	end     bool
}

// stateWriter is the only writer of state[p]. It writes one job at a time, with one produce in flight, and nothing without
// a lease: what it is given was copied out of the fold, so that the fold never waits for it.
type stateWriter struct {
	log    Log
	config OwnerConfig
	jobs   chan stateJob
	done   chan struct{} // one for each job
	busy   bool          // owned by the owner's goroutine

	// complete is 1 + the offset where the last complete snapshot began, 0 if there is none: the publisher announces it.
	complete atomic.Int64
	cycles   atomic.Uint64 // completed since the owner was made

	// Owned by run's goroutine once it has started.
	epoch uint64
	cycle uint64
	from  int64
	rows  int64
}

func newStateWriter(log Log, c OwnerConfig) *stateWriter {
	return &stateWriter{log: log, config: c, jobs: make(chan stateJob, 1), done: make(chan struct{}, 1)}
}

// start hands over a job; the writer must not be busy.
func (w *stateWriter) start(j stateJob) {
	w.busy = true
	w.jobs <- j
}

// run writes until ctx ends.
func (w *stateWriter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-w.jobs:
			if err := w.write(ctx, j); err != nil && ctx.Err() == nil {
				w.config.Logger.Error("cannot write snapshot", "error", err)
			}
			w.done <- struct{}{}
		}
	}
}

// Bounds on one produce. Topics take batches of 1 MiB.
const (
	maxStateBatch   = 512 << 10 // bytes; a single record may be larger
	maxStateSenders = 4096      // in one begin: less than 256 KiB
)

// write writes a job. An error means that it can't be written at all, or that ctx has ended.
func (w *stateWriter) write(ctx context.Context, j stateJob) error {
	if j.begin != nil {
		w.cycle++
		w.rows = 0
	}
	var b stateBatch
	first := int64(-1)
	flush := func() error {
		base, err := w.produce(ctx, b.messages)
		if first < 0 {
			first = base
		}
		b = stateBatch{}
		return err
	}
	for _, r := range w.encode(j) {
		if err := b.add(r); err != nil {
			return err
		}
		if b.size >= maxStateBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if j.begin != nil {
		failpoint.Here(failpoint.SnapshotBegun)
		w.from = first
	}
	if len(j.rows) > 0 {
		failpoint.Here(failpoint.SnapshotPieced)
	}
	if !j.end {
		return nil
	}
	if err := b.add(&pb.StateRecord{Record: &pb.StateRecord_End{End: &pb.StateEnd{Epoch: w.epoch, Cycle: w.cycle, Rows: w.rows, From: w.from}}}); err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	failpoint.Here(failpoint.SnapshotEnded)
	w.complete.Store(w.from + 1)
	w.cycles.Add(1)
	return nil
}

// encode returns the records of a job but its end.
func (w *stateWriter) encode(j stateJob) []*pb.StateRecord {
	var list []*pb.StateRecord
	if j.rules != nil {
		j.rules.Epoch = w.epoch
		list = append(list, &pb.StateRecord{Record: &pb.StateRecord_Rules{Rules: j.rules}})
	}
	if j.begin != nil {
		parts := max(1, (len(j.senders)+maxStateSenders-1)/maxStateSenders)
		for part := range parts {
			begin := &pb.StateBegin{
				Epoch: w.epoch, Cycle: w.cycle, Part: uint32(part), Parts: uint32(parts), // few
				Offset: j.begin.GetOffset(), LogTime: j.begin.GetLogTime(), TailOffset: j.begin.GetTailOffset(), TailCrc: j.begin.GetTailCrc(),
				RulesId: j.begin.GetRulesId(), RulesFrom: j.begin.GetRulesFrom(),
			}
			for _, s := range j.senders[part*maxStateSenders : min(len(j.senders), (part+1)*maxStateSenders)] {
				begin.Dedupe = append(begin.Dedupe, dedupeRow(s))
			}
			list = append(list, &pb.StateRecord{Record: &pb.StateRecord_Begin{Begin: begin}})
		}
	}
	for _, row := range j.rows {
		w.rows++
		list = append(list, &pb.StateRecord{Record: &pb.StateRecord_Row{Row: &pb.StateRow{
			Epoch: w.epoch, Cycle: w.cycle, Next: j.next, Key: row.key, Value: row.value,
		}}})
	}
	return list
}

// dedupeRow turns a sender into what the snapshot says of it; readSender undoes it. A source of which no line has come is
// one whose last line is −1.
func dedupeRow(s sent) *pb.DedupeRow {
	row := &pb.DedupeRow{Producer: s.id.id[:], Last: s.seen.last}
	switch {
	case !s.id.source:
		row.Seen = &pb.DedupeRow_Frames{Frames: &pb.SeenFrames{Seq: s.seen.high, Below: s.seen.below >> 1}}
	case s.seen.below == 0:
		row.Seen = &pb.DedupeRow_Lines{Lines: &pb.SeenLines{Offset: -1}}
	default:
		row.Seen = &pb.DedupeRow_Lines{Lines: &pb.SeenLines{Offset: int64(s.seen.high)}} // offset refuses negative ones
	}
	return row
}

func readSender(row *pb.DedupeRow) sent {
	s := sent{id: senderID{source: row.GetLines() != nil}, seen: sender{last: row.GetLast()}}
	copy(s.id.id[:], row.GetProducer()) // 16 bytes: DecodeState refuses others
	switch offset := row.GetLines().GetOffset(); {
	case !s.id.source:
		s.seen.high, s.seen.below = row.GetFrames().GetSeq(), row.GetFrames().GetBelow()<<1|1
	case offset >= 0:
		s.seen.high, s.seen.below = uint64(offset), 1
	}
	return s
}

// stateBatch is the messages of one produce.
type stateBatch struct {
	messages []kafkaio.Message
	size     int
}

func (b *stateBatch) add(r *pb.StateRecord) error {
	value, err := pb.AppendState(nil, r)
	if err != nil {
		return fmt.Errorf("encode snapshot: %w", err)
	}
	b.messages = append(b.messages, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
	b.size += len(value)
	return nil
}

// produce appends messages and returns the offset of the first, however long the broker is away. A copy after a lost
// answer does no harm: readers pass over it.
func (w *stateWriter) produce(ctx context.Context, messages []kafkaio.Message) (int64, error) {
	if len(messages) == 0 {
		return -1, nil
	}
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		for ctx.Err() == nil && !w.config.Lease(time.Now()) {
			sleep(ctx, leasePoll)
		}
		if ctx.Err() != nil {
			return -1, ctx.Err()
		}
		base, err := w.log.Produce(ctx, w.config.State, w.config.Fold.Partition, messages...)
		if err == nil {
			return base, nil
		}
		if ctx.Err() == nil {
			w.config.Logger.Warn("cannot write snapshot, trying again", "records", len(messages), "error", err)
		}
		sleep(ctx, wait)
	}
}
