package offline

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
)

// folded is the store of partition 0 after these requests, all at a time.
func folded(t *testing.T, text string, at time.Time, counts map[schemas.Caller]uint32) []storePartition {
	t.Helper()
	set, err := rules.Parse("r", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f := fold.New(set, fold.Options{NoStore: true})
	for c, n := range counts {
		f.Entry(&schemas.Entry{Time: at.UnixNano(), Kind: c.Kind, ID: c.ID, Count: n})
	}
	return []storePartition{{fold: f}}
}

const storeRules = `version: 1
rules:
  - {name: small, callers: key, limit: 10, window: 1h, close_for: 10m, overrides: {crawler: unlimited}}
  - {name: large, callers: ip, limit: 1000000, window: 1h}
  - {name: bucket, callers: token, limit: 100, window: 1h, algorithm: gcra, burst: 4}
`

// TestStoreSortsByShareOfTheLimit: a caller with nine of ten requests left is in more trouble than one with a thousand of
// a million, and one without a limit is in none, whatever it sends.
func TestStoreSortsByShareOfTheLimit(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	counts := map[schemas.Caller]uint32{
		{Kind: "key", ID: "nine"}: 9, {Kind: "key", ID: "two"}: 2, {Kind: "key", ID: "crawler"}: 5000, {Kind: "ip", ID: "203.0.113.9"}: 1000,
		{Kind: "key", ID: "over"}: 15, {Kind: "token", ID: "burst"}: 3,
	}
	partitions := folded(t, storeRules, at, counts)
	rows := storeRows(partitions, nil, at)
	var got []string
	for i := range rows {
		got = append(got, rows[i].Caller+" "+rows[i].percent()+" "+rows[i].limit())
	}
	want := "key:over 150 % 10, key:nine 90 % 10, token:burst 75 % 100, key:two 20 % 10, ip:203.0.113.9 0 % 1000000, key:crawler  unlimited"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	if crawler := rows[len(rows)-1]; !crawler.Unlimited || crawler.Count != 5000 || crawler.Closed+crawler.Ended != "" {
		t.Errorf("crawler: got %+v, want its count, and that it is unlimited", crawler)
	}
	var out strings.Builder
	if err := renderStore(command.Process{Stdout: &out}, partitions, rows, len(rows)); err != nil {
		t.Fatal(err)
	}
	if table := out.String(); !regexp.MustCompile(`\| small +\| key:crawler +\| +5000 \| +\| unlimited \| +\| +\|`).MatchString(table) || strings.Contains(table, "CLOSED UNTIL") {
		t.Errorf("got\n%s\nwant no limit for the crawler", table)
	}
}

// TestStoreShowsWhetherAClosureStillHolds: a stopped analyzer's newest time stands still, and closures end all the same.
func TestStoreShowsWhetherAClosureStillHolds(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	partitions := folded(t, storeRules, at, map[schemas.Caller]uint32{{Kind: "key", ID: "over"}: 15})
	end := storeRows(partitions, nil, at)[0].Closed
	until, err := time.Parse(time.RFC3339Nano, end)
	if err != nil || until.Before(at.Add(10*time.Minute)) {
		t.Fatalf("got %q and %v, want a closure of ten minutes or more", end, err)
	}
	for now, want := range map[time.Time]string{
		at: "closed until " + end, until.Add(-1): "closed until " + end, until: "ended " + end, until.Add(240 * time.Hour): "ended " + end,
	} {
		r := storeRows(partitions, nil, now)[0]
		if r.closure() != want || (r.Closed == "") == (r.Ended == "") {
			t.Errorf("at %s: got %q of %+v, want %q", now, r.closure(), r, want)
		}
	}
	never := folded(t, storeRules, at, map[schemas.Caller]uint32{{Kind: "key", ID: "few"}: 1})
	if r := storeRows(never, nil, at)[0]; r.closure() != "" {
		t.Errorf("never closed: got %q, want nothing", r.closure())
	}
}

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
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("got\n%s\nwant %s", out.String(), want)
		}
	}
	out.Reset()
	if err := encodeControl(&out, controlRows(partitions, func(c string) bool { return c == "key:nine" })); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Count(text, "\n") != 2 || !regexp.MustCompile(`"type":"control_record".*"action":"limit","caller":"key:nine","rule":"small","limit":99,.*"from":7,"undone_by":"eve: over"`).MatchString(text) || !strings.Contains(text, `"action":"mode"`) {
		t.Errorf("of one caller: got\n%s\nwant its record, and the one about no caller", text)
	}
	if rows := controlRows(folded(t, storeRules, at, nil), all); len(rows) != 0 {
		t.Errorf("got %v, want nothing", rows)
	}
}
