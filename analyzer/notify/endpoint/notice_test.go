package endpoint

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// made returns an event of a type about ip:203.0.113.9.
func made(t event.Type) *event.Event {
	e := &event.Event{
		Type: t, Time: at, Offset: 7, Caller: event.CallerOf(schemas.Caller{Kind: "ip", ID: "203.0.113.9"}), Rule: "per-ip", Mode: "enforce",
		CloseAt: at, Until: at.Add(time.Hour), Count: 1412, Limit: 1000,
	}
	e.Identify()
	return e
}

// TestTextsAreSentences that somebody can read in a chat.
func TestTextsAreSentences(t *testing.T) {
	shadow := made(event.Closed)
	shadow.Mode = "shadow"
	warned := made(event.Warned)
	warned.Share, warned.Count = 0.8, 800
	together := made(event.Warned)
	together.Share, together.Count, together.Together = 0.8, 800, true
	closed := made(event.Control)
	closed.Author, closed.Action, closed.Reason, closed.Rule = "alice", "close", "ticket 4711\nand more", "_control"
	mode := &event.Event{Type: event.Control, Time: at, Author: "bob", Action: "mode", Rule: "per-ip"}
	hostile := made(event.Ended)
	hostile.Caller = event.CallerOf(schemas.Caller{Kind: "key", ID: "a\x1b[2J\n<!channel>\xff"})
	for want, e := range map[string]*event.Event{
		"ip:203.0.113.9 is closed by rule per-ip until 2026-01-02 04:04:05 UTC (1,412 of 1,000)":       made(event.Closed),
		"ip:203.0.113.9 would be closed by rule per-ip until 2026-01-02 04:04:05 UTC (1,412 of 1,000)": shadow,
		"ip:203.0.113.9 is closed by rule per-ip until 2026-01-02 04:04:05 UTC now (1,412 of 1,000)":   made(event.Extended),
		"ip:203.0.113.9 is open again: its closure by rule per-ip ended early":                         made(event.Opened),
		"ip:203.0.113.9 is open again: its closure by rule per-ip is over":                             made(event.Ended),
		"ip:203.0.113.9 has reached 80 % of the limit of rule per-ip (800 of 1,000)":                   warned,
		"all callers of rule per-ip together have reached 80 % of its capacity (800 of 1,000)":         together,
		`alice: close ip:203.0.113.9 until 2026-01-02 04:04:05 UTC: ticket 4711\nand more`:             closed,
		"bob: mode under rule per-ip":                                                    mode,
		"the rules changed from a to b":                                                  {Type: event.RulesChanged, Partition: 3, RulesFrom: "a", RulesTo: "b"},
		"events of partition 3, offsets 5 to 9, may be missing":                          {Type: event.Gap, Partition: 3, From: 5, To: 9},
		`key:a\x1b[2J\n<!channel>\xff is open again: its closure by rule per-ip is over`: hostile,
	} {
		if got := NewNotice(e).Text(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if got := TestNotice("id", at).Text(); got != "This is a test of floodgate notify. Nothing has happened." {
		t.Errorf("got %q", got)
	}
}

// TestADigestShowsTenAndCountsAll by type, rule and mode, the most frequent first.
func TestADigestShowsTenAndCountsAll(t *testing.T) {
	var events []*event.Event
	for n := range 10_000 {
		e := made(event.Closed)
		e.Offset = int64(n)
		if n%100 == 0 {
			e.Type = event.Warned
		}
		e.Identify()
		events = append(events, e)
	}
	n := NewNotice(events...)
	if n.Type != TypeDigest || n.Count != 10_000 || n.More != 9_990 || len(n.Events) != maxShown || len(n.ID) != 32 {
		t.Errorf("got %s of %d, %d more, %d shown", n.Type, n.Count, n.More, len(n.Events))
	}
	if got := fmt.Sprint(n.Counts); got != "[{closed per-ip enforce 9900} {warned per-ip enforce 100}]" {
		t.Errorf("got %s", got)
	}
	text := n.Text()
	if lines := strings.Split(text, "\n"); len(lines) != 12 || lines[0] != "10,000 events:" || lines[11] != "and 9,990 more" {
		t.Errorf("got\n%s", text)
	}
	if again := NewNotice(events...); again.ID != n.ID {
		t.Error("got another id the second time")
	}
	if other := NewNotice(events[1:]...); other.ID == n.ID {
		t.Error("got one id for other events")
	}
}

func TestCountsOfADigestAreBounded(t *testing.T) {
	var events []*event.Event
	for n := range 1000 {
		e := made(event.Closed)
		e.Rule = fmt.Sprint("rule-", n)
		events = append(events, e)
	}
	n := NewNotice(events...)
	body, err := n.standard()
	if err != nil || len(n.Counts) != maxCounts || len(body) > 16<<10 {
		t.Errorf("got %d counts and %d bytes, %v", len(n.Counts), len(body), err)
	}
}

// TestBodiesAreAsStandardWebhooksSay: type, timestamp and data; the data of one event is valid by the schema of events.
func TestBodiesAreAsStandardWebhooksSay(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../../schemas/events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	e := &Endpoint{}
	for _, n := range []*Notice{NewNotice(made(event.Closed)), NewNotice(made(event.Closed), made(event.Ended)), TestNotice(made(event.Closed).ID, at)} {
		body, err := e.Body(n)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Type      string
			Timestamp time.Time
			Data      any
		}
		if err := json.Unmarshal(body, &got); err != nil || got.Type != n.Type || !got.Timestamp.Equal(at) {
			t.Errorf("got %s, %v", body, err)
		}
		one := got.Data
		if n.Type == TypeDigest {
			data, _ := got.Data.(map[string]any)
			events, _ := data["events"].([]any)
			if len(events) != 2 || data["count"] != 2.0 || data["more"] != 0.0 {
				t.Fatalf("got %s, want a digest of two", body)
			}
			one = events[0]
		}
		if err := schema.Validate(one); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}
