package pb

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

const controlTime = 1_700_000_000_000_000_000

// newControl returns a record that closes a caller for an hour, with changes.
func newControl(change func(c *schemas.Control)) *schemas.Control {
	c := &schemas.Control{
		ID: schemas.ControlID{0: 0xc1, 15: 1}, Time: controlTime, Author: "ann", Reason: "ticket 4711", Action: schemas.ControlClose,
		Caller: schemas.Caller{Kind: "key", ID: "noisy-1"}, Until: controlTime + int64(time.Hour),
	}
	if change != nil {
		change(c)
	}
	return c
}

// actionOf returns a change into a record of another action, without what that action has not.
func actionOf(a schemas.ControlAction, then func(c *schemas.Control)) func(c *schemas.Control) {
	return func(c *schemas.Control) {
		c.Action = a
		if a == schemas.ControlReset || a >= schemas.ControlUndo {
			c.Until = 0
		}
		if a >= schemas.ControlMode {
			c.Caller = schemas.Caller{}
		}
		if a >= schemas.ControlTake {
			c.ID, c.Reason, c.Topic, c.Partition, c.Epoch = schemas.ControlID{}, "", "floodgate.requests", 3, 1_700_000_000_000
		}
		if a == schemas.ControlPlace {
			c.Seq, c.Before, c.UpTo, c.RulesID, c.RulesAt = 5, 4711, 812, 1<<64-1, 7
		}
		if then != nil {
			then(c)
		}
	}
}

// controls is one record of each action, and the extremes of them.
func controls() map[string]*schemas.Control {
	rule := func(c *schemas.Control) { c.Rule = "per-key" }
	list := map[string]func(c *schemas.Control){
		"close":     nil,
		"open":      actionOf(schemas.ControlOpen, rule),
		"open_all":  actionOf(schemas.ControlOpen, nil),
		"limit":     actionOf(schemas.ControlLimit, func(c *schemas.Control) { c.Rule, c.Limit = "per-key", 500 }),
		"reset":     actionOf(schemas.ControlReset, rule),
		"reset_all": actionOf(schemas.ControlReset, nil),
		"mode":      actionOf(schemas.ControlMode, rule),
		"mode_all":  actionOf(schemas.ControlMode, nil),
		"undo":      actionOf(schemas.ControlUndo, func(c *schemas.Control) { c.Target = schemas.ControlID{3: 9} }),
		"rules":     actionOf(schemas.ControlRules, func(c *schemas.Control) { c.RulesID, c.Text = 1<<64-1, []byte("version: 1\n") }),
		"rules_too_long": actionOf(schemas.ControlRules, func(c *schemas.Control) {
			c.RulesID = 1
		}),
		"take":        actionOf(schemas.ControlTake, nil),
		"first_place": actionOf(schemas.ControlPlace, func(c *schemas.Control) { c.Partition, c.Seq, c.Before, c.UpTo, c.RulesAt = 0, 1, 0, 0, 0 }),
		"place":       actionOf(schemas.ControlPlace, nil),
		"last_place": actionOf(schemas.ControlPlace, func(c *schemas.Control) {
			c.Topic, c.Partition, c.Epoch, c.Seq = strings.Repeat("t", schemas.MaxTopicName), math.MaxInt32, math.MaxUint64, math.MaxUint64
			c.Before, c.UpTo, c.RulesAt = math.MaxInt64, math.MaxInt64, math.MaxInt64
		}),
		"any_bytes":  func(c *schemas.Control) { c.Caller.ID = "\x00\xff/%2f..\n\x1b[2J" },
		"a_year":     func(c *schemas.Control) { c.Until = c.Time + int64(schemas.MaxClosure) },
		"one_moment": func(c *schemas.Control) { c.Time, c.Until = -1<<63, -1<<63+1 },
		"longest": actionOf(schemas.ControlLimit, func(c *schemas.Control) {
			c.Author, c.Reason = strings.Repeat("a", schemas.MaxAuthor), strings.Repeat("é", schemas.MaxReason/2)
			c.Caller = schemas.Caller{Kind: strings.Repeat("k", schemas.MaxCallerKind), ID: strings.Repeat("\xff", schemas.MaxCallerID)}
			c.Rule, c.Limit = strings.Repeat("r", MaxRule), maxControlLimit
		}),
	}
	records := make(map[string]*schemas.Control)
	for name, change := range list {
		records[name] = newControl(change)
	}
	return records
}

