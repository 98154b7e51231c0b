package apiv1

import "time"

// Event is what has happened, as the topic of events has it: schemas/events.schema.json says more. Fields that a type does not need are
// left out.
type Event struct {
	ID        string    `json:"id"`   // equal ids are copies of one event
	Type      string    `json:"type"` // closed, extended, opened, ended, warned, control, rules_changed, gap, or one of a later version
	Time      time.Time `json:"time"`
	Partition int       `json:"partition"`
	Offset    int64     `json:"offset"` // of the message of requests that made it
	Caller    *Caller   `json:"caller,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	Mode      string    `json:"mode,omitempty"`
	CloseAt   time.Time `json:"close_at,omitzero"`
	Until     time.Time `json:"until,omitzero"`
	Count     int64     `json:"count,omitempty"`
	Limit     int64     `json:"limit,omitempty"`
	Nth       int       `json:"nth,omitempty"`      // of closed: how many closes in a row
	Share     float64   `json:"share,omitempty"`    // of warned: the share of the limit that was crossed
	Together  bool      `json:"together,omitempty"` // of warned: all callers of the rule together crossed it; the caller's id is *
	Action    string    `json:"action,omitempty"`   // of control, as are the next four
	Author    string    `json:"author,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Record    string    `json:"record,omitempty"`
	Target    string    `json:"target,omitempty"`
	RulesFrom string    `json:"rules_from,omitempty"`
	RulesTo   string    `json:"rules_to,omitempty"`
	From      int64     `json:"from,omitempty"` // of gap: events of these offsets may be missing
	To        int64     `json:"to,omitempty"`
	Lost      int64     `json:"lost,omitempty"`
}
