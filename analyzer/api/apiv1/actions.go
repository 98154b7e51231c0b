package apiv1

import "time"

// CloseRequest is the body of POST /v1/close: the caller is closed, enforcing, until a time.
type CloseRequest struct {
	Caller Caller    `json:"caller"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// OpenRequest is the body of POST /v1/open: the caller has no limit until a time. Counting goes on, and what is closed opens.
type OpenRequest struct {
	Caller Caller    `json:"caller"`
	Rule   string    `json:"rule,omitempty"` // empty: under all rules
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// LimitRequest is the body of POST /v1/limit: the caller has another limit under a rule until a time. No count is lost.
type LimitRequest struct {
	Caller Caller    `json:"caller"`
	Rule   string    `json:"rule"`
	Limit  int64     `json:"limit"` // in units of the rule's measure
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// ResetRequest is the body of POST /v1/reset: the windows of the caller start from zero, and what they closed opens.
type ResetRequest struct {
	Caller Caller `json:"caller"`
	Rule   string `json:"rule,omitempty"` // empty: under all rules
	Reason string `json:"reason"`
}

// ModeRequest is the body of POST /v1/mode: until a time, the decisions of a rule block nobody.
type ModeRequest struct {
	Rule   string    `json:"rule,omitempty"` // empty: of all rules
	Mode   string    `json:"mode"`           // shadow
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// UndoRequest is the body of POST /v1/undo: the effect of a record ends.
type UndoRequest struct {
	ID     string `json:"id"` // of the record: 32 hexadecimal digits
	Reason string `json:"reason"`
}

// ActionAnswer is the answer to what was decided by hand. With status 200 the owners have applied it, with 202 some have not yet.
type ActionAnswer struct {
	Applied bool   `json:"applied"`
	Waiting []int  `json:"waiting,omitempty"` // partitions whose owners have not applied it yet
	Action  Action `json:"action"`
}

// ActionList is the answer of GET /v1/actions: what was decided by hand, the newest first.
type ActionList struct {
	Now     time.Time `json:"now"`
	Actions []Action  `json:"actions"`
	Next    string    `json:"next,omitempty"` // the cursor of the next page; empty: this is the last one
}

// Action is a record of the control topic.
type Action struct {
	ID       string    `json:"id"`     // 32 hexadecimal digits
	Offset   int64     `json:"offset"` // in the control topic
	Time     time.Time `json:"time"`
	Author   string    `json:"author"`
	Reason   string    `json:"reason"`
	Action   string    `json:"action"` // close, open, limit, reset, mode or undo
	Caller   *Caller   `json:"caller,omitempty"`
	Rule     string    `json:"rule,omitempty"` // empty: all rules
	Limit    int64     `json:"limit,omitempty"`
	Until    time.Time `json:"until,omitzero"`
	Target   string    `json:"target,omitempty"` // of undo: the id of the record whose effect it ends
	State    string    `json:"state"`            // waiting, in_force, done, ended or undone
	UndoneBy *UndoneBy `json:"undone_by,omitempty"`
}

// UndoneBy is who undid a record, and why.
type UndoneBy struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Author string    `json:"author"`
	Reason string    `json:"reason"`
}

// States of an Action.
const (
	StateWaiting = "waiting"  // some owner has not applied it yet
	StateInForce = "in_force" // until its time is over
	StateDone    = "done"     // it acts once: reset and undo
	StateEnded   = "ended"    // its time is over
	StateUndone  = "undone"
)
