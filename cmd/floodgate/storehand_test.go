package main

import (
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestStoreShowsWhatPeopleHaveDecided: who, why, until when, and who has undone it; hostile ids and reasons cannot write to the
// terminal.
func TestStoreShowsWhatPeopleHaveDecided(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	partitions := folded(t, storeRules, at, map[schemas.Caller]uint32{{Kind: "key", ID: "nine"}: 9})
	until := at.Add(time.Hour).UnixNano()
	for i, c := range []schemas.Control{
		{ID: schemas.ControlID{1}, Action: schemas.ControlClose, Caller: schemas.Caller{Kind: "key", ID: "bad\x1b[2J"}, Until: until, Author: "ann", Reason: "ticket\n4711"},
		{ID: schemas.ControlID{2}, Action: schemas.ControlLimit, Caller: schemas.Caller{Kind: "key", ID: "nine"}, Rule: "small", Limit: 99, Until: until, Author: "bob", Reason: "trial"},
		{ID: schemas.ControlID{3}, Action: schemas.ControlUndo, Target: schemas.ControlID{2}, Author: "eve", Reason: "over"},
		{ID: schemas.ControlID{4}, Action: schemas.ControlMode, Rule: "large", Until: until, Author: "ann", Reason: "brake"},
		{ID: schemas.ControlID{5}, Action: schemas.ControlReset, Caller: schemas.Caller{Kind: "ip", ID: "203.0.113.9"}, Author: "ann", Reason: "x"},
	} {
		c.Time = at.UnixNano()
		if err := partitions[0].fold.Control(&c, 7, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	all := func(string) bool { return true }
	var out strings.Builder
	renderControl(&out, controlRows(partitions, all))
	for _, want := range []string{
		`close +\| key:bad\\x1b\[2J +\| +\| until 2026-01-02T04:04:05Z +\| ann +\| ticket\\n4711 +\| 2026-01-02T03:04:05Z +\| +0 \| 01000000000000000000000000000000`,
		`limit 99 +\| key:nine +\| small +\| undone by eve: over +\| bob`, `mode +\| +\| large +\| until`, `reset +\| ip:203.0.113.9 +\| +\| +\| ann`,
	} {
		if !matches(want, out.String()) {
			t.Errorf("got\n%s\nwant %s", out.String(), want)
		}
	}
	out.Reset()
	if err := encodeControl(&out, controlRows(partitions, func(c string) bool { return c == "key:nine" })); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Count(text, "\n") != 2 || !matches(`"type":"by_hand".*"action":"limit","caller":"key:nine","rule":"small","limit":99,.*"from":7,"undone_by":"eve: over"`, text) || !strings.Contains(text, `"action":"mode"`) {
		t.Errorf("of one caller: got\n%s\nwant its record, and the one about no caller", text)
	}
	if rows := controlRows(folded(t, storeRules, at, nil), all); len(rows) != 0 {
		t.Errorf("got %v, want nothing", rows)
	}
}
