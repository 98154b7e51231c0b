package analyzer

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

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
