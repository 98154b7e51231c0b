package analyzer

import (
	"fmt"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
)

// startFromStore prepares to count on from the store, where h is how rules changed.
func (l *ledger) startFromStore(h snapshot.History) error {
	at := l.store.Checkpoint()
	l.history = h.After(at.Next-1).Since(at.RulesID, at.RulesFrom)
	set := l.knownRules(at.RulesID, h)
	if set == nil || set.ID() == l.fold.Rules().ID() {
		return nil
	}
	l.fold = fold.New(set, l.config.Fold) // as it was counted, not by today's rules
	if err := l.store.Load(l.fold.Restore); err != nil {
		return fmt.Errorf("load store: %w", err)
	}
	l.fold.Resume(at.LogTime)
	l.setRulesFrom(at.RulesFrom)
	return nil
}

// startFromSnapshot prepares to count on from the begin of a snapshot, whose rows are still to be put in. The store is moved
// aside.
func (l *ledger) startFromSnapshot(s *snapshot.Snapshot) error {
	b := s.Begin
	if l.store.Checkpoint() != (store.Checkpoint{}) {
		if err := l.quarantine(errStale); err != nil {
			return err
		}
	}
	l.logger.Info("starting from a snapshot", "offset", b.GetOffset(), "rows", s.Rows, "senders", len(s.Senders), "epoch", b.GetEpoch())
	set, from := l.knownRules(b.GetRulesId(), s.History), b.GetRulesFrom()
	if set == nil {
		l.logger.Warn("the rules of the snapshot are not known: counting from it by today's")
		set, from = l.config.Rules, b.GetOffset()
	}
	l.fold = fold.New(set, l.config.Fold)
	for _, sender := range s.Senders {
		l.fold.RestoreSender(&sender)
	}
	s.Senders = nil
	l.fold.Resume(b.GetLogTime())
	l.next.Store(b.GetOffset())
	l.tailOffset, l.tailCRC = b.GetTailOffset(), b.GetTailCrc()
	l.control.Store(b.GetControl())
	l.place, l.controlTail = snapshot.PlaceOf(b.GetPlace()), schemas.ControlTail{Offset: b.GetControlTail(), CRC: b.GetControlCrc()}
	l.setRulesFrom(from)
	l.rulesControl = 0 // state[p] says it
	l.history, l.partial = s.History.After(b.GetRulesFrom()), true
	return nil
}

// startFromLog prepares to count the log from where the ledger stands, where h is how rules changed.
func (l *ledger) startFromLog(h snapshot.History) {
	if len(h) == 0 {
		return
	}
	if first := h[0]; first.Set != nil {
		l.fold = fold.New(first.Set, l.config.Fold)
		l.setRulesFrom(first.From)
	}
	l.history = h[1:]
}

// knownRules returns the rules of an id, or nil.
func (l *ledger) knownRules(id uint64, h snapshot.History) *rules.Set {
	if set := l.config.Rules; id == set.ID() {
		return set
	}
	return h.Set(id)
}
