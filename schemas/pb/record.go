package pb

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/schemas"
)

// Bounds on records of the decisions topic, in bytes.
const (
	MaxRecord = 4096
	MaxRule   = 256 // name of a rule
	MaxOwner  = 256 // owner in a claim
	MaxAPI    = 256 // address in a heartbeat
)

// Errors of Decode and of the Append functions. Test with errors.Is; Reason turns them into metric labels.
var (
	ErrMalformed = errors.New("malformed record")
	ErrUnknown   = errors.New("unknown kind of record") // a later version's: skip it
	ErrBounds    = errors.New("record exceeds a bound")
	ErrMode      = errors.New("unknown mode")
)

// Record is one message of the decisions topic. Decode sets exactly one field.
type Record struct {
	Decision  *schemas.Decision
	Claim     *schemas.Claim
	Heartbeat *schemas.Heartbeat
}

// Partition returns the partition that the record says it is of.
func (r *Record) Partition() int32 {
	switch {
	case r.Decision != nil:
		return r.Decision.Partition
	case r.Claim != nil:
		return r.Claim.Partition
	case r.Heartbeat != nil:
		return r.Heartbeat.Partition
	}
	return -1
}

// Epoch returns the epoch of the record's owner.
func (r *Record) Epoch() uint64 {
	switch {
	case r.Decision != nil:
		return r.Decision.Epoch
	case r.Claim != nil:
		return r.Claim.Epoch
	case r.Heartbeat != nil:
		return r.Heartbeat.Epoch
	}
	return 0
}

// Seq returns the record's sequence number in its epoch. A claim has none, which is 0.
func (r *Record) Seq() uint64 {
	switch {
	case r.Decision != nil:
		return r.Decision.Seq
	case r.Heartbeat != nil:
		return r.Heartbeat.Seq
	}
	return 0
}

// AppendDecision appends the record of a decision to dst. It clamps closures and cleans evidence as Decode does. If Decode would
// refuse the record, it returns dst as it was, and an error. Any goroutine may call it.
func AppendDecision(dst []byte, d *schemas.Decision) ([]byte, error) {
	if err := validateDecision(d); err != nil {
		return dst, err
	}
	return appendRecord(dst, &DecisionsRecord{Record: &DecisionsRecord_Decision{Decision: &Decision{
		Rule: d.Rule, RuleVersion: d.RuleVersion, Kind: []byte(d.Caller.Kind), Id: []byte(d.Caller.ID),
		Mode: Mode(d.Mode), CloseAt: d.CloseAt, Until: clampUntil(d.CloseAt, d.Until),
		Partition: d.Partition, Epoch: d.Epoch, Seq: d.Seq,
		Evidence: &Evidence{
			Count: d.Evidence.Count, Limit: d.Evidence.Limit, Window: d.Evidence.Window,
			WindowStart: d.Evidence.WindowStart, Rate: cleanRate(d.Evidence.Rate),
			AsOfOffset: d.Evidence.AsOfOffset, AsOfTime: d.Evidence.AsOfTime, Lag: d.Evidence.Lag,
			Expected: cleanRate(d.Evidence.Expected), Bound: cleanRate(d.Evidence.Bound),
			Held: d.Evidence.Held, InFlight: d.Evidence.InFlight, Margin: d.Evidence.Margin, Learned: d.Evidence.Learned,
		},
		Early: d.Early, Held: d.Held, Next: spanMessage(d.Next), Share: shareMessage(d.Share),
	}}})
}

// spanMessage returns nil for the zero span, so that one decision has one encoding.
func spanMessage(s schemas.Span) *Span {
	if s == (schemas.Span{}) {
		return nil
	}
	return &Span{CloseAt: s.CloseAt, Until: clampUntil(s.CloseAt, s.Until), Early: s.Early}
}

func shareMessage(s *schemas.Share) *Share {
	if s == nil {
		return nil
	}
	return &Share{
		From: s.From, Until: s.Until, Period: s.Period, Permits: s.Permits,
		DemandFrom: s.DemandFrom, DemandUntil: s.DemandUntil, Demand: s.Demand,
	}
}

// AppendClaim appends the record of a claim to dst, as AppendDecision does.
func AppendClaim(dst []byte, c *schemas.Claim) ([]byte, error) {
	if err := validateClaim(c); err != nil {
		return dst, err
	}
	return appendRecord(dst, &DecisionsRecord{Record: &DecisionsRecord_Claim{Claim: &Claim{
		Partition: c.Partition, Epoch: c.Epoch, Nonce: c.Nonce, Owner: c.Owner,
	}}})
}