func mustControl(t testing.TB, c *schemas.Control) []byte {
	t.Helper()
	b, err := AppendControl(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestControlRecordsRoundTrip(t *testing.T) {
	for name, want := range controls() {
		t.Run(name, func(t *testing.T) {
			b, err := AppendControl([]byte("before"), want)
			if err != nil || string(b[:6]) != "before" {
				t.Fatalf("got %q and %v", b, err)
			}
			got, err := DecodeControl(b[6:])
			if err != nil || !reflect.DeepEqual(&got, want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, *want)
			}
			for n := range len(b) - 6 {
				if got, err := DecodeControl(b[6 : 6+n]); err == nil {
					t.Errorf("first %d of %d bytes: got %+v, want an error", n, len(b)-6, got)
				}
			}
		})
	}
	note := newControl(actionOf(schemas.ControlRules, func(c *schemas.Control) { c.Text = bytes.Repeat([]byte("#"), schemas.MaxControlText) }))
	if got, err := DecodeControl(mustControl(t, note)); err != nil || len(got.Text) != schemas.MaxControlText {
		t.Errorf("the longest note: got %d bytes, %v", len(got.Text), err)
	}
}

// controlRejects are records that must be refused, however they are written, by reason and name.
func controlRejects() map[string]*schemas.Control {
	limit := func(c *schemas.Control) { c.Action, c.Rule, c.Limit = schemas.ControlLimit, "per-key", 5 }
	list := map[string]func(c *schemas.Control){
		"bounds no id":                func(c *schemas.Control) { c.ID = schemas.ControlID{} },
		"bounds no author":            func(c *schemas.Control) { c.Author = "" },
		"bounds long author":          func(c *schemas.Control) { c.Author = strings.Repeat("a", schemas.MaxAuthor+1) },
		"bounds no reason":            func(c *schemas.Control) { c.Reason = "" },
		"bounds long reason":          func(c *schemas.Control) { c.Reason = strings.Repeat("r", schemas.MaxReason+1) },
		"malformed reason":            func(c *schemas.Control) { c.Reason = "\xff" },
		"bounds no until":             func(c *schemas.Control) { c.Until = 0 },
		"bounds until now":            func(c *schemas.Control) { c.Until = c.Time },
		"bounds more than a year":     func(c *schemas.Control) { c.Until = c.Time + int64(schemas.MaxClosure) + 1 },
		"bounds until overflows":      func(c *schemas.Control) { c.Time, c.Until = -1<<63, 1<<63-1 },
		"bounds mode for ever":        actionOf(schemas.ControlMode, func(c *schemas.Control) { c.Until = 1<<63 - 1 }),
		"caller_kind none":            func(c *schemas.Control) { c.Caller.Kind = "" },
		"caller_kind letters":         func(c *schemas.Control) { c.Caller.Kind = "Key" },
		"caller_kind canary":          func(c *schemas.Control) { c.Caller.Kind = schemas.KindCanary },
		"caller_id none":              func(c *schemas.Control) { c.Caller.ID = "" },
		"caller_id long":              func(c *schemas.Control) { c.Caller.ID = strings.Repeat("i", schemas.MaxCallerID+1) },
		"caller_id of reset":          actionOf(schemas.ControlReset, func(c *schemas.Control) { c.Caller.ID = "" }),
		"bounds long rule":            actionOf(schemas.ControlOpen, func(c *schemas.Control) { c.Rule = strings.Repeat("r", MaxRule+1) }),
		"bounds long mode":            actionOf(schemas.ControlMode, func(c *schemas.Control) { c.Rule = strings.Repeat("r", MaxRule+1) }),
		"malformed rule":              actionOf(schemas.ControlOpen, func(c *schemas.Control) { c.Rule = "\xff" }),
		"bounds no rule":              func(c *schemas.Control) { limit(c); c.Rule = "" },
		"bounds no limit":             func(c *schemas.Control) { limit(c); c.Limit = 0 },
		"bounds less than none":       func(c *schemas.Control) { limit(c); c.Limit = -1 },
		"bounds too much":             func(c *schemas.Control) { limit(c); c.Limit = maxControlLimit + 1 },
		"bounds no target":            actionOf(schemas.ControlUndo, nil),
		"bounds take of no topic":     actionOf(schemas.ControlTake, func(c *schemas.Control) { c.Topic = "" }),
		"bounds take of a long topic": actionOf(schemas.ControlTake, func(c *schemas.Control) { c.Topic = strings.Repeat("t", schemas.MaxTopicName+1) }),
		"bounds take of no epoch":     actionOf(schemas.ControlTake, func(c *schemas.Control) { c.Epoch = 0 }),
		"bounds take of no partition": actionOf(schemas.ControlTake, func(c *schemas.Control) { c.Partition = -1 }),
		"bounds take of nobody":       actionOf(schemas.ControlTake, func(c *schemas.Control) { c.Author = "" }),
		"bounds place of no epoch":    actionOf(schemas.ControlPlace, func(c *schemas.Control) { c.Epoch = 0 }),
		"bounds place of no number":   actionOf(schemas.ControlPlace, func(c *schemas.Control) { c.Seq = 0 }),
		"bounds place before the log": actionOf(schemas.ControlPlace, func(c *schemas.Control) { c.Before = -1 }),
		"bounds place up to nothing":  actionOf(schemas.ControlPlace, func(c *schemas.Control) { c.UpTo = -1 }),
		"bounds place without rules":  actionOf(schemas.ControlPlace, func(c *schemas.Control) { c.RulesAt = -1 }),
		"bounds long text":            actionOf(schemas.ControlRules, func(c *schemas.Control) { c.Text = make([]byte, schemas.MaxControlText+1) }),
	}
	records := make(map[string]*schemas.Control)
	for name, change := range list {
		records[name] = newControl(change)
	}
	return records
}

// forgedControl is a record as a writer without bounds makes it. A nil result says that protobuf itself refuses it.
func forgedControl(c *schemas.Control) []byte {
	caller := &ControlCaller{Kind: []byte(c.Caller.Kind), Id: []byte(c.Caller.ID)}
	m := &ControlRecord{Id: c.ID[:], Time: c.Time, Author: c.Author, Reason: c.Reason}
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
		m.Id, m.Reason = nil, ""
		m.Action = &ControlRecord_Take{Take: &ControlTake{Topic: c.Topic, Partition: c.Partition, Epoch: c.Epoch}}
	case schemas.ControlPlace:
		m.Id, m.Reason = nil, ""
		m.Action = &ControlRecord_Place{Place: &ControlPlace{
			Topic: c.Topic, Partition: c.Partition, Epoch: c.Epoch, Seq: c.Seq, Before: c.Before, UpTo: c.UpTo, RulesId: c.RulesID, RulesAt: c.RulesAt,
		}}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil
	}
	return b
}

