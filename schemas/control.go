package schemas

import (
	"encoding/hex"
	"fmt"
)

// Bounds of a Control.
const (
	MaxAuthor      = 256       // bytes
	MaxReason      = 512       // bytes; a reason has at least one
	MaxControlText = 512 << 10 // bytes of a rules file that is noted
	MaxTopicName   = 249       // bytes, as Kafka bounds it
)

// ControlRule is the name of the rule under which callers are closed by hand. No rule of a file can have it: those begin with a
// letter or a digit.
const ControlRule = "_control"

// ControlID identifies a control record. Whoever writes one chooses it at random.
type ControlID [16]byte

// String returns the id as 32 hexadecimal digits.
func (id ControlID) String() string { return hex.EncodeToString(id[:]) }

// ParseControlID returns the id of a text that String has made.
func ParseControlID(s string) (ControlID, error) {
	var id ControlID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("got id %.64q, want %d hexadecimal digits", s, 2*len(id))
	}
	copy(id[:], b)
	return id, nil
}

// ControlAction says what a control record does.
type ControlAction uint8

// Actions of control records. The zero value is not a valid one. Each but ControlReset, ControlUndo and ControlRules holds
// until Control.Until, by log time.
const (
	ControlClose ControlAction = 1 + iota // Caller is closed, enforcing, as ControlRule; any kind, counted by a rule or not
	ControlOpen                           // Caller has no limit under Rule: counting goes on, and what is closed opens
	ControlLimit                          // Caller has Limit under Rule, and keeps its counts
	ControlReset                          // the windows and the escalation of Caller under Rule start from zero, and what they closed opens
	ControlMode                           // the decisions of Rule are shadow ones, also those that are in force
	ControlUndo                           // ends the effect of the record Target
	ControlRules                          // a note: the rules RulesID have this Text. It changes nothing
	ControlTake                           // the owner of Epoch has taken Partition of Topic over
	ControlPlace                          // that owner applies what comes before UpTo, and the rules RulesID, before the record Before
)

// String returns the action's name, as the API and the command line have it, or "unknown".
func (a ControlAction) String() string {
	switch a {
	case ControlClose:
		return "close"
	case ControlOpen:
		return "open"
	case ControlLimit:
		return "limit"
	case ControlReset:
		return "reset"
	case ControlMode:
		return "mode"
	case ControlUndo:
		return "undo"
	case ControlRules:
		return "rules"
	case ControlTake:
		return "take"
	case ControlPlace:
		return "place"
	}
	return "unknown"
}

// Control is one record of the control topic. Of most actions it is what a person decided about a caller or a rule, who it was, and
// why. Owners apply these between two records of requests[p], and say where by records of ControlPlace, so that every fold over the
// log agrees.
type Control struct {
	ID      ControlID // not of take and place
	Time    int64     // Unix nanoseconds, when it was written
	Author  string    // who decided: the name of a token, or of an analyzer. 1 to MaxAuthor bytes
	Reason  string    // why: 1 to MaxReason bytes. Not of take and place
	Action  ControlAction
	Caller  Caller    // of close, open, limit and reset: canonical, as recorders write it
	Rule    string    // of limit; of open, reset and mode, empty is all rules
	Limit   int64     // of limit: 1 or more, in units of weight
	Until   int64     // Unix nanoseconds, exclusive; at most MaxClosure after Time. Of close, open, limit and mode
	Target  ControlID // of undo
	RulesID uint64    // of rules and place
	Text    []byte    // of rules: the file; empty if it has more than MaxControlText bytes

	Topic     string // of take and place: the name of the topic of requests, 1 to MaxTopicName bytes
	Partition int32  // likewise: which of its partitions
	Epoch     uint64 // likewise: the owner's, 1 or more
	Seq       uint64 // of place: numbers the places of an epoch from 1
	Before    int64  // of place: the record of requests before which it stands
	UpTo      int64  // of place: the offset behind the control records that are applied there
	RulesAt   int64  // of place: the offset where the rules RulesID are noted
}

// OfPeople reports whether the record is what a person decided.
func (c *Control) OfPeople() bool { return c.Action < ControlRules }

// Global reports whether the record is about all partitions, and not only about that of its caller.
func (c *Control) Global() bool {
	return c.Action == ControlMode || c.Action == ControlUndo || c.Action == ControlRules
}
