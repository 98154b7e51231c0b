package endpoint

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// anyEvent draws an event, also one that no analyzer makes: a program that may write to the topic can write any event.
func anyEvent(t *rapid.T) *event.Event {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\x1b[2J", "a\nb", "\u202e", "<!channel>", "\xff"}))
	e := &event.Event{
		Type:      rapid.OneOf(rapid.SampledFrom(event.Types()), rapid.Just(event.Type("later"))).Draw(t, "type"),
		Time:      at,
		Partition: rapid.Int().Draw(t, "partition"),
		Offset:    rapid.Int64().Draw(t, "offset"),
		Caller:    event.CallerOf(schemas.Caller{Kind: rapid.SampledFrom([]string{"", "ip", "key"}).Draw(t, "kind"), ID: text.Draw(t, "id")}),
		Rule:      rapid.OneOf(rapid.SampledFrom([]string{"", "login", "api-a", "api-b", schemas.ControlRule}), text).Draw(t, "rule"),
		Mode:      rapid.SampledFrom([]string{"", "enforce", "shadow"}).Draw(t, "mode"),
		Count:     rapid.Int64().Draw(t, "count"),
		Limit:     rapid.Int64().Draw(t, "limit"),
		Share:     rapid.Float64Range(0, 100).Draw(t, "share"),
		Author:    text.Draw(t, "author"),
		Action:    text.Draw(t, "action"),
		Reason:    text.Draw(t, "reason"),
		RulesFrom: text.Draw(t, "from"),
		RulesTo:   text.Draw(t, "to"),
	}
	e.Identify()
	return e
}

// TestAnyEventsMakeOneNotice: its text is a printable line for each event that is shown, its body is JSON, and its numbers
// add up, whatever the events are.
func TestAnyEventsMakeOneNotice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(anyEvent), 1, 3*maxShown).Draw(t, "events")
		n := NewNotice(events...)
		if n.Count != len(events) || len(n.Events)+n.More != n.Count || len(n.Events) > maxShown {
			t.Fatalf("got %d events, %d shown and %d more, want all of %d", n.Count, len(n.Events), n.More, len(events))
		}
		text := n.Text()
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }); i >= 0 {
			t.Fatalf("got %q, want printable ASCII", text)
		}
		lines := len(n.Events)
		if n.Type == TypeDigest {
			lines++
		}
		if n.More > 0 {
			lines++
		}
		if got := 1 + strings.Count(text, "\n"); got != lines {
			t.Fatalf("got %d lines, want %d:\n%s", got, lines, text)
		}
		if n.Type == TypeDigest {
			sum := 0
			for _, c := range n.Counts {
				sum += c.Count
			}
			if sum != n.Count { // three times maxShown events are fewer kinds than maxCounts
				t.Fatalf("got counts of %d events, want %d", sum, n.Count)
			}
		}
		body, err := n.standard()
		if err != nil || !json.Valid(body) {
			t.Fatalf("got %q and %v, want JSON", body, err)
		}
	})
}

// anyRoute draws a route of the values that anyEvent draws.
func anyRoute(t *rapid.T) (r Route) {
	r.Types = rapid.SliceOfN(rapid.SampledFrom(event.Types()), 0, 3).Draw(t, "types")
	for _, text := range rapid.SliceOfN(rapid.SampledFrom([]string{"login", "api-*", "*"}), 0, 2).Draw(t, "rules") {
		r.Rules = append(r.Rules, pattern.NewGlob(text))
	}
	r.Kinds = rapid.SliceOfN(rapid.SampledFrom([]string{"ip", "key"}), 0, 1).Draw(t, "kinds")
	r.Modes = rapid.SliceOfN(rapid.SampledFrom([]string{"enforce", "shadow"}), 0, 1).Draw(t, "modes")
	return r
}

// TestRoutesAgainstAListOfTheirEvents: what an endpoint gets is what any of its routes would get alone, and a route with one
// more condition gets no event that it did not get before.
func TestRoutesAgainstAListOfTheirEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := rapid.SliceOfN(rapid.Custom(anyRoute), 1, 4).Draw(t, "routes")
		e := anyEvent(t)
		alone := func(r Route) bool { return (&Endpoint{Routes: []Route{r}}).Wants(e) }
		got, want := (&Endpoint{Routes: routes}).Wants(e), slices.ContainsFunc(routes, alone)
		if got != want {
			t.Fatalf("got %t of all routes together, want %t", got, want)
		}
		narrow := routes[0]
		narrow.Kinds = []string{"ip"}
		if len(routes[0].Kinds) == 0 && alone(narrow) && !alone(routes[0]) {
			t.Fatalf("%+v: got an event that the route does not get without kinds", narrow)
		}
	})
}
