package eventlog

import (
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// Describe returns the event of a change in a partition, with its id, or false if the change is no event, as when an end moves only a
// little. from is the offset of the event if the change was made between two messages; −1 if a message made the change.
func Describe(c *fold.Change, partition int, from int64) (event.Event, bool) {
	of, ok := typeOf(c)
	if !ok {
		return event.Event{}, false
	}
	e := event.Event{
		Type: of, Time: timeOf(c.At), Partition: partition, Offset: from, Caller: event.CallerOf(c.Caller),
		Rule: c.Rule.Name, Mode: c.Rule.Mode.String(), Count: max(c.Count.Total, 0), Limit: c.Limit,
	}
	if from < 0 {
		e.Offset = c.Offset
	}
	if of == event.Warned {
		e.Share, e.Together = c.Warn, c.Rule.Pool != nil
		e.IdentifyWithin(quantum(c))
		return e, true
	}
	e.CloseAt, e.Until = timeOf(c.Closure.CloseAt), timeOf(c.Closure.Until)
	if of == event.Closed {
		e.Nth = int(c.Closure.Nth)
	}
	if c.Rule.Name == schemas.ControlRule {
		e.Count, e.Limit = 0, 0
	}
	e.Identify()
	return e, true
}

// typeOf returns the type of the event of a change, and whether the change is an event.
func typeOf(c *fold.Change) (event.Type, bool) {
	switch {
	case c.Ended:
		return event.Ended, true
	case c.Warn > 0:
		return event.Warned, true
	case c.GoesOn: // gates open and close the caller, and it is one close
		return "", false
	case c.Kind == policy.Closed:
		return event.Closed, true
	case c.Kind == policy.Opened:
		return event.Opened, true
	case c.Kind == policy.Moved:
		return event.Extended, movedFar(c)
	}
	return "", false
}

// movedFar reports whether the end of a closure has moved past another quantum since the closure began. A move by rules or people has no
// Before, and is always an event.
func movedFar(c *fold.Change) bool {
	if c.Before.Nth == 0 {
		return true
	}
	q := int64(quantum(c))
	from := c.Closure.CloseAt
	return (c.Before.Until-from)/q != (c.Closure.Until-from)/q || c.Before.Until == c.Closure.Until
}

// quantum is an eighth of the window, but not less than a second.
func quantum(c *fold.Change) time.Duration {
	return max(time.Second, time.Duration(c.Rule.Window.Length(c.At)/8))
}

// DescribeControl returns the event, with its id, of a control record that the owner of a partition has applied before the offset from.
func DescribeControl(c *schemas.Control, partition int, from int64) event.Event {
	e := event.Event{
		Type: event.Control, Time: timeOf(c.Time), Partition: partition, Offset: from, Action: c.Action.String(),
		Author: c.Author, Reason: c.Reason, Record: c.ID.String(), Rule: c.Rule, Limit: c.Limit,
	}
	if c.Caller != (schemas.Caller{}) {
		e.Caller = event.CallerOf(c.Caller)
	}
	if c.Until != 0 {
		e.Until = timeOf(c.Until)
	}
	if c.Action == schemas.ControlUndo {
		e.Target = c.Target.String()
	}
	e.Identify()
	return e
}

// DescribeRules returns the event of a change of rules before the offset from, at log time now. It names the rules by their ids.
func DescribeRules(before, after uint64, partition int, from, now int64) event.Event {
	e := event.Event{
		Type: event.RulesChanged, Time: timeOf(max(now, 0)), Partition: partition, Offset: from,
		RulesFrom: fmt.Sprintf("%016x", before), RulesTo: fmt.Sprintf("%016x", after),
	}
	e.Identify()
	return e
}

// describeGap returns the event that says that events of the offsets from from until to, exclusive, may be missing. lost is how many; 0 if
// that is not known.
func describeGap(partition int, from, to, lost, now int64) event.Event {
	return event.Event{
		Type: event.Gap, Time: timeOf(max(now, 0)), Partition: partition, Offset: max(to-1, from), From: from, To: to, Lost: lost,
	}
}

func timeOf(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }
