package endpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// Types of notices beside those of events.
const (
	TypeDigest = "digest" // many events in one message
	typeTest   = "test"   // no event: somebody tries an endpoint
)

// Bounds of a digest.
const (
	maxShown  = 10 // events that are in it; of the others it has numbers
	maxCounts = 50 // numbers by type, rule and mode
)

// Notice is what one message says: one event, or a digest of many. Its fields and methods are those of templates. NewNotice makes
// one.
type Notice struct {
	ID     string    // of the event; of a digest, a hash of the ids of all its events
	Type   string    // of the event, digest or test
	Time   time.Time // of the event, or of the last event
	Count  int       // events
	More   int       // how many of them are not in Events
	Events []event.Event
	Counts []Count // of a digest: by type, rule and mode, the most frequent first
}

// Count is a number of events of one kind.
type Count struct {
	Type  event.Type `json:"type"`
	Rule  string     `json:"rule,omitempty"`
	Mode  string     `json:"mode,omitempty"`
	Count int        `json:"count"`
}

// NewNotice returns the notice of one event or more.
func NewNotice(events ...*event.Event) *Notice {
	last := events[len(events)-1]
	n := &Notice{Time: last.Time, Count: len(events), More: max(len(events)-maxShown, 0)}
	for _, e := range events[:len(events)-n.More] {
		n.Events = append(n.Events, *e)
	}
	if len(events) == 1 {
		n.ID, n.Type = last.ID, string(last.Type)
		return n
	}
	n.Type = TypeDigest
	sum := sha256.New()
	counts := make(map[Count]int)
	for _, e := range events {
		sum.Write([]byte(e.ID))
		counts[Count{Type: e.Type, Rule: e.Rule, Mode: e.Mode}]++
	}
	n.ID = hex.EncodeToString(sum.Sum(nil)[:16])
	n.Counts = sorted(counts)
	return n
}

func sorted(counts map[Count]int) []Count {
	list := slices.Collect(maps.Keys(counts))
	for i := range list {
		list[i].Count = counts[list[i]]
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Type, b.Type), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Mode, b.Mode))
	})
	return list[:min(len(list), maxCounts)]
}

// TestNotice returns a notice that says that somebody tries an endpoint. It has the caller and the rule of an example.
func TestNotice(id string, now time.Time) *Notice {
	now = now.UTC()
	return &Notice{ID: id, Type: typeTest, Time: now, Count: 1, Events: []event.Event{{
		ID: id, Type: typeTest, Time: now, Caller: event.CallerOf(schemas.Caller{Kind: schemas.KindIP, ID: "192.0.2.1"}),
		Rule: "example", Mode: schemas.ModeShadow.String(), CloseAt: now, Until: now.Add(time.Minute), Count: 100, Limit: 100, Nth: 1,
	}}}
}

// Event returns the first event.
func (n *Notice) Event() *event.Event { return &n.Events[0] }

// Text returns the notice for people: a sentence for each event, in lines. It is printable ASCII, whatever a caller's id is.
func (n *Notice) Text() string {
	if n.Type == typeTest {
		return "This is a test of floodgate notify. Nothing has happened."
	}
	var b strings.Builder
	if n.Type == TypeDigest {
		fmt.Fprintf(&b, "%s events:\n", humanize.Comma(int64(n.Count)))
	}
	for i := range n.Events {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(sentence(&n.Events[i]))
	}
	if n.More > 0 {
		fmt.Fprintf(&b, "\nand %s more", humanize.Comma(int64(n.More)))
	}
	return b.String()
}

// sentence says what an event is.
func sentence(e *event.Event) string {
	caller, rule := printable.Of(e.Caller.String()), printable.Of(e.Rule)
	is := "is"
	if e.Mode == schemas.ModeShadow.String() {
		is = "would be"
	}
	switch e.Type {
	case event.Closed:
		return fmt.Sprintf("%s %s closed by rule %s until %s%s", caller, is, rule, clock(e.Until), ofLimit(e))
	case event.Extended:
		return fmt.Sprintf("%s %s closed by rule %s until %s now%s", caller, is, rule, clock(e.Until), ofLimit(e))
	case event.Opened:
		return fmt.Sprintf("%s %s open again: its closure by rule %s ended early", caller, is, rule)
	case event.Ended:
		return fmt.Sprintf("%s %s open again: its closure by rule %s is over", caller, is, rule)
	case event.Warned:
		if e.Together {
			return fmt.Sprintf("all callers of rule %s together have reached %g %% of its capacity%s", rule, 100*e.Share, ofLimit(e))
		}
		return fmt.Sprintf("%s has reached %g %% of the limit of rule %s%s", caller, 100*e.Share, rule, ofLimit(e))
	case event.Control:
		return decided(e)
	case event.RulesChanged:
		return fmt.Sprintf("the rules changed from %s to %s", printable.Of(e.RulesFrom), printable.Of(e.RulesTo))
	case event.Gap:
		return fmt.Sprintf("events of partition %d, offsets %d to %d, may be missing", e.Partition, e.From, e.To)
	}
	return string(printable.Of(string(e.Type)))
}

// decided says what a person decided.
func decided(e *event.Event) string {
	text := fmt.Sprintf("%s: %s", printable.Of(e.Author), printable.Of(e.Action))
	if e.Caller.Kind != "" {
		text += " " + string(printable.Of(e.Caller.String()))
	}
	if e.Rule != "" && e.Rule != schemas.ControlRule {
		text += " under rule " + string(printable.Of(e.Rule))
	}
	if !e.Until.IsZero() {
		text += " until " + clock(e.Until)
	}
	if e.Reason != "" {
		text += ": " + string(printable.Of(e.Reason))
	}
	return text
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func ofLimit(e *event.Event) string {
	if e.Limit == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s of %s)", humanize.Comma(e.Count), humanize.Comma(e.Limit))
}

// digestData is the data of a digest's body.
type digestData struct {
	Count  int           `json:"count"`
	More   int           `json:"more"`
	Counts []Count       `json:"counts"`
	Events []event.Event `json:"events"`
}

// standard returns the body that Standard Webhooks describe: type, timestamp and data.
func (n *Notice) standard() ([]byte, error) {
	var data any = n.Event()
	if n.Type == TypeDigest {
		data = digestData{n.Count, n.More, n.Counts, n.Events}
	}
	return json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      any       `json:"data"`
	}{n.Type, n.Time, data})
}
