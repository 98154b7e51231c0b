package event

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/509da70d/floodgate/schemas"
)

// noon is when the events of these tests happen.
func noon(after time.Duration) time.Time {
	return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).Add(after)
}

// samples has one event of each type.
func samples() map[Type]Event {
	closure := Event{
		Type: Closed, Time: noon(0), Partition: 3, Offset: 4711, Caller: CallerOf(schemas.Caller{Kind: "ip", ID: "203.0.113.9"}),
		Rule: "per-ip", Mode: "enforce", CloseAt: noon(0), Until: noon(time.Minute), Count: 100, Limit: 100, Nth: 1,
	}
	extended, opened, ended := closure, closure, closure
	extended.Type, extended.Until = Extended, noon(2*time.Minute)
	opened.Type, opened.Until = Opened, closure.CloseAt
	ended.Type, ended.Time = Ended, noon(time.Minute)
	all := map[Type]Event{
		Closed: closure, Extended: extended, Opened: opened, Ended: ended,
		Warned: {
			Type: Warned, Time: noon(0), Offset: 12, Caller: CallerOf(schemas.Caller{Kind: "key", ID: "\xff\x00"}), Rule: "per-key", Mode: "shadow",
			Count: 80, Limit: 100, Share: 0.8,
		},
		Control: {
			Type: Control, Time: noon(0), Offset: 13, Caller: CallerOf(schemas.Caller{Kind: "key", ID: "alice"}), Action: "limit", Author: "bob",
			Reason: "a customer called", Record: strings.Repeat("0f", 16), Rule: "per-key", Limit: 1000, Until: noon(time.Hour),
		},
		RulesChanged: {Type: RulesChanged, Time: noon(0), Offset: 14, RulesFrom: "00000000000000aa", RulesTo: "00000000000000bb"},
		Gap:          {Type: Gap, Time: noon(0), Offset: 20, From: 15, To: 20, Lost: 7},
	}
	for of, e := range all {
		e.Identify()
		all[of] = e
	}
	return all
}

// TestASampleOfEachTypeIsWhatTheSchemaSays: other languages rely on the schema. What is written fits it, and each field is in it.
func TestASampleOfEachTypeIsWhatTheSchemaSays(t *testing.T) {
	t.Parallel()
	const file = "../events.schema.json"
	schema, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := samples()
	if got, want := len(all), len(Types()); got != want {
		t.Fatalf("got samples of %d types, want %d", got, want)
	}
	for _, of := range Types() {
		e := all[of]
		value := e.Encode()
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(instance); err != nil {
			t.Errorf("%s: %s: %v", of, value, err)
		}
		fields := instance.(map[string]any)
		for name := range fields {
			if schema.Properties[name] == nil {
				t.Errorf("%s: got the field %s, want one that the schema has", of, name)
			}
		}
		for _, field := range []string{"id", "time", "caller", "rule", "mode", "close_at", "record", "rules_to", "to"} {
			if _, has := fields[field]; !has {
				continue
			}
			fields[field] = 7.5
			if err := schema.Validate(instance); err == nil {
				t.Errorf("%s: got no error with %s 7.5, want one", of, field)
			}
			delete(fields, field)
			if err := schema.Validate(instance); err == nil && (of != Control || field != "caller" && field != "rule") {
				t.Errorf("%s: got no error without %s, want one", of, field)
			}
			again, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			instance, fields = again, again.(map[string]any)
		}
	}
}

// TestTheSchemaHasNoOtherFields: a field of the schema that no Event has is a promise that nobody keeps.
func TestTheSchemaHasNoOtherFields(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.NewCompiler().Compile("../events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	fields := make(map[string]bool)
	for field := range reflect.TypeFor[Event]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = true
	}
	for name := range schema.Properties {
		if !fields[name] {
			t.Errorf("got %s in the schema, want a field of Event", name)
		}
	}
	var kinds []string
	for _, example := range schema.Properties["type"].Examples {
		kinds = append(kinds, example.(string))
	}
	for i, of := range Types() {
		if i >= len(kinds) || kinds[i] != string(of) {
			t.Errorf("got the types %v in the schema, want %v", kinds, Types())
			break
		}
	}
}

// TestEventsComeBack: what was encoded decodes to the same.
func TestEventsComeBack(t *testing.T) {
	t.Parallel()
	for of, e := range samples() {
		value := e.Encode()
		got, err := Decode(value)
		if err != nil {
			t.Fatalf("%s: %s: %v", of, value, err)
		}
		got.Caller, e.Caller = CallerOf(got.Caller.Caller()), CallerOf(e.Caller.Caller()) // where the id is not UTF-8, its text differs
		if !reflect.DeepEqual(got, e) {
			t.Errorf("%s: got %+v, want %+v", of, got, e)
		}
		if !got.Known() {
			t.Errorf("%s: got an unknown type, want a known one", of)
		}
	}
}

// TestTheLongestEventFits: bounds of callers, authors and reasons keep a message within half of MaxBytes.
func TestTheLongestEventFits(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"\x01", "\xff", "<", "a"} {
		e := samples()[Control]
		e.Caller = CallerOf(schemas.Caller{Kind: strings.Repeat("k", schemas.MaxCallerKind), ID: strings.Repeat(b, schemas.MaxCallerID)})
		e.Author, e.Reason = strings.Repeat("<", schemas.MaxAuthor), strings.Repeat("\u2028", schemas.MaxReason/3)
		e.Rule = strings.Repeat("r", 64)
		e.Identify()
		value := e.Encode()
		if len(value) > MaxBytes/2 {
			t.Errorf("%q: got %d bytes, want at most %d", b, len(value), MaxBytes/2)
		}
		if got, err := Decode(value); err != nil || got.Caller.Caller() != e.Caller.Caller() {
			t.Errorf("%q: got %+v, %v, want the same caller", b, got.Caller, err)
		}
	}
}

func TestCallersAsText(t *testing.T) {
	t.Parallel()
	if got := CallerOf(schemas.Caller{Kind: "ip", ID: "192.0.2.1"}).String(); got != "ip:192.0.2.1" {
		t.Errorf("got %s, want ip:192.0.2.1", got)
	}
	b, err := json.Marshal(CallerOf(schemas.Caller{Kind: "key", ID: "\xff"}))
	if err != nil || string(b) != `{"kind":"key","id":"\ufffd","id_base64":"/w=="}` {
		t.Errorf("got %s, %v, want the bytes in base64", b, err)
	}
}
