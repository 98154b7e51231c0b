package event

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestIDsAreFixed: an owner of a later version that counts again must write the same ids.
func TestIDsAreFixed(t *testing.T) {
	t.Parallel()
	all := samples()
	for of, want := range map[Type]string{
		Closed:       "fb5eca337f245df175435a93d2876cbe",
		Extended:     "f8e2ef134ef9d13cfc65ede0c0a45e43",
		Opened:       "42b0aec3005757c8ee207f0bd68d62b1",
		Ended:        "be400e040b425ec3e08308da9984781c",
		Warned:       "1d29471c6228d4c453fda5cc778db488",
		Control:      "b7993d4e8e580aed01ae0544e778a86a",
		RulesChanged: "a355566a38415db0a09e44a9f362212a",
		Gap:          "32db8d59e9ef3547349f1eb14737cc4f",
	} {
		e := all[of]
		if e.ID != want {
			t.Errorf("%s: got %s, want %s", of, e.ID, want)
		}
	}
}

// TestWhatMakesAnotherID: events that differ in what they are about have other ids, and counts make no difference.
func TestWhatMakesAnotherID(t *testing.T) {
	t.Parallel()
	first := samples()[Closed]
	seen := map[string]string{first.ID: "nothing"}
	for name, change := range map[string]func(e *Event){
		"type":        func(e *Event) { e.Type = Extended },
		"time":        func(e *Event) { e.Time = e.Time.Add(1) },
		"partition":   func(e *Event) { e.Partition++ },
		"offset":      func(e *Event) { e.Offset++ },
		"kind":        func(e *Event) { e.Caller.Kind = "i" },
		"id":          func(e *Event) { e.Caller.ID = "203.0.113.90" },
		"wrong bytes": func(e *Event) { e.Caller = CallerOf(schemas.Caller{Kind: "ip", ID: "\xff"}) },
		"other bytes": func(e *Event) { e.Caller = CallerOf(schemas.Caller{Kind: "ip", ID: "\xfe"}) },
		"shifted":     func(e *Event) { e.Rule, e.Caller.Kind = "per-i", "pip" },
		"mode":        func(e *Event) { e.Mode = "shadow" },
		"close_at":    func(e *Event) { e.CloseAt = e.CloseAt.Add(1) },
		"no close_at": func(e *Event) { e.CloseAt = time.Time{} },
		"until":       func(e *Event) { e.Until = e.Until.Add(1) },
		"share":       func(e *Event) { e.Share = 0.5 },
		"record":      func(e *Event) { e.Record = "x" },
		"rules_from":  func(e *Event) { e.RulesFrom = "x" },
		"rules_to":    func(e *Event) { e.RulesTo = "x" },
		"from":        func(e *Event) { e.From++ },
		"to":          func(e *Event) { e.To++ },
	} {
		e := first
		change(&e)
		e.Identify()
		if other, is := seen[e.ID]; is {
			t.Errorf("got the same id with another %s as with another %s", name, other)
		}
		seen[e.ID] = name
	}
	applied, copied := samples()[Control], samples()[Control]
	copied.Offset, copied.Until = applied.Offset+1, noon(0)
	if copied.Identify(); copied.ID != applied.ID {
		t.Error("got another id where the same control record was applied elsewhere, want the same")
	}
	e := first
	e.Count, e.Limit, e.Nth, e.Author, e.Reason, e.Lost = 1, 2, 3, "a", "b", 4
	if e.Identify(); e.ID != first.ID {
		t.Errorf("got another id with other counts, want the same")
	}
}

// TestManyThatShareAnID: of what happens with each message, all of one stretch of time have one id.
func TestManyThatShareAnID(t *testing.T) {
	t.Parallel()
	id := func(after time.Duration, offset int64, share float64) string {
		e := samples()[Warned]
		e.Time, e.Offset, e.Share = noon(after), offset, share
		e.IdentifyWithin(10 * time.Second)
		if !e.Time.Equal(noon(after)) || e.Offset != offset {
			t.Errorf("got time and offset changed: %+v", e)
		}
		return e.ID
	}
	first := id(0, 1, 0.8)
	if id(9999*time.Millisecond, 7, 0.8) != first {
		t.Error("got two ids within ten seconds, want one")
	}
	if id(10*time.Second, 1, 0.8) == first || id(0, 1, 0.9) == first {
		t.Error("got the same id at another time, or of another share")
	}
}
