package analyzer

import (
	"sync/atomic"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/schemas"
)

// controlCounters is the part of controls that other goroutines may read.
type controlCounters struct {
	follower   atomic.Pointer[control.Follower]
	trouble    atomic.Pointer[error] // why the topic cannot be read or written; nil: it can
	again      atomic.Uint64
	later      atomic.Uint64
	unreadable atomic.Uint64
	lost       atomic.Uint64
	actions    [schemas.ControlPlace + 1]atomic.Uint64
}

func (n *controlCounters) add(s control.Skipped) {
	n.later.Add(s.Later)
	n.unreadable.Add(s.Unreadable)
	n.lost.Add(s.Lost)
}

// ControlStats is what an owner has done with the control topic since it was made.
type ControlStats struct {
	Next       int64                            // the offset of the topic before which all is applied
	End        int64                            // the end of the topic, as of the last answer
	Trouble    error                            // why the topic cannot be read now, or nil
	Again      uint64                           // how often the topic was made anew, or lost its end
	Applied    [schemas.ControlRules + 1]uint64 // what people decided, by action
	Later      uint64                           // records of a later version: skipped
	Unreadable uint64                           // records that cannot be read: skipped
	Lost       uint64                           // records that the topic no longer held
}

// stats returns a snapshot. Any goroutine may call it.
func (n *controlCounters) stats(next int64) ControlStats {
	s := ControlStats{Next: next, Again: n.again.Load(), Later: n.later.Load(), Unreadable: n.unreadable.Load(), Lost: n.lost.Load()}
	for i := range s.Applied {
		s.Applied[i] = n.actions[i].Load()
	}
	if err := n.trouble.Load(); err != nil {
		s.Trouble = *err
	}
	if f := n.follower.Load(); f != nil {
		status := f.Status()
		s.End = status.End
		if s.Trouble == nil {
			s.Trouble = status.Trouble
		}
	}
	return s
}
