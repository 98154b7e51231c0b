package apiv1

import "time"

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

// Explanation is the answer of GET /v1/explain: one verdict about a caller, and the numbers behind it.
type Explanation struct {
	At        *At               `json:"at,omitempty"` // nil: nobody could be asked
	Now       time.Time         `json:"now"`
	Caller    Caller            `json:"caller"`
	Verdict   Verdict           `json:"verdict"`
	Sentence  string            `json:"sentence"`       // the verdict for people: one plain sentence
	Rule      string            `json:"rule,omitempty"` // that the verdict is of
	Until     time.Time         `json:"until,omitzero"` // of a closure, or of what was done by hand
	Partition PartitionView     `json:"partition"`
	Rules     []RuleExplanation `json:"rules"`     // of the caller's kind
	Decisions []DecisionView    `json:"decisions"` // about the caller, that gates hold now
	Gate      *GateComparison   `json:"gate,omitempty"`
	Networks  []Caller          `json:"networks,omitempty"` // of kinds net, asn, net_route and asn_route, that rules count, and that the address is in: each has an explanation of its own
}

// RuleExplanation is what one rule says of a caller.
type RuleExplanation struct {
	RuleState
	Verdict  Verdict       `json:"verdict"`
	Sentence string        `json:"sentence"`
	Decision *DecisionView `json:"decision,omitempty"` // what gates hold of this rule now
}

// DecisionView is a decision about a caller that is in force or comes into force, with its evidence.
type DecisionView struct {
	Rule    string    `json:"rule"`
	Version string    `json:"version"` // of the rule: 16 hexadecimal digits
	Caller  Caller    `json:"caller"`
	Mode    string    `json:"mode"`
	CloseAt time.Time `json:"close_at"`
	Until   time.Time `json:"until"`
	Early   bool      `json:"early,omitempty"`  // predicted
	Hold    *Hold     `json:"hold,omitempty"`   // the prediction is because of what requests in flight may still cost
	NextAt  time.Time `json:"next_at,omitzero"` // the predicted closure after that one
	NextTo  time.Time `json:"next_until,omitzero"`
	Shared  bool      `json:"shared,omitempty"` // it gives the caller a share
	InForce bool      `json:"in_force"`         // closed now

	Partition int    `json:"partition"`
	Epoch     uint64 `json:"epoch"`
	Seq       uint64 `json:"seq"`

	Count      int64     `json:"count"` // of the limit, when it was taken
	Limit      int64     `json:"limit"`
	WindowNS   int64     `json:"window_ns"`
	WindowFrom time.Time `json:"window_from"`
	Rate       float64   `json:"rate,omitempty"` // demand, weight per second
	Offset     int64     `json:"offset"`         // of the record whose entry decided
	EntryTime  time.Time `json:"entry_time"`     // of that entry
	LagNS      int64     `json:"lag_ns"`         // measured then
	Expected   float64   `json:"expected_overshoot,omitempty"`
	Bound      float64   `json:"overshoot_bound,omitempty"`
}

// PartitionView is how far the partition of a caller is, as its owner's heartbeats say.
type PartitionView struct {
	Partition int       `json:"partition"`
	State     string    `json:"state"` // of the owner: running, memory-only, restoring, …; none if no owner is known
	Epoch     uint64    `json:"epoch,omitempty"`
	Offset    int64     `json:"offset,omitempty"` // the next to be counted
	LogTime   time.Time `json:"log_time,omitzero"`
	Beat      time.Time `json:"heartbeat,omitzero"`  // when its owner was heard of last; zero: never
	Stale     bool      `json:"stale"`               // that was too long ago
	LagNS     int64     `json:"lag_ns,omitempty"`    // smoothed over some ten closes; 0: none for a minute
	Backlog   int64     `json:"backlog,omitempty"`   // messages of its log that wait to be counted
	BehindNS  int64     `json:"behind_ns,omitempty"` // with a backlog: how old the newest request is that was counted
	RulesID   string    `json:"rules_id,omitempty"`
}

// GateComparison is what one gate holds of a caller, beside what its analyzer holds.
type GateComparison struct {
	URL      string   `json:"url,omitempty"`
	Agrees   bool     `json:"agrees"`
	Sentence string   `json:"sentence"`
	Findings []string `json:"findings,omitempty"` // what differs, one plain sentence each
}
