package override

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// closing is a record that closes a caller.
var closing = schemas.Control{
	ID: schemas.ControlID{1}, Time: 5, Author: "ann", Reason: "scraping", Action: schemas.ControlClose,
	Caller: schemas.Caller{Kind: "key", ID: "x"}, Until: 60,
}

// badValues are rows that no fold writes.
func badValues() map[string][]byte {
	m := &Record{Control: closing, Offset: 7, From: 8, At: 9}
	value := func(change func(m *Record)) []byte {
		other := *m
		change(&other)
		return other.value(other.UndoneBy)
	}
	return map[string][]byte{
		"cut short":         m.value(nil)[:20],
		"another version":   append([]byte{9}, m.value(nil)[1:]...),
		"something behind":  append(m.value(nil), 1),
		"no action":         value(func(m *Record) { m.Action = 0 }),
		"an undo":           value(func(m *Record) { m.Action = schemas.ControlUndo }),
		"a note":            value(func(m *Record) { m.Action = schemas.ControlRules }),
		"a later action":    value(func(m *Record) { m.Action = 200 }),
		"no caller":         value(func(m *Record) { m.Caller = schemas.Caller{} }),
		"a limit of none":   value(func(m *Record) { m.Action, m.Rule = schemas.ControlLimit, "a" }),
		"a limit of nobody": value(func(m *Record) { m.Action, m.Limit = schemas.ControlLimit, 5 }),
		"over at once":      value(func(m *Record) { m.Until = m.Time }),
		"before the topic":  value(func(m *Record) { m.Offset = -1 }),
		"before the log":    value(func(m *Record) { m.From = -1 }),
		"a long reason":     value(func(m *Record) { m.Reason = strings.Repeat("r", maxText+1) }),
		"undone by a close": value(func(m *Record) { m.UndoneBy = &closing }),
		"undone by another": value(func(m *Record) {
			m.UndoneBy = &schemas.Control{Action: schemas.ControlUndo, Target: schemas.ControlID{5}}
		}),
		"a reset undone": value(func(m *Record) {
			m.Action, m.UndoneBy = schemas.ControlReset, &schemas.Control{Action: schemas.ControlUndo, Target: m.ID}
		}),
	}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	undo := closing
	undo.ID, undo.Action, undo.Target = schemas.ControlID{2}, schemas.ControlUndo, closing.ID
	for _, want := range []Record{{Control: closing, Offset: 7, From: 8, At: 9}, {Control: closing, Offset: 7, At: -9, UndoneBy: &undo}} {
		got, err := ReadRecord(want.key(), want.value(want.UndoneBy))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestBadRowsAreRefused(t *testing.T) {
	for name, value := range badValues() {
		if _, err := ReadRecord(Key(closing.ID), value); !errors.Is(err, ErrRow) {
			t.Errorf("%s: got %v, want %v", name, err, ErrRow)
		}
	}
	good := &Record{Control: closing}
	if _, err := ReadRecord(good.key()[:9], good.value(nil)); !errors.Is(err, ErrRow) {
		t.Errorf("half a key: got %v, want %v", err, ErrRow)
	}
}
