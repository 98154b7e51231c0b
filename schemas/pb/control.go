package pb

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/schemas"
)

// MaxControl bounds a record of the control topic, in bytes: a rules file that is noted, and all else.
const MaxControl = schemas.MaxControlText + MaxRecord

// maxControlLimit is the largest limit that a rules file can have.
const maxControlLimit = 1e17

// AppendControl appends a record of the control topic to dst. If DecodeControl would refuse the record, it returns dst as it was,
// and an error. Fields that the record's action does not have are not written. Any goroutine may call it.
func AppendControl(dst []byte, c *schemas.Control) ([]byte, error) {
	if err := validateControl(c); err != nil {
		return dst, err
	}
	m := &ControlRecord{Time: c.Time, Author: c.Author}
	if c.Action < schemas.ControlTake {
		m.Id, m.Reason = c.ID[:], c.Reason
	}
	caller := &ControlCaller{Kind: []byte(c.Caller.Kind), Id: []byte(c.Caller.ID)}
	switch c.Action {
	case schemas.ControlClose:
		m.Action = &ControlRecord_Close{Close: &ControlClose{Caller: caller, Until: c.Until}}
	case schemas.ControlOpen:
		m.Action = &ControlRecord_Open{Open: &ControlOpen{Caller: caller, Rule: c.Rule, Until: c.Until}}
	case schemas.ControlLimit:
		m.Action = &ControlRecord_Limit{Limit: &ControlLimit{Caller: caller, Rule: c.Rule, Limit: c.Limit, Until: c.Until}}
	case schemas.ControlReset:
		m.Action = &ControlRecord_Reset_{Reset_: &ControlReset{Caller: caller, Rule: c.Rule}}
	case schemas.ControlMode:
		m.Action = &ControlRecord_Mode{Mode: &ControlMode{Rule: c.Rule, Mode: Mode_MODE_SHADOW, Until: c.Until}}
	case schemas.ControlUndo:
		m.Action = &ControlRecord_Undo{Undo: &ControlUndo{Target: c.Target[:]}}
	case schemas.ControlRules:
		m.Action = &ControlRecord_Rules{Rules: &ControlRules{RulesId: c.RulesID, Text: c.Text}}
	case schemas.ControlTake:
		m.Action = &ControlRecord_Take{Take: &ControlTake{Topic: c.Topic, Partition: c.Partition, Epoch: c.Epoch}}
	case schemas.ControlPlace:
		m.Action = &ControlRecord_Place{Place: &ControlPlace{
			Topic: c.Topic, Partition: c.Partition, Epoch: c.Epoch, Seq: c.Seq,
			Before: c.Before, UpTo: c.UpTo, RulesId: c.RulesID, RulesAt: c.RulesAt,
		}}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrMalformed, err) // a string that is not UTF-8
	}
	return b, nil
}

