package replay

import (
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
)

// ahead sums up what decisions do that come ahead of time. One goroutine uses it.
type ahead struct {
	innocents innocents
	early     int64 // decisions about a closure that was not counted yet
	shares    int64 // decisions with a share
}

// Entry implements Events.
func (l *loop) Entry(e *schemas.Entry) {
	l.onEntry(e)
	if l.ahead != nil {
		l.ahead.innocents.count(e)
	}
}

// Published implements Events.
func (l *loop) Published(item *outbox.Item) {
	if l.ahead == nil {
		return
	}
	if item.Kind == outbox.Early {
		l.ahead.early++
	}
	if item.Decision.Share != nil {
		l.ahead.shares++
	}
}

// Applied implements Events.
func (l *loop) Applied(d *schemas.Decision, at int64) {
	if l.ahead != nil {
		l.ahead.innocents.apply(d, at)
	}
}

// Refused implements Events.
func (l *loop) Refused(caller *schemas.Caller, at int64) {
	if l.ahead != nil {
		l.ahead.innocents.refuse(caller, at)
	}
}