// AppendHeartbeat appends the record of a heartbeat to dst, as AppendDecision does.
func AppendHeartbeat(dst []byte, h *schemas.Heartbeat) ([]byte, error) {
	if err := validateHeartbeat(h); err != nil {
		return dst, err
	}
	return appendRecord(dst, &DecisionsRecord{Record: &DecisionsRecord_Heartbeat{Heartbeat: &Heartbeat{
		Partition: h.Partition, Epoch: h.Epoch, Seq: h.Seq, Time: h.Time,
		Watermark: h.Watermark, LogTime: h.LogTime, Lag: h.Lag, From: h.From, State: h.State,
		RulesId: h.RulesID, RulesFrom: h.RulesFrom, Api: h.API, Control: h.Control, Events: h.Events, End: h.End, Frames: h.Frames,
	}}})
}

func appendRecord(dst []byte, r *DecisionsRecord) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, r)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrMalformed, err) // a string that is not UTF-8
	}
	return b, nil
}

// Decode decodes a record of the decisions topic, and checks its bounds. The result shares no memory with b. A closure longer
// than schemas.MaxClosure is cut to it, and evidence that is negative, infinite or no number where it must be a number from 0 on
// becomes 0. A decision whose Next does not come after its first closure, or whose Share breaks a bound, is refused whole. The
// caller has to judge all other numbers, above all partition, epoch and sequence number.
func Decode(b []byte) (Record, error) {
	if len(b) > MaxRecord {
		return Record{}, fmt.Errorf("%w: got %d bytes, want at most %d", ErrBounds, len(b), MaxRecord)
	}
	var r DecisionsRecord
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	var out Record
	var err error
	switch m := r.GetRecord().(type) {
	case *DecisionsRecord_Decision:
		out.Decision, err = readDecision(m.Decision)
	case *DecisionsRecord_Claim:
		out.Claim, err = readClaim(m.Claim)
	case *DecisionsRecord_Heartbeat:
		out.Heartbeat, err = readHeartbeat(m.Heartbeat)
	default:
		err = ErrUnknown
	}
	if err != nil {
		return Record{}, err
	}
	return out, nil
}

func readDecision(m *Decision) (*schemas.Decision, error) {
	if m.GetMode() < 0 || m.GetMode() > math.MaxUint8 {
		return nil, fmt.Errorf("%w: got %d", ErrMode, m.GetMode())
	}
	e := m.GetEvidence()
	d := &schemas.Decision{
		Rule: m.GetRule(), RuleVersion: m.GetRuleVersion(),
		Caller: schemas.Caller{Kind: string(m.GetKind()), ID: string(m.GetId())},
		Mode:   schemas.Mode(m.GetMode()), CloseAt: m.GetCloseAt(), Until: m.GetUntil(), Early: m.GetEarly(), Held: m.GetHeld(),
		Next:      schemas.Span{CloseAt: m.GetNext().GetCloseAt(), Until: m.GetNext().GetUntil(), Early: m.GetNext().GetEarly()},
		Share:     readShare(m.GetShare()),
		Partition: m.GetPartition(), Epoch: m.GetEpoch(), Seq: m.GetSeq(),
		Evidence: schemas.Evidence{
			Count: e.GetCount(), Limit: e.GetLimit(), Window: e.GetWindow(),
			WindowStart: e.GetWindowStart(), Rate: cleanRate(e.GetRate()),
			AsOfOffset: e.GetAsOfOffset(), AsOfTime: e.GetAsOfTime(), Lag: e.GetLag(),
			Expected: cleanRate(e.GetExpected()), Bound: cleanRate(e.GetBound()),
			Held: e.GetHeld(), InFlight: e.GetInFlight(), Margin: e.GetMargin(), Learned: e.GetLearned(),
		},
	}
	if err := validateDecision(d); err != nil {
		return nil, err
	}
	d.Until, d.Next.Until = clampUntil(d.CloseAt, d.Until), clampUntil(d.Next.CloseAt, d.Next.Until)
	return d, nil
}

func readShare(m *Share) *schemas.Share {
	if m == nil {
		return nil
	}
	return &schemas.Share{
		From: m.GetFrom(), Until: m.GetUntil(), Period: m.GetPeriod(), Permits: m.GetPermits(),
		DemandFrom: m.GetDemandFrom(), DemandUntil: m.GetDemandUntil(), Demand: m.GetDemand(),
	}
}

func readClaim(m *Claim) (*schemas.Claim, error) {
	c := &schemas.Claim{Partition: m.GetPartition(), Epoch: m.GetEpoch(), Nonce: m.GetNonce(), Owner: m.GetOwner()}
	return c, validateClaim(c)
}

func readHeartbeat(m *Heartbeat) (*schemas.Heartbeat, error) {
	h := &schemas.Heartbeat{
		Partition: m.GetPartition(), Epoch: m.GetEpoch(), Seq: m.GetSeq(), Time: m.GetTime(),
		Watermark: m.GetWatermark(), LogTime: m.GetLogTime(), Lag: m.GetLag(), From: m.GetFrom(), State: m.GetState(),
		RulesID: m.GetRulesId(), RulesFrom: m.GetRulesFrom(), API: m.GetApi(), Control: m.GetControl(), Events: m.GetEvents(), End: m.GetEnd(), Frames: m.GetFrames(),
	}
	return h, validateHeartbeat(h)
}
