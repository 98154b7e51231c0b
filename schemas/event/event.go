package event

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/509da70d/floodgate/schemas"
)

// Type says what happened.
type Type string

// Types of events.
const (
	Closed       Type = "closed"        // the caller reached the limit of a rule, or a person closed it
	Extended     Type = "extended"      // the end of its closure, or the closure's mode, changed
	Opened       Type = "opened"        // its closure ended early: by new rules, or by hand
	Ended        Type = "ended"         // its closure ended at its time, as log time has it
	Warned       Type = "warned"        // it crossed a share of its limit at which the rule warns
	Control      Type = "control"       // an owner applied what a person decided: a control record
	RulesChanged Type = "rules_changed" // other rules count from this offset on
	Gap          Type = "gap"           // events of these offsets may be missing from the topic
)

// Types returns all types of this version.
func Types() []Type {
	return []Type{Closed, Extended, Opened, Ended, Warned, Control, RulesChanged, Gap}
}

// Event is one thing that happened, at an offset of requests[Partition]. Fields that a type does not need are zero, and left out of
// the JSON. Times are UTC.
type Event struct {
	ID        string    `json:"id"` // 32 hexadecimal digits; equal ids are copies of one event. See Identify
	Type      Type      `json:"type"`
	Time      time.Time `json:"time"` // by log time; of control: when the person decided
	Partition int       `json:"partition"`
	// Offset is that of the message that made the event. What happens between two messages (rules, control records) has the offset
	// of the one that follows.
	Offset int64 `json:"offset"`

	Caller  Caller    `json:"caller,omitzero"`
	Rule    string    `json:"rule,omitempty"` // schemas.ControlRule: closed by hand
	Mode    string    `json:"mode,omitempty"` // enforce or shadow
	CloseAt time.Time `json:"close_at,omitzero"`
	Until   time.Time `json:"until,omitzero"` // of the closure, exclusive; of control: when its effect ends
	Count   int64     `json:"count,omitempty"`
	Limit   int64     `json:"limit,omitempty"` // in units of the rule's measure; of control: the caller's new limit
	Nth     int       `json:"nth,omitempty"`   // of closed: how many closes in a row, for escalation
	Share   float64   `json:"share,omitempty"` // of warned: the share of the limit that was crossed, as in the rules file
	// Together says, of warned, that all callers of the rule together have crossed a share of its capacity. The caller's id is * then.
	Together bool `json:"together,omitempty"`

	Action string `json:"action,omitempty"` // of control, and the fields below: close, open, limit, reset, mode or undo
	Author string `json:"author,omitempty"`
	Reason string `json:"reason,omitempty"`
	Record string `json:"record,omitempty"` // the control record's id: 32 hexadecimal digits
	Target string `json:"target,omitempty"` // of an undo: the id of the record that it ends

	RulesFrom string `json:"rules_from,omitempty"` // of rules_changed: the fingerprint of the rules before, 16 hexadecimal digits
	RulesTo   string `json:"rules_to,omitempty"`

	From int64 `json:"from,omitempty"` // of gap: events of the offsets from From …
	To   int64 `json:"to,omitempty"`   // … until To, exclusive, may be missing
	Lost int64 `json:"lost,omitempty"` // of gap: so many are; 0 if nobody counted them
}

// Known reports whether the event's type is one of this version.
func (e *Event) Known() bool { return slices.Contains(Types(), e.Type) }

// Caller is a caller whose id need not be text. The zero value is none.
type Caller struct {
	Kind     string `json:"kind"`
	ID       string `json:"id"`                  // as it is counted; for people, where it is not UTF-8
	IDBase64 []byte `json:"id_base64,omitempty"` // the id, where it is not UTF-8
}

// CallerOf returns a caller as events have it.
func CallerOf(c schemas.Caller) Caller {
	v := Caller{Kind: c.Kind, ID: c.ID}
	if !utf8.ValidString(c.ID) {
		v.IDBase64 = []byte(c.ID)
	}
	return v
}

// Caller undoes CallerOf. It checks nothing.
func (c Caller) Caller() schemas.Caller {
	if len(c.IDBase64) > 0 {
		return schemas.Caller{Kind: c.Kind, ID: string(c.IDBase64)}
	}
	return schemas.Caller{Kind: c.Kind, ID: c.ID}
}

// String returns kind:id.
func (c Caller) String() string { return c.Kind + ":" + c.ID }
