package apiv1

import (
	"cmp"
	"time"

	"github.com/509da70d/floodgate/schemas/event"
)

// At says up to which place of the log an answer counts.
type At struct {
	Partition int       `json:"partition"`
	Epoch     uint64    `json:"epoch"`
	Offset    int64     `json:"offset"`   // the next message of requests[partition] to be counted
	Control   int64     `json:"control"`  // the next record of the control topic to be applied
	LogTime   time.Time `json:"log_time"` // the newest time that was counted; zero if there was none
}

// Caller is a caller whose id need not be text, as events have it.
type Caller = event.Caller

// CallerState is the answer of GET /v1/caller: what the owner of the caller's partition counts of it.
type CallerState struct {
	At       At             `json:"at"`
	Now      time.Time      `json:"now"` // the owner's clock: windows are drawn as of this time, or of log time if that is later
	Caller   Caller         `json:"caller"`
	Rules    []RuleState    `json:"rules"` // of the caller's kind, in the order of the file; empty: no rule counts this kind
	ClosedBy *ControlRecord `json:"closed_by_hand,omitempty"`
}

// RuleState is one rule of a caller's kind, and what it has counted of the caller.
type RuleState struct {
	Rule     string         `json:"rule"`
	Version  string         `json:"version"`                // of the rule: 16 hexadecimal digits
	Mode     string         `json:"mode"`                   // enforce or shadow: what holds now
	ModeBy   *ControlRecord `json:"mode_by_hand,omitempty"` // what put the rule into mode shadow
	Window   string         `json:"window"`                 // as people write it, such as "1m sliding"
	WindowNS int64          `json:"window_ns"`
	Measure  string         `json:"measure"` // requests, responses, cost or in_flight

	Counted    bool      `json:"counted"`               // there is a row: the fields below it are of that
	NotCounted Uncounted `json:"not_counted,omitempty"` // why there is none
	Match      string    `json:"match,omitempty"`       // the rule counts only these resources and statuses, such as "/a; status 5xx"

	Limit      Limit     `json:"limit"`
	Count      int64     `json:"count"`               // weight in the window
	Share      float64   `json:"share"`               // of the capacity of the limit; may be more than 1
	Remaining  int64     `json:"remaining"`           // weight until it closes; 0 if it is full, or unlimited
	LowerBound bool      `json:"lower_bound"`         // weight may be missing from count
	MissingTo  time.Time `json:"missing_to,omitzero"` // of a lower bound: weight up to this log time may be missing
	WindowFrom time.Time `json:"window_from,omitzero"`
	FreeAt     time.Time `json:"free_at,omitzero"`     // the window is full until then
	EmptyAt    time.Time `json:"empty_at,omitzero"`    // if nothing more comes, the window is empty from then on; zero: it is empty
	Parts      []Part    `json:"parts,omitempty"`      // the window, oldest part first
	MoreParts  int       `json:"more_parts,omitempty"` // parts that were left out: the oldest ones

	Closure *Closure      `json:"closure,omitempty"` // the latest; it may be over
	Early   *EarlyClosure `json:"early,omitempty"`   // predicted: gates know of it, and it ends by itself
	Shared  bool          `json:"shared,omitempty"`  // gates give it permits, by a share
	Rate    float64       `json:"rate,omitempty"`    // demand, weight per second; 0 where it is not measured
	Room    *Room         `json:"room,omitempty"`    // of a rule with holds: what the limit has left beside requests in flight
	Pool    *Pool         `json:"pool,omitempty"`    // of a rule with a capacity: what all its callers ask for together
}

// Hold is what the requests in flight of a caller held of its limit, when a decision was taken.
type Hold struct {
	InFlight int64 `json:"in_flight"` // requests
	Held     int64 `json:"held"`      // what they are expected to cost
	Margin   int64 `json:"margin"`    // what stays free for what is not known of them
	Learned  int64 `json:"learned"`   // from how many responses their cost was learned; 0: the rule's estimate
}

// Room is what a limit has left beside what is counted and what requests in flight hold.
type Room struct {
	InFlight   int64 `json:"in_flight"`             // requests
	Held       int64 `json:"held"`                  // what they are expected to cost
	Margin     int64 `json:"margin"`                // what stays free for what is not known of them
	Left       int64 `json:"left"`                  // of the limit; below 0 if more is counted and held
	Mean       int64 `json:"mean"`                  // what one more request is expected to cost
	Learned    int64 `json:"learned"`               // from how many responses the mean was learned; 0: the rule's estimate
	DurationNS int64 `json:"duration_ns,omitempty"` // how long requests run on average; 0: no response has said it
}

// Pool is the capacity that all callers of a rule share, and what the owner of a caller's partition knows of it.
type Pool struct {
	Capacity int64   `json:"capacity"`            // requests of all callers in a window
	Asked    int64   `json:"asked"`               // requests that callers asked for in a window
	Whole    bool    `json:"whole"`               // asked is of all callers; else of those of this partition only
	Level    float64 `json:"level,omitempty"`     // requests in a window of a caller of weight 1; 0: nobody is limited
	Above    int64   `json:"above,omitempty"`     // about how many callers asked for more than the level
	Weight   float64 `json:"weight"`              // of the caller
	WeightOf string  `json:"weight_of,omitempty"` // the id or the network that the rule gives this weight
}

// Uncounted says why a caller has no row under a rule.
type Uncounted string

// Reasons of RuleState.NotCounted.
const (
	UncountedPattern Uncounted = "pattern" // the rule's pattern of ids leaves this id out
	UncountedWaiting Uncounted = "waiting" // the table is full: the caller waits, and count is a coarse one, never too high
	UncountedFull    Uncounted = "full"    // the table is full, or was: what the caller sent may be lost
	UncountedMatch   Uncounted = "match"   // the rule counts only certain resources or statuses, and none has come
	UncountedNothing Uncounted = "nothing" // nothing has come that is still in the window
)