func TestControlRecordsThatAreRefused(t *testing.T) {
	for name, c := range controlRejects() {
		reason, _, _ := strings.Cut(name, " ")
		if b, err := AppendControl([]byte("x"), c); Reason(err) != reason || string(b) != "x" {
			t.Errorf("%s: append: got %d bytes, %v, reason %q", name, len(b), err, Reason(err))
		}
		if b := forgedControl(c); b != nil {
			if got, err := DecodeControl(b); Reason(err) != reason || got.Action != 0 {
				t.Errorf("%s: decode: got %+v, %v, reason %q", name, got, err, Reason(err))
			}
		}
	}
	if b, err := AppendControl(nil, newControl(func(c *schemas.Control) { c.Action = 99 })); !errors.Is(err, ErrUnknown) || b != nil {
		t.Errorf("an action of nobody: got %x, %v", b, err)
	}
}

// controlForeign are values that no encoder here writes, by reason and name; reads is for those that are read.
func controlForeign(t testing.TB) map[string][]byte {
	t.Helper()
	plain := mustControl(t, newControl(nil))
	open := mustControl(t, newControl(actionOf(schemas.ControlMode, nil)))
	return map[string][]byte{
		"unknown empty":         mustForeign(t, &ControlRecord{Id: make([]byte, 16)}),
		"unknown later action":  append(mustForeign(t, &ControlRecord{Id: newControl(nil).ID[:], Author: "a", Reason: "b"}), 0xa2, 0x06, 0),
		"bounds nothing":        {},
		"bounds short id":       mustForeign(t, &ControlRecord{Id: make([]byte, 15), Author: "a", Reason: "b"}),
		"bounds huge":           append(slices.Clone(plain), append([]byte{0xa2, 0x06, 0x81, 0x80, 0x30}, make([]byte, 1+MaxControl)...)...),
		"malformed noise":       []byte("\xff\xff\xff"),
		"malformed cut":         plain[:len(plain)-1],
		"mode enforce":          append(slices.Clone(open), 0x4a, 2, 0x10, 1),
		"mode of later":         append(slices.Clone(open), 0x4a, 2, 0x10, 77),
		"reads unknown fields":  append(slices.Clone(plain), 0xa2, 0x06, 1, 'x'),
		"reads the last action": append(slices.Clone(open), plain...),
	}
}

