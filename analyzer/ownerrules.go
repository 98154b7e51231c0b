package analyzer

import (
	"context"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// changeRules commits the offset from which the new rules count, to the store and then to state[p], before it folds that
// offset.
func (o *Owner) changeRules(ctx context.Context, set *rules.Set) error {
	l := o.ledger
	if set.ID() == l.fold.Rules().ID() {
		return nil
	}
	l.events.Hold()
	l.setRules(set, l.next.Load())
	l.logger.Info("rules changed", "from", l.rulesFrom, "rules", len(set.Rules))
	o.intake.publish(true)
	l.showStats()
	failpoint.Here(failpoint.RulesChanged)
	if err := l.commitNow(); err != nil {
		return err // and what is held stays so: the next owner may choose another offset
	}
	failpoint.Here(failpoint.RulesCommitted)
	o.snapshots.writeRules(ctx)
	l.events.Release() // now state[p] has it
	return nil
}

// fillHeartbeat sets how far this owner is, where its last snapshot is, and which rules count.
func (o *Owner) fillHeartbeat(b *schemas.Heartbeat) {
	mark := o.ledger.mark.Load()
	b.Watermark, b.RulesID, b.RulesFrom = o.ledger.next.Load(), mark.id, mark.from
	b.State, b.Events = o.snapshots.events.next(o.snapshots.writer.Complete(), time.Now(), o.ledger.events.Acked), o.ledger.eventsMark()
}

// SetRules changes the rules the owner counts by, before the next record that it folds.
func (o *Owner) SetRules(set *rules.Set) {
	for {
		select {
		case o.rules <- set:
			return
		default:
		}
		select {
		case <-o.rules: // an older set that is not in use yet
		default:
		}
	}
}
