package pb

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/schemas"
)

// Bounds on records of the state topic, in bytes. Several rows may share a produce; the topic takes 1 MiB at once.
const (
	MaxState      = 1 << 20
	MaxStateRules = 512 << 10 // text of rules
	maxSince      = 32        // bytes of the name of a release
)

// maxStateParts is how many begins one cycle has at most.
const maxStateParts = 1 << 16

// AppendState appends a record of the state topic to dst. If DecodeState would refuse the record, it returns dst as it was, and
// an error. Any goroutine may call it.
func AppendState(dst []byte, r *StateRecord) ([]byte, error) {
	if err := validateState(r); err != nil {
		return dst, err
	}
	if n := proto.Size(r); n > MaxState {
		return dst, fmt.Errorf("%w: got %d bytes, want at most %d", ErrBounds, n, MaxState)
	}
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.MarshalAppend(dst, r)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return b, nil
}

// DecodeState decodes a record of the state topic. The result shares no memory with b. Exactly one member of its one-of is
// set, no offset is negative, and each producer's id has 16 bytes. The caller has to judge epoch, cycle and order.
func DecodeState(b []byte) (*StateRecord, error) {
	if len(b) > MaxState {
		return nil, fmt.Errorf("%w: got %d bytes, want at most %d", ErrBounds, len(b), MaxState)
	}
	r := new(StateRecord)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := validateState(r); err != nil {
		return nil, err
	}
	return r, nil
}

func validateState(r *StateRecord) error {
	switch m := r.GetRecord().(type) {
	case *StateRecord_Begin:
		return validateBegin(m.Begin)
	case *StateRecord_Row:
		if m.Row.GetNext() < 0 || m.Row.GetPlaced() < 0 || len(m.Row.GetKey()) == 0 {
			return fmt.Errorf("%w: got a row of key %q as of %d, place %d", ErrBounds, m.Row.GetKey(), m.Row.GetNext(), m.Row.GetPlaced())
		}
	case *StateRecord_End:
		if m.End.GetRows() < 0 || m.End.GetFrom() < 0 || m.End.GetTailOffset() < 0 {
			return fmt.Errorf("%w: got an end of %d rows from %d, tail %d", ErrBounds, m.End.GetRows(), m.End.GetFrom(), m.End.GetTailOffset())
		}
	default:
		return ErrUnknown
	}
	return nil
}

func validateBegin(b *StateBegin) error {
	switch {
	case b.GetOffset() < 0 || b.GetRulesFrom() < 0 || b.GetTailOffset() < 0 || b.GetPlaced() < 0 || len(b.GetRules()) > MaxStateRules || len(b.GetSince()) > maxSince:
		return fmt.Errorf("%w: got a begin at %d, rules from %d of %d bytes, tail %d, place %d, a release of %d bytes", ErrBounds,
			b.GetOffset(), b.GetRulesFrom(), len(b.GetRules()), b.GetTailOffset(), b.GetPlaced(), len(b.GetSince()))
	case b.GetParts() < 1 || b.GetParts() > maxStateParts || b.GetPart() >= b.GetParts():
		return fmt.Errorf("%w: got part %d of %d", ErrBounds, b.GetPart(), b.GetParts())
	}
	for _, d := range b.GetDedupe() {
		if len(d.GetProducer()) != len(schemas.ProducerID{}) {
			return fmt.Errorf("%w: got a producer's id of %d bytes, want %d", ErrBounds, len(d.GetProducer()), len(schemas.ProducerID{}))
		}
		if d.GetSeen() == nil {
			return fmt.Errorf("%w: got producer %x without the frames or lines that were counted", ErrMalformed, d.GetProducer())
		}
	}
	return nil
}
