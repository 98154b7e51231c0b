package outbox

import (
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// Key identifies what a decision is about. A decision replaces an older one with the same key.
type Key struct {
	Rule   string
	Caller schemas.Caller
}

// KeyOf returns the key of a decision.
func KeyOf(d *schemas.Decision) Key { return Key{d.Rule, d.Caller} }

// decisionOf returns the decision that a change leads to. Partition, lag, epoch and sequence number are set later.
func decisionOf(c *fold.Change) schemas.Decision {
	d := policy.Decision(c.Rule, c.Caller, c.Closure, c.At, c.Limit, c.Count)
	d.Evidence.AsOfOffset, d.Evidence.Rate = c.Offset, c.Rate
	d.Evidence.Expected, d.Evidence.Bound = c.Expected, c.Bound
	if c.Kind != policy.Opened {
		d.Next, d.Share = c.Next, c.Share
	}
	return separated(d)
}

// separated returns the decision with a next closure that begins no earlier than the first one ends. If nothing of the next closure
// is left then, the result has none. The first closure may have moved since the next one was predicted, and readers refuse
// closures that overlap.
func separated(d schemas.Decision) schemas.Decision {
	d.Next.CloseAt = max(d.Next.CloseAt, d.Until)
	if d.Until <= d.CloseAt || d.Next.Until <= d.Next.CloseAt {
		d.Next = schemas.Span{}
	}
	return d
}

// countedUntil returns when the last counted closure of the decision ends. ok is false if the decision has only predicted closures.
func countedUntil(d *schemas.Decision) (until int64, ok bool) {
	switch {
	case d.Next != schemas.Span{} && !d.Next.Early:
		return d.Next.Until, true
	case !d.Early:
		return d.Until, true
	}
	return 0, false
}

// earlySpan returns the predicted closure of the decision; the zero value if there is none.
func earlySpan(d *schemas.Decision) schemas.Span {
	switch {
	case d.Next.Early:
		return d.Next
	case d.Early:
		return schemas.Span{CloseAt: d.CloseAt, Until: d.Until, Early: true}
	}
	return schemas.Span{}
}

// Kind says what a decision does.
type Kind uint8

// Kinds. A plan that carries an unpublished close is Closed.
const (
	Closed Kind = iota // closes a caller that was counted to its limit
	Moved              // moves the end of a closure
	Opened             // opens a caller ahead of time
	Early              // predicts a closure
	Share              // gives a share
	Kinds              // how many there are
)

// String returns the name of the kind in lower case.
func (k Kind) String() string { return [...]string{"closed", "moved", "opened", "early", "share"}[k] }

// kindOf returns what the decision of a change does.
func kindOf(t policy.Transition) Kind {
	switch t {
	case policy.Moved:
		return Moved
	case policy.Opened:
		return Opened
	}
	return Closed
}
