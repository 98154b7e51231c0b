package fold

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/schemas"
)

// resultRules are rules of both modes about one kind, one that counts what is blocked, and one that reads responses.
const resultRules = `
version: 1
rules:
  - {name: enforced, callers: ip, limit: 3, window: 1m}
  - {name: trial, callers: ip, limit: 2, window: 1m, mode: shadow}
  - {name: all, callers: ip, limit: 100, window: 1m, count_blocked: true}
  - {name: search, callers: ip, limit: 100, window: 1m, match: {resource: /search}}
  - {name: errors, callers: ip, limit: 100, window: 1m, match: {status: 5xx}}
  - {name: others, callers: key, limit: 100, window: 1m}
`

// TestWhatBecameOfRequests: each request that a rule matches is counted once under it, by what became of it there. What gates have
// refused is blocked under every enforcing rule of its kind, and under one on trial only if it would have blocked it.
func TestWhatBecameOfRequests(t *testing.T) {
	f := New(mustParse(t, resultRules), Options{NoStore: true})
	entry := func(at int64, count uint32, blocked bool, resource string, status uint16) {
		e := schemas.Entry{Time: 1e18 + at*1e9, Kind: "ip", ID: "192.0.2.1", Resource: resource, Count: count, Blocked: blocked}
		if status != 0 {
			e.Response, e.Status = true, status
		}
		f.Entry(&e)
	}
	entry(0, 2, false, "/", 0) // fills the trial
	entry(1, 1, false, "/", 0) // fills the enforced rule, and the trial would have blocked it
	entry(2, 5, true, "/", 0)  // refused by gates
	entry(3, 1, true, "/search", 0)
	entry(4, 4, false, "/", 503)
	entry(5, 9, false, "/", 200)
	type results struct{ counted, blocked, wouldBlock uint64 }
	want := map[string]results{
		"enforced": {3, 6, 0}, "trial": {2, 0, 7}, "all": {3, 6, 0}, "search": {0, 1, 0}, "errors": {4, 0, 0}, "others": {},
	}
	stats := f.Stats()
	if stats.Requests != 9 || stats.Blocked != 6 {
		t.Errorf("got %d requests and %d blocked, want 9 and 6, whatever rules match them", stats.Requests, stats.Blocked)
	}
	for _, r := range stats.Rules {
		if got := (results{r.Counted, r.Blocked, r.WouldBlock}); got != want[r.Rule] {
			t.Errorf("%s: got %+v, want %+v", r.Rule, got, want[r.Rule])
		}
	}
	f.SetRules(mustParse(t, resultRules+"  - {name: new, callers: ip, limit: 7, window: 1m}\n"))
	after := f.Stats()
	for i, r := range after.Rules {
		if r.Rule != "new" && (r.Counted != stats.Rules[i].Counted || r.Blocked != stats.Rules[i].Blocked) {
			t.Errorf("%s: got %+v after a reload, want what was counted before", r.Rule, r)
		}
		if r.Rule == "new" && r.Counted+r.Blocked+r.WouldBlock != 0 {
			t.Errorf("got %+v of a new rule, want nothing", r)
		}
	}
}

// TestManualByAction: records are counted by action while they are in force, and not once they are undone or over.
func TestManualByAction(t *testing.T) {
	f := New(mustParse(t, resultRules), Options{})
	rowEntry(f, 1, "x", 1)
	records := []*schemas.Control{
		closeRecord(1, "x"), closeRecord(2, "y"),
		{ID: controlNumber(3), Action: schemas.ControlOpen, Caller: callerOf("x"), Until: hour},
		{ID: controlNumber(4), Action: schemas.ControlLimit, Caller: callerOf("x"), Rule: "enforced", Limit: 5, Until: hour},
		{ID: controlNumber(5), Action: schemas.ControlMode, Rule: "enforced", Until: hour},
		{ID: controlNumber(6), Action: schemas.ControlReset, Caller: callerOf("x")},
	}
	for i, c := range records {
		if err := f.Control(c, 1, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	all := override.Counts{schemas.ControlClose: 2, schemas.ControlOpen: 1, schemas.ControlLimit: 1, schemas.ControlMode: 1}
	if s := f.Stats(); s.InForceBy != all || s.InForce != 5 {
		t.Errorf("got %v and %d, want %v", s.InForceBy, s.InForce, all)
	}
	undo := &schemas.Control{ID: controlNumber(7), Action: schemas.ControlUndo, Target: controlNumber(2)}
	if err := f.Control(undo, 1, 6); err != nil {
		t.Fatal(err)
	}
	if s := f.Stats(); s.InForceBy[schemas.ControlClose] != 1 || s.InForce != 4 {
		t.Errorf("undone: got %v, want one close less", s.InForceBy)
	}
	f.Advance(hour)
	if s := f.Stats(); s.InForceBy != (override.Counts{}) || s.InForce != 0 {
		t.Errorf("over: got %v and %d, want none", s.InForceBy, s.InForce)
	}
}
