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
)

// Errors of Decode and of the Append functions. Test with errors.Is; Reason turns them into metric labels.
var (
	ErrMalformed = errors.New("malformed record")
	ErrUnknown   = errors.New("unknown kind of record") // a later version's: skip it
	ErrBounds    = errors.New("record exceeds a bound")
	ErrMode      = errors.New("unknown mode")
)

// Record is one message of the decisions topic. Exactly one field is set.
type Record struct {
	Decision  *schemas.Decision
	Claim     *schemas.Claim
	Heartbeat *schemas.Heartbeat
}

// AppendDecision appends the record of a decision to dst. It returns dst as it was, and an error, where Decode would
// refuse the record, and clamps until as Decode does. Any goroutine may call it.
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
		},
	}}})
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
	if err := validatePartition(h.Partition); err != nil {
		return dst, err
	}
	return appendRecord(dst, &DecisionsRecord{Record: &DecisionsRecord_Heartbeat{Heartbeat: &Heartbeat{
		Partition: h.Partition, Epoch: h.Epoch, Seq: h.Seq, Time: h.Time,
		Watermark: h.Watermark, LogTime: h.LogTime, Lag: h.Lag, From: h.From, State: h.State,
		RulesId: h.RulesID, RulesFrom: h.RulesFrom,
	}}})
}

func appendRecord(dst []byte, r *DecisionsRecord) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, r)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrMalformed, err) // a string that is not UTF-8
	}
	return b, nil
}

// Decode reads a record of the decisions topic. It shares no memory with b. Bounds are checked; a closure longer than
// schemas.MaxClosure is cut to it, and a rate that is no rate becomes 0. Any other odd number is the reader's to judge:
// partition, epoch and sequence number most of all.
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
		Mode:   schemas.Mode(m.GetMode()), CloseAt: m.GetCloseAt(), Until: clampUntil(m.GetCloseAt(), m.GetUntil()),
		Partition: m.GetPartition(), Epoch: m.GetEpoch(), Seq: m.GetSeq(),
		Evidence: schemas.Evidence{
			Count: e.GetCount(), Limit: e.GetLimit(), Window: e.GetWindow(),
			WindowStart: e.GetWindowStart(), Rate: cleanRate(e.GetRate()),
			AsOfOffset: e.GetAsOfOffset(), AsOfTime: e.GetAsOfTime(), Lag: e.GetLag(),
		},
	}
	return d, validateDecision(d)
}

func readClaim(m *Claim) (*schemas.Claim, error) {
	c := &schemas.Claim{Partition: m.GetPartition(), Epoch: m.GetEpoch(), Nonce: m.GetNonce(), Owner: m.GetOwner()}
	return c, validateClaim(c)
}

func readHeartbeat(m *Heartbeat) (*schemas.Heartbeat, error) {
	h := &schemas.Heartbeat{
		Partition: m.GetPartition(), Epoch: m.GetEpoch(), Seq: m.GetSeq(), Time: m.GetTime(),
		Watermark: m.GetWatermark(), LogTime: m.GetLogTime(), Lag: m.GetLag(), From: m.GetFrom(), State: m.GetState(),
		RulesID: m.GetRulesId(), RulesFrom: m.GetRulesFrom(),
	}
	return h, validatePartition(h.Partition)
}
