package apiv1

import (
	"time"
	"unicode/utf8"

	"github.com/509da70d/floodgate/schemas"
)

// At says of which prefix of the log an answer is the truth.
type At struct {
	Partition int       `json:"partition"`
	Epoch     uint64    `json:"epoch"`
	Offset    int64     `json:"offset"`   // the next message of requests[partition] to be counted
	Control   int64     `json:"control"`  // the next record of the control topic to be applied
	LogTime   time.Time `json:"log_time"` // the newest time that was counted; zero if there was none
}

// Caller is a caller whose id need not be text.
type Caller struct {
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	IDBase64 []byte `json:"id_base64,omitempty"` // the id, where it is not UTF-8
}

// CallerOf returns a caller as the API writes it.
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

// Verdict is what the API says of a caller, or of one rule and a caller. The first that fits is the one of the caller.
type Verdict string

// Verdicts.
const (
	Unknown      Verdict = "unknown"        // nobody knows: the partition is restoring, or has no owner
	ClosedByHand Verdict = "closed_by_hand" // a person closed it
	Closed       Verdict = "closed"         // a rule closed it, after counting
	ClosedEarly  Verdict = "closed_early"   // a rule closed it, by prediction
	OpenedByHand Verdict = "opened_by_hand" // a person opened it: the rule has no limit for it
	ShadowOnly   Verdict = "shadow_only"    // closed, but the rule is in shadow mode: it is admitted
	Unlimited    Verdict = "unlimited"      // an override of the rule gives it no limit
	NotCounted   Verdict = "not_counted"    // the table is full: requests of the caller were not counted
	Near         Verdict = "near"           // 80 % of the limit or more
	Ended        Verdict = "ended"          // it was closed until a moment ago, or in this window
	Below        Verdict = "below"
	NotMatched   Verdict = "not_matched" // rules count this kind, but only certain resources or statuses, and none has come
	NoRule       Verdict = "no_rule"     // no rule counts this kind, or this id
)

// Problem is an error as RFC 9457 has it, with what was got and what was wanted.
type Problem struct {
	Type    string `json:"type"` // about:blank
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail,omitempty"`
	Pointer string `json:"pointer,omitempty"` // where in the body (RFC 6901), or the parameter's name
	Got     string `json:"got,omitempty"`
	Want    string `json:"want,omitempty"`
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Title + ": " + p.Detail
	}
	return p.Title
}