// Limit is a caller's limit under a rule, and where it comes from.
type Limit struct {
	Limit     int64          `json:"limit"`     // in units of the rule's measure
	Capacity  int64          `json:"capacity"`  // the weight at which the window is full: the limit, or a bucket's burst
	Unlimited bool           `json:"unlimited"` // nothing closes the caller: limit is the rule's own, or the capacity
	Source    LimitSource    `json:"source"`
	Override  string         `json:"override,omitempty"` // the id or the network of an override of the rule
	By        *ControlRecord `json:"by_hand,omitempty"`
}

// LimitSource says where a limit comes from.
type LimitSource string

// Sources of limits. By hand comes before an override, an override of an id before one of a network. The level of a pool gives a fair share.
const (
	LimitOfRule   LimitSource = "rule"
	LimitOfID     LimitSource = "override_id"
	LimitOfPrefix LimitSource = "override_network"
	LimitByHand   LimitSource = "by_hand"
	LimitOfLevel  LimitSource = "level"
)

// ControlRecord is a control record that is in force.
type ControlRecord struct {
	ID     string    `json:"id"` // 32 hexadecimal digits
	Action string    `json:"action"`
	Author string    `json:"author"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
	Until  time.Time `json:"until,omitzero"`
	Rule   string    `json:"rule,omitempty"` // empty: all rules
	Limit  int64     `json:"limit,omitempty"`
	Offset int64     `json:"offset"` // of requests[partition]: it counts from here on
}

// Part is a piece of a window: a slot, an entry of a log, or what is in a bucket.
type Part struct {
	From   time.Time `json:"from"`   // its entries came at this time or later, …
	Until  time.Time `json:"until"`  // … and before this one
	Leaves time.Time `json:"leaves"` // the window holds it until then
	Weight int64     `json:"weight"`
}

// Closure is a time in which a rule closes a caller, as counted.
type Closure struct {
	CloseAt time.Time `json:"close_at"`
	Until   time.Time `json:"until"`
	Nth     int64     `json:"nth"`                 // closes in a row
	Demand  bool      `json:"by_demand,omitempty"` // what gates blocked early counts as if it had been admitted
	Peak    int64     `json:"peak"`                // the largest weight that the window held
	InForce bool      `json:"in_force"`
}

// EarlyClosure is a predicted closure.
type EarlyClosure struct {
	CloseAt time.Time `json:"close_at"`
	Until   time.Time `json:"until"`
	Held    bool      `json:"held,omitempty"` // because of what requests in flight may still cost
}

// CallerList is the answer of GET /v1/callers: a page, or a line of the whole list for each piece of the walk.
type CallerList struct {
	At      []At         `json:"at"` // one for each partition that has answered
	Sort    string       `json:"sort"`
	Total   int          `json:"total"` // rows that the filter lets through, of all partitions
	Callers []CallerLine `json:"callers"`
	Next    string       `json:"next,omitempty"`    // the cursor of the next page; empty: this is the last one
	Missing []int        `json:"missing,omitempty"` // partitions that have not answered
}

// CallerLine is one rule and caller of a list.
type CallerLine struct {
	Partition  int       `json:"partition"`
	Offset     int64     `json:"offset"` // the line is the truth at this offset of requests[partition]
	Rule       string    `json:"rule"`
	Caller     Caller    `json:"caller"`
	Mode       string    `json:"mode"`
	Count      int64     `json:"count"`
	Limit      int64     `json:"limit"`
	Unlimited  bool      `json:"unlimited,omitempty"`
	Share      float64   `json:"share"` // of the capacity of the limit
	LowerBound bool      `json:"lower_bound,omitempty"`
	Closed     bool      `json:"closed"`
	CloseAt    time.Time `json:"close_at,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	Nth        int64     `json:"nth,omitempty"`
}

// SortCount is the sort of a list in which the largest count comes first; else the largest share comes first.
const SortCount = "count"

// Value returns what a list is ordered by.
func (l *CallerLine) Value(sort string) float64 {
	switch {
	case sort == SortCount:
		return float64(l.Count)
	case l.Unlimited:
		return 0
	}
	return l.Share
}

// Compare orders lines as lists do: it is negative if l comes before o.
func (l *CallerLine) Compare(o *CallerLine, sort string) int {
	return cmp.Or(cmp.Compare(o.Value(sort), l.Value(sort)), cmp.Compare(l.Rule, o.Rule), cmp.Compare(l.Caller.Kind, o.Caller.Kind),
		cmp.Compare(l.Caller.Caller().ID, o.Caller.Caller().ID))
}

// Busy is the answer of GET /v1/callers?sort=rate or blocked: the busiest callers, counted by rule or not.
type Busy struct {
	At      []At         `json:"at"`
	Sort    string       `json:"sort"`
	HalfNS  int64        `json:"half_ns"` // after so much log time, weight counts half
	Callers []BusyCaller `json:"callers"`
	Missing []int        `json:"missing,omitempty"`
}

// BusyCaller is one of the busiest callers of a partition. Its rates are of the last minute or so. Where many requests come, they are
// estimates from a sample: in 19 of 20 cases, the true rate differs by at most the error.
type BusyCaller struct {
	Partition     int     `json:"partition"`
	Caller        Caller  `json:"caller"`
	Admitted      float64 `json:"admitted"` // requests per second
	Blocked       float64 `json:"blocked"`  // requests per second
	AdmittedError float64 `json:"admitted_error"`
	BlockedError  float64 `json:"blocked_error"`
}
