package schemas

import "time"

// MaxClosure is the longest a gate may stay closed by one decision: a year and a day. Readers clamp longer ones.
const MaxClosure = 366 * 24 * time.Hour

// Mode says what a decision does at a gate.
type Mode uint8

// Modes. The zero value is not a valid mode, so that a decision nobody filled in closes nothing.
const (
	ModeEnforce Mode = 1 + iota // closed callers are blocked
	ModeShadow                  // closed callers are admitted, and counted as "would have been blocked"
)

// String returns "enforce", "shadow" or "unknown".
func (m Mode) String() string {
	switch m {
	case ModeEnforce:
		return "enforce"
	case ModeShadow:
		return "shadow"
	}
	return "unknown"
}

// Decision says that a caller is closed under a rule from CloseAt until Until. It is absolute: applying it twice
// changes nothing, and a newer one for the same rule and caller replaces it. Until ≤ CloseAt opens the caller again.
type Decision struct {
	Rule        string
	RuleVersion uint64 // fingerprint of the rule as it was when this was decided
	Caller      Caller
	Mode        Mode
	CloseAt     int64 // Unix nanoseconds, inclusive
	Until       int64 // Unix nanoseconds, exclusive
	Partition   int32 // of the decisions topic; the owner of requests[p] writes only decisions[p]
	Epoch       uint64
	Seq         uint64 // per partition and epoch, rising
	Evidence    Evidence
}

// ClosedAt reports whether the decision closes its caller at now, in Unix nanoseconds.
func (d *Decision) ClosedAt(now int64) bool { return d.CloseAt <= now && now < d.Until }

// Evidence is why a decision was taken: enough to explain it, and to fill in RateLimit fields.
type Evidence struct {
	Count       int64   // weight in the window when the decision was taken
	Limit       int64   // the limit that applied to this caller
	Window      int64   // length of the window in nanoseconds
	WindowStart int64   // Unix nanoseconds
	Rate        float64 // the caller's demand, weight per second; 0 where not measured
	AsOfOffset  int64   // of the requests partition: the record whose entry decided
	AsOfTime    int64   // Unix nanoseconds: that entry's time
	Lag         int64   // the analyzer's measured lag then, in nanoseconds
}

// Claim is an owner's announcement that it takes over a partition of the decisions topic under an epoch. Of equal
// epochs the first in the log wins. Only claims and heartbeats raise the epoch that readers accept.
type Claim struct {
	Partition int32
	Epoch     uint64
	Nonce     uint64 // random, to recognise one's own
	Owner     string // for people: host and process
}

// Heartbeat says that the owner of a partition is alive, how far it has read, and where a reader must start.
type Heartbeat struct {
	Partition int32
	Epoch     uint64
	Seq       uint64
	Time      int64  // Unix nanoseconds on the owner's clock
	Watermark int64  // next offset of requests[p] to fold
	LogTime   int64  // Unix nanoseconds: newest time folded
	Lag       int64  // nanoseconds from a request to its decision published, as measured by the owner
	From      int64  // offset in decisions[p] where the last complete repeat cycle began
	State     int64  // 1 + the offset in state[p] where the last complete snapshot began; 0 is none
	RulesID   uint64 // of the rules that count, …
	RulesFrom int64  // … since this offset of requests[p]
}
