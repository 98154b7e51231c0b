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
)

// ManualRule is the name of the rule under which callers are closed by hand. No rule of a file can have it: those begin with a
// letter or a digit.
const ManualRule = "_manual"

// ControlID identifies a control record. Whoever writes one chooses it at random.
type ControlID [16]byte

// String returns the id as 32 hexadecimal digits.
func (id ControlID) String() string { return hex.EncodeToString(id[:]) }

// ParseControlID undoes String.
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
	ControlClose ControlAction = 1 + iota // Caller is closed, enforcing, as ManualRule; any kind, counted by a rule or not
	ControlOpen                           // Caller has no limit under Rule: counting goes on, and what is closed opens
	ControlLimit                          // Caller has Limit under Rule, and keeps its counts
	ControlReset                          // the windows and the escalation of Caller under Rule start from zero, and what they closed opens
	ControlMode                           // the decisions of Rule are shadow ones, those in force again
	ControlUndo                           // ends the effect of the record Target
	ControlRules                          // a note: an analyzer took over the rules RulesID with this Text. It changes nothing
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
	}
	return "unknown"
}

// Control is one record of the control topic: what a person decided about a caller or a rule, who it was, and why. An owner
// applies it between two messages of requests[p], at a place that it notes, so that every fold over the log agrees.
type Control struct {
	ID      ControlID
	Time    int64  // Unix nanoseconds, when it was written
	Author  string // who decided: the name of a token, or of an analyzer. 1 to MaxAuthor bytes
	Reason  string // why: 1 to MaxReason bytes
	Action  ControlAction
	Caller  Caller    // of close, open, limit and reset: canonical, as recorders write it
	Rule    string    // of limit; of open, reset and mode, empty is all rules
	Limit   int64     // of limit: 1 or more, in units of weight
	Until   int64     // Unix nanoseconds, exclusive; at most MaxClosure after Time. 0 for reset, undo and rules
	Target  ControlID // of undo
	RulesID uint64    // of rules
	Text    []byte    // of rules: the file; empty if it has more than MaxControlText bytes
}

// ControlPlace says where an owner has applied control records: those at the offsets from First until Next, exclusive, of the
// control topic, before the record of requests[p] at From and after all before that.
type ControlPlace struct {
	From, First, Next int64

	// Chain is a digest of these records and of all that were applied before them, and of where: two owners that say the same place
	// have applied the same records at the same places.
	Chain uint64
}

// ControlTail is the last record of the control topic that was read, by which a topic is known again. The zero value is none.
type ControlTail struct {
	Offset int64
	CRC    uint32 // of its value; 0 if none was read
}

// Global reports whether the record is about all partitions, and not only about that of its caller.
func (c *Control) Global() bool {
	return c.Action == ControlMode || c.Action == ControlUndo || c.Action == ControlRules
}
