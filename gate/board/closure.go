package board

import (
	"strings"
	"unique"

	"github.com/509da70d/floodgate/schemas"
)

// caller is a schemas.Caller as the board holds it.
type caller struct {
	kind unique.Handle[string]
	id   string
}

func callerOf(c schemas.Caller) caller { return caller{unique.Make(c.Kind), c.ID} }

// closure is a decision in force: a schemas.Decision in less memory, and its place in the tables.
type closure struct {
	caller        caller
	rule          unique.Handle[string]
	version       uint64
	first, next   [2]int64 // CloseAt, Until
	share         *schemas.Share
	epoch, seq    uint64
	evidence      schemas.Evidence
	number        uint64 // by the order of arrival
	partition     int32
	endsAt        int32 // its index in ends
	sibling       int32 // the next closure of the same caller, or of the free list; none is noSlot
	mode          schemas.Mode
	early, early2 bool // of the first and of the next span
}

// noSlot is the slot of no closure.
const noSlot = int32(-1)

// set makes the closure hold a decision. Its caller, number and places stay.
func (c *closure) set(d *schemas.Decision) {
	c.version, c.epoch, c.seq, c.partition = d.RuleVersion, d.Epoch, d.Seq, d.Partition
	c.first, c.next = [2]int64{d.CloseAt, d.Until}, [2]int64{d.Next.CloseAt, d.Next.Until}
	c.mode, c.early, c.early2 = d.Mode, d.Early, d.Next.Early
	c.share, c.evidence = d.Share, d.Evidence
}

// decision returns the decision that set has stored.
func (c *closure) decision() schemas.Decision {
	return schemas.Decision{
		Rule: c.rule.Value(), RuleVersion: c.version, Caller: schemas.Caller{Kind: c.caller.kind.Value(), ID: c.caller.id},
		Mode: c.mode, CloseAt: c.first[0], Until: c.first[1], Early: c.early,
		Next:  schemas.Span{CloseAt: c.next[0], Until: c.next[1], Early: c.early2},
		Share: c.share, Partition: c.partition, Epoch: c.epoch, Seq: c.seq, Evidence: c.evidence,
	}
}

// until returns when its last part is over.
func (c *closure) until() int64 {
	return lastOf(c.first, c.next, c.share)
}

// newerThan reports whether the closure holds a newer decision of its partition than d. Decisions come again when a reader has
// lost its place.
func (c *closure) newerThan(d *schemas.Decision) bool {
	return c.partition == d.Partition && (d.Epoch < c.epoch || d.Epoch == c.epoch && d.Seq < c.seq)
}

// own returns a copy of a caller that pins no memory of a decision's.
func (c caller) own() caller { return caller{c.kind, strings.Clone(c.id)} }
