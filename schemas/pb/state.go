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
)

// maxStateParts is the most begins of one cycle.
const maxStateParts = 1 << 16

// AppendState appends a record of the state topic to dst. It returns dst as it was, and an error, where DecodeState would
// refuse the record. Any goroutine may call it.
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

// DecodeState reads a record of the state topic. It shares no memory with b. Exactly one of its one-of is set, no offset
// is negative, and all ids are whole; whether epoch, cycle and order make sense is the reader's to judge.
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
		if m.Row.GetNext() < 0 || len(m.Row.GetKey()) == 0 {
			return fmt.Errorf("%w: got a row of key %q as of %d", ErrBounds, m.Row.GetKey(), m.Row.GetNext())
		}
	case *StateRecord_End:
		if m.End.GetRows() < 0 || m.End.GetFrom() < 0 {
			return fmt.Errorf("%w: got an end of %d rows from %d", ErrBounds, m.End.GetRows(), m.End.GetFrom())
		}
	case *StateRecord_Rules:
		if m.Rules.GetFrom() < 0 || len(m.Rules.GetText()) > MaxStateRules {
			return fmt.Errorf("%w: got rules of %d bytes from %d", ErrBounds, len(m.Rules.GetText()), m.Rules.GetFrom())
		}
	default:
		return ErrUnknown
	}
	return nil
}

func validateBegin(b *StateBegin) error {
	switch {
	case b.GetOffset() < 0 || b.GetRulesFrom() < 0 || b.GetTailOffset() < 0:
		return fmt.Errorf("%w: got a begin at %d, rules from %d, tail %d", ErrBounds, b.GetOffset(), b.GetRulesFrom(), b.GetTailOffset())
	case b.GetParts() < 1 || b.GetParts() > maxStateParts || b.GetPart() >= b.GetParts():
		return fmt.Errorf("%w: got part %d of %d", ErrBounds, b.GetPart(), b.GetParts())
	}
	for _, d := range b.GetDedupe() {
		if len(d.GetProducer()) != len(schemas.ProducerID{}) {
			return fmt.Errorf("%w: got a sender's id of %d bytes", ErrBounds, len(d.GetProducer()))
		}
		if d.GetSeen() == nil {
			return fmt.Errorf("%w: got a sender of which nothing was seen", ErrMalformed)
		}
	}
	return nil
}