func mustForeign(t testing.TB, m *ControlRecord) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestControlVectors holds testdata/control against what the code makes of it today: other languages read the same.
func TestControlVectors(t *testing.T) {
	want := make(map[string]string)
	reads := func(name string, b []byte) {
		c, err := DecodeControl(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want["reads_"+name+".hex"], want["reads_"+name+".json"] = hexOf(b), controlJSON(t, &c)
	}
	rejects := func(name string, b []byte) {
		reason, _, _ := strings.Cut(name, " ")
		if _, err := DecodeControl(b); Reason(err) != reason {
			t.Errorf("%s: got %v", name, err)
		}
		want["rejects_"+strings.ReplaceAll(name, " ", "_")+".hex"] = "# reason: " + reason + "\n" + hexOf(b)
	}
	for name, c := range controls() {
		reads(name, mustControl(t, c))
	}
	for name, c := range controlRejects() {
		if b := forgedControl(c); b != nil && len(b) < 4096 {
			rejects(name, b)
		}
	}
	for name, b := range controlForeign(t) {
		if n, ok := strings.CutPrefix(name, "reads "); ok {
			reads(strings.ReplaceAll(n, " ", "_"), b)
		} else if len(b) < 4096 {
			rejects(name, b)
		} else if _, err := DecodeControl(b); !errors.Is(err, ErrBounds) {
			t.Errorf("%s: got %v, want %v", name, err, ErrBounds)
		}
	}
	const dir = "../../testdata/control"
	if testenv.Update() {
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(want) {
		t.Errorf("got %d files, %v, want %d: %s writes them", len(files), err, len(want), testenv.UpdateCommand(t))
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s differs (%v): readers in other languages would differ, too. %s writes it", name, err, testenv.UpdateCommand(t))
		}
	}
}

func hexOf(b []byte) string {
	var out strings.Builder
	for chunk := range slices.Chunk(b, 32) {
		fmt.Fprintf(&out, "%x\n", chunk)
	}
	return out.String()
}

func controlJSON(t *testing.T, c *schemas.Control) string {
	t.Helper()
	fields := map[string]string{
		"id": c.ID.String(), "time": fmt.Sprint(c.Time), "author": c.Author, "reason": c.Reason, "action": c.Action.String(),
		"kind": c.Caller.Kind, "caller_id_hex": hex.EncodeToString([]byte(c.Caller.ID)), "rule": c.Rule, "limit": fmt.Sprint(c.Limit),
		"until": fmt.Sprint(c.Until), "target": c.Target.String(), "rules_id": fmt.Sprint(c.RulesID), "text": string(c.Text),
		"topic": c.Topic, "partition": fmt.Sprint(c.Partition), "epoch": fmt.Sprint(c.Epoch), "seq": fmt.Sprint(c.Seq),
		"before": fmt.Sprint(c.Before), "up_to": fmt.Sprint(c.UpTo), "rules_at": fmt.Sprint(c.RulesAt),
	}
	for name, value := range fields {
		if value == "" || value == "0" || value == (schemas.ControlID{}).String() {
			delete(fields, name)
		}
	}
	b, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// Whatever decodes is within bounds, and encodes to something that decodes to the same.
func FuzzDecodeControl(f *testing.F) {
	for _, c := range controls() {
		f.Add(mustControl(f, c))
	}
	for _, b := range controlForeign(f) {
		f.Add(b[:min(len(b), 4096)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeControl(b)
		if err != nil {
			if Reason(err) == "other" || !reflect.DeepEqual(c, schemas.Control{}) {
				t.Fatalf("got %+v and %v", c, err)
			}
			return
		}
		if c.Action.String() == "unknown" || (c.Reason == "") != (c.Action >= schemas.ControlTake) || c.Author == "" || len(c.Reason) > schemas.MaxReason {
			t.Fatalf("out of bounds: %+v", c)
		}
		if until := c.Until; until != 0 && (until <= c.Time || uint64(until)-uint64(c.Time) > uint64(schemas.MaxClosure)) {
			t.Fatalf("in force for too long: %+v", c)
		}
		if c.Action <= schemas.ControlReset && (c.Caller.Validate() != nil || c.Caller.Kind == schemas.KindCanary) {
			t.Fatalf("about no caller: %+v", c)
		}
		canonical := mustControl(t, &c)
		again, err := DecodeControl(canonical)
		if err != nil || !reflect.DeepEqual(again, c) || !bytes.Equal(mustControl(t, &again), canonical) {
			t.Fatalf("got %+v, %v, want %+v", again, err, c)
		}
	})
}

func BenchmarkDecodeControl(b *testing.B) {
	data := mustControl(b, newControl(nil))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeControl(data); err != nil {
			b.Fatal(err)
		}
	}
}
