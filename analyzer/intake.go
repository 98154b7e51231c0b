package analyzer

import (
	"context"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/rows"
)

// intake passes batches of requests[p] to the ledger, records that cannot be counted to the topic of rejects, and changes to the publisher.
type intake struct {
	ledger    *ledger
	rejects   *rejectWriter
	publisher *publisher
	questions *questions
	controls  *controls
	pools     *poolSender
	frames    uint32 // the highest version of frames that this owner or one before it was able to read
}

// take folds a fetched batch, and publishes what it has changed.
func (i *intake) take(ctx context.Context, b *kafkaio.Batch) error {
	i.admit(b)
	i.ledger.end.Store(b.HighWater)
	for n := range b.Records {
		if i.questions.anyWaiting() {
			i.questions.turn()
			if err := i.controls.turn(ctx); err != nil {
				return err
			}
		}
		if err := i.count(&b.Records[n]); err != nil {
			return err
		}
	}
	i.ledger.next.Store(max(i.ledger.next.Load(), b.Next))
	failpoint.Here(failpoint.BatchFolded)
	i.publish(false)
	i.ledger.showStats()
	return nil
}

// admit reports the offsets that a batch lacks, before any of the batch is folded.
func (i *intake) admit(b *kafkaio.Batch) {
	for _, s := range b.Skipped {
		i.report(s)
	}
}

// report counts offsets that could not be read from the log.
func (i *intake) report(s kafkaio.Skip) {
	n := uint64(max(1, s.To-s.From+1)) // ≥ 1
	switch s.Reason {
	case kafkaio.SkipControl: // holds no records
	case kafkaio.SkipLost:
		i.ledger.fold.CountLost(n)
		i.ledger.lost(s.From, s.To+1)
		i.ledger.logger.Error("log no longer holds records that were not counted", "lost", n)
	default:
		i.ledger.fold.CountRejected(string(s.Reason), n)
		i.rejects.offer(time.Now(), s.From, string(s.Reason), skipText(s))
		i.ledger.logger.Error("skipped records", "from", s.From, "to", s.To, "reason", s.Reason, "error", s.Err)
	}
}

// skipText returns the text of a reject for skipped offsets: which ones, and why.
func skipText(s kafkaio.Skip) []byte {
	text := fmt.Appendf(nil, "offsets %d to %d", s.From, s.To)
	if s.Err != nil {
		text = fmt.Appendf(text, ": %v", s.Err)
	}
	return text
}

// count counts one record. If the fold refuses the record, it goes to the topic of rejects.
func (i *intake) count(r *kafkaio.Record) error {
	i.controls.applyBefore(r.Offset)
	refused, err := i.ledger.count(r)
	if refused != nil {
		if v := schemas.FrameVersionOf(r.Value); v > schemas.FrameVersion && v <= i.frames {
			// Only an owner can say in heartbeats that there are such frames. Without that, one forged frame would stop all analyzers.
			return fmt.Errorf("offset %d: frame %w: %w", r.Offset, rows.ErrNewer, refused)
		}
		i.rejects.offer(time.Now(), r.Offset, fold.Reason(refused), r.Value)
		i.ledger.logger.Debug("refused record", "offset", r.Offset, "error", refused)
	}
	return err
}

// publishControl publishes what a place has changed. Then a heartbeat says up to which control record all is published.
func (i *intake) publishControl() {
	i.publish(true)
	i.publisher.applyControl(i.ledger.control.Load(), true)
}

// publish passes to the publisher what the fold has changed and predicted. While the owner restores, it drops that instead. urgent says
// that the changes follow from new rules, or from what a person has decided.
func (i *intake) publish(urgent bool) {
	l := i.ledger
	l.describe(byMessage)
	l.described = 0
	changes, plans, canaries := l.fold.TakeChanges(), l.fold.TakePlans(), l.fold.TakeCanaries()
	tallies, levels := l.fold.TakePools()
	if l.current().Decides() {
		t := outbox.Terms{AsOf: l.fold.LogTime(), Urgent: urgent}
		if mean, deviation, ok := l.fold.View().Lag(); ok {
			t.Lag, t.Margin = mean, outbox.MarginOf(deviation)
		}
		i.publisher.offer(changes, plans, canaries, t)
		i.pools.offer(tallies, levels)
		l.config.closeLog.add(l.config.Fold.Partition, changes, time.Now())
	}
}
