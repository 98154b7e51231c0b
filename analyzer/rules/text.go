package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/analyzer/window"
)

// CallersText returns which callers the rule counts, as a file says it: ip, or key:free-*.
func (r *Rule) CallersText() string {
	if r.Pattern.All() {
		return r.Kind
	}
	return r.Kind + ":" + r.Pattern.String()
}

// WindowText returns the window for people: length and algorithm, then what is not the default, such as "1m sliding",
// "1m sliding, 60 slots", "1h gcra, burst 10", "day, UTC" or "month from day 15, Europe/Berlin". It is "" for a rule that
// Parse did not make.
func (r *Rule) WindowText() string { return r.windowText }

// Calendar returns the unit of the calendar that the window is, such as "month"; "" for a window of another kind.
func (r *Rule) Calendar() string {
	if name := WindowName(r.windowText); window.ParseUnit(name) != 0 {
		return name
	}
	return ""
}

// WindowName returns the length that a text of WindowText begins with: "1m", or "month" of a calendar.
func WindowName(text string) string {
	name, _, _ := strings.Cut(text, " ")
	return strings.TrimSuffix(name, ",")
}

// Amount returns an amount of what a rule counts, for people: "40", or "40 cost".
func (m Measure) Amount(n int64) string {
	if m == Cost {
		return strconv.FormatInt(n, 10) + " " + m.String()
	}
	return strconv.FormatInt(n, 10)
}

func windowText(length time.Duration, kind window.Kind, slots, burst int64) string {
	text := document.FormatDuration(length) + " " + kind.Name
	if kind.Slots && slots != defaultSlots {
		text += fmt.Sprintf(", %d slots", slots)
	}
	if kind.Burst && burst > 0 {
		text += fmt.Sprintf(", burst %d", burst)
	}
	return text
}

func calendarText(unit window.Unit, zone *time.Location, anchor int64) string {
	text := unit.String()
	if anchor > 1 {
		text += fmt.Sprintf(" from day %d", anchor)
	}
	return text + ", " + zone.String()
}

// CloseText returns how long a close lasts, such as "30s", or "30s, x2 up to 1h" with an escalation. A close without a
// close_for lasts until the window has room: "".
func (r *Rule) CloseText() string {
	if r.CloseFor == 0 {
		return ""
	}
	text := document.FormatDuration(r.CloseFor)
	if r.Escalate != (Escalate{}) {
		text += fmt.Sprintf(", x%v up to %s", r.Escalate.Factor, document.FormatDuration(r.Escalate.Max))
	}
	return text
}

// Text returns the match for people, such as "/a, /b*; status 404, 5xx", or "" if all entries fit.
func (m *Match) Text() string {
	var parts []string
	if len(m.Resources) > 0 {
		parts = append(parts, join(m.Resources, pattern.Glob.String))
	}
	if len(m.Statuses) > 0 {
		parts = append(parts, "status "+join(m.Statuses, statusText))
	}
	return strings.Join(parts, "; ")
}

// statusText returns a range as files have them: 404, or 5xx.
func statusText(r pattern.StatusRange) string {
	if r.From == r.To {
		return strconv.Itoa(int(r.From))
	}
	return strconv.Itoa(int(r.From/100)) + "xx"
}

func join[T any](list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = text(v)
	}
	return strings.Join(texts, ", ")
}

// OverrideTexts returns each override with its limit, such as "203.0.113.9 1000" or "198.51.100.0/24 unlimited", sorted. An
// id that is hashed with a secret is its hash; it is there once for each secret.
func (r *Rule) OverrideTexts() []string { return r.overrides.texts() }

// OverrideLimits returns the limit of each override, or "unlimited", by the id or the network that it is for. Ids are as in
// OverrideTexts. No id is written as a network is.
func (r *Rule) OverrideLimits() map[string]string { return r.overrides.limits() }
