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
// "1m sliding, 60 slots", "1h gcra, burst 10", "day, UTC" or "month from day 15, Europe/Berlin". Requests in flight have no window, but a
// longest time: "in flight, 10m at most". It is "" for a rule that Parse did not make.
func (r *Rule) WindowText() string { return r.windowText }

// Calendar returns the unit of the calendar that the window is, such as "month"; "" for a window of another kind.
func (r *Rule) Calendar() string {
	if name := WindowName(r.windowText); window.ParseUnit(name) != 0 {
		return name
	}
	return ""
}

// noWindow is the name of the window of a rule that measures requests in flight.
const noWindow = "in flight"

// WindowName returns the length that a text of WindowText begins with: "1m", or "month" of a calendar. It is "" for requests in flight.
func WindowName(text string) string {
	if strings.HasPrefix(text, noWindow) {
		return ""
	}
	name, _, _ := strings.Cut(text, " ")
	return strings.TrimSuffix(name, ",")
}

// ChargeText returns when a cost counts, if that is not when it becomes known: "arrival".
func (r *Rule) ChargeText() string {
	if r.AtArrival {
		return chargeArrival
	}
	return ""
}

// HoldText returns what requests in flight hold of the limit, such as `1000 each, 4000 for "POST /v1/big*", margin 2, 10m at most`. It is
// "" if they hold nothing.
func (r *Rule) HoldText() string {
	if r.Hold == nil {
		return ""
	}
	parts := []string{fmt.Sprintf("%d each", r.Hold.Estimate)}
	for i, g := range r.Hold.Resources {
		parts = append(parts, fmt.Sprintf("%d for %q", r.Hold.Estimates[i], g))
	}
	parts = append(parts, fmt.Sprintf("margin %v", float64(r.Hold.Margin)/100), document.FormatDuration(r.longest)+" at most")
	return strings.Join(parts, ", ")
}

// Amount returns an amount of what a rule counts, for people: "40", "40 cost", or "40 in flight".
func (m Measure) Amount(n int64) string {
	text := strconv.FormatInt(n, 10)
	switch m {
	case Cost:
		return text + " " + m.String()
	case InFlight:
		return text + " " + noWindow
	case Requests, Responses:
	}
	return text
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

// OverrideTexts returns each override with its limit, such as "203.0.113.9 1000" or "198.51.100.0/24 unlimited", sorted; of a Pool each
// weight, such as "acme weight 4". An id that is hashed with a secret is its hash; it is there once for each secret.
func (r *Rule) OverrideTexts() []string {
	if r.Pool != nil {
		return r.Pool.weights.texts(weightText)
	}
	return r.overrides.texts(override.String)
}

// OverrideLimits returns the limit of each override, "unlimited", or a weight as in OverrideTexts, by the id or the network that it is for.
// Ids are as in OverrideTexts. No id is written as a network is.
func (r *Rule) OverrideLimits() map[string]string {
	if r.Pool != nil {
		return r.Pool.weights.values(weightText)
	}
	return r.overrides.values(override.String)
}
