package schemas

import "time"

// MaxClosure is the longest a gate may stay closed by one decision: a year and a day. Readers clamp longer ones.
const MaxClosure = 366 * 24 * time.Hour

// Mode says what a decision does at a gate.
type Mode uint8

// Modes. The zero value is not a valid mode, so that the zero Decision closes nothing.
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

// Span is a time in which a caller is closed: CloseAt ≤ t < Until, in Unix nanoseconds. The zero value is none.
type Span struct {
	CloseAt, Until int64
	Early          bool // predicted, and not counted yet: it ends by itself unless a newer decision confirms it
}

// Covers reports whether the span closes its caller at t, in Unix nanoseconds.
func (s Span) Covers(t int64) bool { return s.CloseAt <= t && t < s.Until }

// Share gives a caller permits, of which each gate takes a part by its own measure: K × (the demand that this gate saw of the
// caller in [DemandFrom, DemandUntil)) ÷ Demand, where K is Permits. It holds while From ≤ t < Until. Gates and analyzer measure
// demand by the same clocks, so the parts of all gates add up to K. Times are Unix nanoseconds, lengths are nanoseconds.
//
// Period > 0, Permits ≥ 0, Demand > 0, DemandFrom < DemandUntil, From < Until, and no length is over MaxClosure: package
// schemas/pb writes and reads no other share.
type Share struct {
	From        int64 // inclusive: the first period begins here
	Until       int64 // exclusive
	Period      int64 // a gate's part is spent and given anew each period
	Permits     int64 // of all gates together in one period, in units of weight
	DemandFrom  int64 // inclusive: from here …
	DemandUntil int64 // … until here, exclusive, demand was measured
	Demand      int64 // of all gates together in that time: weight admitted and weight blocked; more, where Permits was rounded up
}

// Covers reports whether the share holds at t, in Unix nanoseconds.
func (s *Share) Covers(t int64) bool { return s.From <= t && t < s.Until }

// Decision says that a caller is closed under a rule from CloseAt until Until, and perhaps once more in the span Next. It may also give
// the caller a share, which limits it while no span covers the time. It is absolute: applying it twice changes nothing, and a newer one
// for the same rule and caller replaces all of it. Until ≤ CloseAt opens the caller again. Such a decision has no Next: for an open
// caller, a predicted closure is the first span. Compare decisions with reflect.DeepEqual, as == compares where Share points and not
// what is there.
type Decision struct {
	Rule        string
	RuleVersion uint64 // fingerprint of the rule as it was when this was decided
	Caller      Caller
	Mode        Mode
	CloseAt     int64  // Unix nanoseconds, inclusive
	Until       int64  // Unix nanoseconds, exclusive
	Early       bool   // the closure from CloseAt until Until is predicted, and not counted yet
	Held        bool   // that closure is early because of what requests in flight may still cost; only with Early. See Evidence.Held
	Next        Span   // the closure after that one: CloseAt ≥ the Until above, and Until > CloseAt. Zero if none is known
	Share       *Share // nil if none. Copies of a decision share it: do not change it
	Partition   int32  // of the decisions topic; the owner of requests[p] writes only decisions[p]
	Epoch       uint64
	Seq         uint64 // per partition and epoch, rising
	Evidence    Evidence
}

// ClosedAt reports whether the decision closes its caller at now, in Unix nanoseconds.
func (d *Decision) ClosedAt(now int64) bool { return d.CloseAt <= now && now < d.Until }

// Evidence says why a decision was taken: enough to explain it, and to fill in RateLimit fields.
type Evidence struct {
	Count       int64   // weight in the window when the decision was taken
	Limit       int64   // the limit that applied to this caller
	Window      int64   // length of the window in nanoseconds
	WindowStart int64   // Unix nanoseconds
	Rate        float64 // the caller's demand, weight per second; 0 where not measured
	AsOfOffset  int64   // of the requests partition: the record whose entry decided
	AsOfTime    int64   // Unix nanoseconds: that entry's time
	Lag         int64   // the analyzer's measured lag then, in nanoseconds
	Expected    float64 // overshoot to expect, as a share of the limit: 0.01 is 1 %
	Bound       float64 // overshoot that at most one close in 200 exceeds while demand holds, as a share of the limit
	Held        int64   // what requests in flight are expected to cost, in units of weight; 0 where the rule holds nothing
	InFlight    int64   // how many they are
	Margin      int64   // weight that stays free for what is not known of them
	Learned     int64   // from how many responses their cost was learned
}

// Claim is an owner's announcement that it takes over a partition of the decisions topic under an epoch. Of equal
// epochs the first in the log wins. Only claims and heartbeats raise the epoch that readers accept, and only to an epoch
// that CheckEpoch allows.
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
	LogTime   int64  // Unix nanoseconds: newest time folded; math.MinInt64 if there was none
	Lag       int64  // nanoseconds from a request to its decision published, as measured by the owner
	From      int64  // offset in decisions[p] where the last complete repeat cycle began
	State     int64  // 1 + the offset in state[p] where the last complete snapshot began; 0 is none
	RulesID   uint64 // of the rules that count, …
	RulesFrom int64  // … since this offset of requests[p]
	API       string // host:port at which the owner's API answers; empty is none
	Control   int64  // next offset of the control topic to apply: what follows from earlier records precedes this heartbeat
	End       int64  // end of requests[p] when the owner last read from it; what waits is from Watermark until End
	Frames    uint32 // the highest version of frames that an owner of the partition was able to read; 0: none has said
	Events    int64  // events of the messages of requests[p] before this offset are in the topic of events; 0: none are known to be
}
