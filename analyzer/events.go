package analyzer

import (
	"fmt"

	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
)

// This file queues the events of a ledger. Package eventlog says why none is missing.

// byMessage is the argument of describe for changes that messages of the log have made. Their events have the offsets of these messages.
const byMessage = -1

// describe queues the events of what the fold has changed since the last call. Changes that rules or people made between two messages are
// events of the offset that follows: from.
func (l *ledger) describe(from int64) {
	changes := l.fold.Changes()
	defer func() { l.described = len(changes) }()
	if l.config.Events == "" || l.partial { // while rows of a snapshot are missing, changes are no events: the topic has them
		return
	}
	for i := l.described; i < len(changes); i++ {
		e, ok := eventlog.Describe(&changes[i], l.config.Fold.Partition, from)
		if ok {
			l.events.Add(&e)
		}
	}
	l.events.Reach(l.next.Load())
}

// describeControl queues the event of a control record that was applied before an offset. Only partition 0 has the event of a record about
// all partitions.
func (l *ledger) describeControl(c *schemas.Control, from int64) {
	if l.config.Events == "" || l.partial || c.Action == schemas.ControlRules || c.Global() && l.config.Fold.Partition != 0 {
		return
	}
	e := eventlog.DescribeControl(c, l.config.Fold.Partition, from)
	l.events.Add(&e)
}

// setRules changes the rules of the fold from an offset on.
func (l *ledger) setRules(set *rules.Set, from int64) {
	before := l.fold.Rules().ID()
	l.describe(byMessage)
	l.fold.SetRules(set)
	l.setRulesFrom(from)
	l.describeRules(before, from)
}

// describeRules queues the events that follow from a change of rules. Only partition 0 has the event that the rules have changed.
func (l *ledger) describeRules(before uint64, from int64) {
	if l.config.Events != "" && !l.partial && l.config.Fold.Partition == 0 {
		e := eventlog.DescribeRules(before, l.fold.Rules().ID(), 0, from, l.fold.LogTime())
		l.events.Add(&e)
	}
	l.describe(from)
}

// restore puts a row of the store into the fold, or into the queue of events.
func (l *ledger) restore(key, value []byte) error {
	if fold.KindOf(key) != fold.EventRow {
		return l.fold.Restore(key, value)
	}
	if err := l.events.Restore(key, value); err != nil {
		return fmt.Errorf("restore events: %w", err)
	}
	return nil
}

// withEvents adds the unacknowledged events before a checkpoint's offset to the checkpoint.
func (l *ledger) withEvents(j checkpointJob) checkpointJob {
	if l.config.Events == "" {
		j.changes = append(j.changes, l.events.Forget()...)
		return j
	}
	l.describe(byMessage)
	set, removed := l.events.TakeDirty()
	if len(set) > 0 {
		j.changes = append(set, j.changes...)
	}
	j.changes = append(j.changes, removed...) // deletions come last
	return j
}

// beginEvents makes the queue accept events. Call it when it is known what the fold starts from. mark is the offset before which previous
// owners have written all events, end is the end of the log, and s is the snapshot to start from, or nil. Offsets whose events may never
// have been written get a gap.
func (l *ledger) beginEvents(mark, end int64, s *snapshot.Snapshot) {
	if l.config.Events == "" {
		return
	}
	if mark > end {
		mark = 0 // the heartbeat was about another log
	}
	at := l.store.Checkpoint()
	from := l.next.Load() // events can be written for what is folded from here on
	switch {
	case s != nil:
		from = s.Last // before it rows are missing, so that no events can be written
	case at != (store.Checkpoint{}) && l.events.Complete():
		from = 0 // the store has the events that are not in the topic
	}
	l.events.Begin(max(mark, from))
	if mark < from {
		l.logger.Warn("events may be missing from the topic", "from", mark, "to", from)
		l.events.AddGap(l.config.Fold.Partition, mark, from, l.fold.LogTime())
	}
}

// lost queues a gap for offsets that the log no longer has and that are not folded. A previous owner may have counted them without writing
// their events.
func (l *ledger) lost(from, to int64) {
	if l.config.Events == "" || l.partial {
		return
	}
	l.describe(byMessage)
	if from = max(from, l.events.Mark()); from < to {
		l.events.AddGap(l.config.Fold.Partition, from, to, l.fold.LogTime())
	}
}

// eventsMark returns the offset before which all events are in the topic; 0 without a topic. Any goroutine may call it.
func (l *ledger) eventsMark() int64 {
	if l.config.Events == "" {
		return 0
	}
	return l.events.Mark()
}