// DecodeControl decodes a record of the control topic, and checks its bounds. The result shares no memory with b. The error is
// ErrUnknown for an action that only a later version knows. Whether a rule or a target exists, and whether an id is in the form in
// which callers are counted, is for the caller to judge.
func DecodeControl(b []byte) (schemas.Control, error) {
	if len(b) > MaxControl {
		return schemas.Control{}, fmt.Errorf("%w: got %d bytes, want at most %d", ErrBounds, len(b), MaxControl)
	}
	var m ControlRecord
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &m); err != nil {
		return schemas.Control{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	c := schemas.Control{Time: m.GetTime(), Author: m.GetAuthor()}
	if m.GetTake() == nil && m.GetPlace() == nil {
		c.Reason = m.GetReason()
		if err := readControlID(&c.ID, m.GetId()); err != nil {
			return schemas.Control{}, err
		}
	}
	if err := readAction(&c, &m); err != nil {
		return schemas.Control{}, err
	}
	if err := validateControl(&c); err != nil {
		return schemas.Control{}, err
	}
	return c, nil
}

func readAction(c *schemas.Control, m *ControlRecord) error {
	switch a := m.GetAction().(type) {
	case *ControlRecord_Close:
		c.Action, c.Caller, c.Until = schemas.ControlClose, readCaller(a.Close.GetCaller()), a.Close.GetUntil()
	case *ControlRecord_Open:
		c.Action, c.Caller, c.Rule, c.Until = schemas.ControlOpen, readCaller(a.Open.GetCaller()), a.Open.GetRule(), a.Open.GetUntil()
	case *ControlRecord_Limit:
		c.Action, c.Caller, c.Rule, c.Until = schemas.ControlLimit, readCaller(a.Limit.GetCaller()), a.Limit.GetRule(), a.Limit.GetUntil()
		c.Limit = a.Limit.GetLimit()
	case *ControlRecord_Reset_:
		c.Action, c.Caller, c.Rule = schemas.ControlReset, readCaller(a.Reset_.GetCaller()), a.Reset_.GetRule()
	case *ControlRecord_Mode:
		c.Action, c.Rule, c.Until = schemas.ControlMode, a.Mode.GetRule(), a.Mode.GetUntil()
		if mode := a.Mode.GetMode(); mode != Mode_MODE_SHADOW {
			return fmt.Errorf("%w: got %d, want shadow", ErrMode, mode)
		}
	case *ControlRecord_Undo:
		c.Action = schemas.ControlUndo
		return readControlID(&c.Target, a.Undo.GetTarget())
	case *ControlRecord_Rules:
		c.Action, c.RulesID = schemas.ControlRules, a.Rules.GetRulesId()
		if text := a.Rules.GetText(); len(text) > 0 {
			c.Text = text
		}
	case *ControlRecord_Take:
		c.Action, c.Topic, c.Partition, c.Epoch = schemas.ControlTake, a.Take.GetTopic(), a.Take.GetPartition(), a.Take.GetEpoch()
	case *ControlRecord_Place:
		c.Action, c.Topic, c.Partition, c.Epoch = schemas.ControlPlace, a.Place.GetTopic(), a.Place.GetPartition(), a.Place.GetEpoch()
		c.Seq, c.Before, c.UpTo = a.Place.GetSeq(), a.Place.GetBefore(), a.Place.GetUpTo()
		c.RulesID, c.RulesAt = a.Place.GetRulesId(), a.Place.GetRulesAt()
	default:
		return ErrUnknown
	}
	return nil
}

func readCaller(m *ControlCaller) schemas.Caller {
	return schemas.Caller{Kind: string(m.GetKind()), ID: string(m.GetId())}
}

func readControlID(id *schemas.ControlID, b []byte) error {
	if len(b) != len(id) {
		return fmt.Errorf("%w: got an id of %d bytes, want %d", ErrBounds, len(b), len(id))
	}
	copy(id[:], b)
	return nil
}

// validateControl judges what all records have, and then what the action has.
func validateControl(c *schemas.Control) error {
	switch {
	case len(c.Author) == 0 || len(c.Author) > schemas.MaxAuthor:
		return fmt.Errorf("%w: got an author of %d bytes, want 1 to %d", ErrBounds, len(c.Author), schemas.MaxAuthor)
	case c.Action == schemas.ControlTake, c.Action == schemas.ControlPlace:
		return validateOrder(c)
	case c.ID == schemas.ControlID{}:
		return fmt.Errorf("%w: got an id of zeros, want a random one", ErrBounds)
	case len(c.Reason) == 0 || len(c.Reason) > schemas.MaxReason:
		return fmt.Errorf("%w: got a reason of %d bytes, want 1 to %d", ErrBounds, len(c.Reason), schemas.MaxReason)
	}
	switch c.Action {
	case schemas.ControlClose, schemas.ControlOpen, schemas.ControlLimit:
		if err := validateUntil(c); err != nil {
			return err
		}
		return validateAboutCaller(c)
	case schemas.ControlReset:
		return validateAboutCaller(c)
	case schemas.ControlMode:
		if err := validateUntil(c); err != nil {
			return err
		}
		return validateControlRule(c.Rule)
	case schemas.ControlUndo:
		if c.Target == (schemas.ControlID{}) {
			return fmt.Errorf("%w: got a target of zeros, want the id of a record", ErrBounds)
		}
		return nil
	case schemas.ControlRules:
		if len(c.Text) > schemas.MaxControlText {
			return fmt.Errorf("%w: got rules of %d bytes, want at most %d", ErrBounds, len(c.Text), schemas.MaxControlText)
		}
		return nil
	}
	return fmt.Errorf("%w: got action %d", ErrUnknown, c.Action)
}

// validateOrder judges a take or a place.
func validateOrder(c *schemas.Control) error {
	switch {
	case len(c.Topic) == 0 || len(c.Topic) > schemas.MaxTopicName:
		return fmt.Errorf("%w: got a topic of %d bytes, want 1 to %d", ErrBounds, len(c.Topic), schemas.MaxTopicName)
	case c.Partition < 0 || c.Epoch == 0:
		return fmt.Errorf("%w: got partition %d and epoch %d", ErrBounds, c.Partition, c.Epoch)
	case c.Action == schemas.ControlPlace && (c.Seq == 0 || c.Before < 0 || c.UpTo < 0 || c.RulesAt < 0):
		return fmt.Errorf("%w: got place %d before %d, control up to %d, rules at %d", ErrBounds, c.Seq, c.Before, c.UpTo, c.RulesAt)
	}
	return nil
}

func validateUntil(c *schemas.Control) error {
	if !bounded(c.Time, c.Until) {
		return fmt.Errorf("%w: got until %d in a record of %d, want it more than 0 ns and at most %d later",
			ErrBounds, c.Until, c.Time, int64(schemas.MaxClosure))
	}
	return nil
}

func validateAboutCaller(c *schemas.Control) error {
	if schemas.ReservedKind(c.Caller.Kind) {
		return fmt.Errorf("%w: got %q, which is counted nowhere", schemas.ErrCallerKind, c.Caller.Kind)
	}
	if c.Action == schemas.ControlLimit && (c.Rule == "" || c.Limit < 1 || c.Limit > maxControlLimit) {
		return fmt.Errorf("%w: got limit %d for rule %q, want 1 to %d for a rule", ErrBounds, c.Limit, c.Rule, int64(maxControlLimit))
	}
	if err := validateControlRule(c.Rule); err != nil {
		return err
	}
	return c.Caller.Validate()
}

func validateControlRule(rule string) error {
	if len(rule) > MaxRule {
		return fmt.Errorf("%w: got a rule's name of %d bytes, want at most %d", ErrBounds, len(rule), MaxRule)
	}
	return nil
}
