package analyzer

import (
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// fillHeartbeat sets how far this owner is, which snapshot it announces, before which offset all events are written, and which rules count.
func (o *Owner) fillHeartbeat(b *schemas.Heartbeat) {
	mark := o.ledger.mark.Load()
	b.Watermark, b.RulesID, b.RulesFrom = o.ledger.next.Load(), mark.id, mark.from
	b.State, b.Events = o.snapshots.events.next(o.snapshots.writer.Complete(), time.Now(), o.ledger.events.Acked), o.ledger.eventsMark()
}

// SetRules changes the rules that the owner counts by, from the next record on that it folds.
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
