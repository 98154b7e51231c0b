package rules

import (
	"fmt"
	"time"
	_ "time/tzdata" // time zones, also where the system has none, as in an empty container

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// defaultSlots is the number of slots of a sliding window.
const defaultSlots = 20

// window reads the window and the fields that shape it, and checks the limits against it. A time zone or an anchor that has no
// effect is an error, because the author meant another window. Slots or a burst without effect give only a warning, so that
// changing one line is enough to try another algorithm.
func (f ruleParser) window(r *Rule) {
	const want = "a duration such as 1m, or hour, day, week, month or year"
	text, ok := f.Required("window", want)
	if !ok {
		return
	}
	if unit := window.ParseUnit(text); unit != 0 {
		f.calendar(r, unit)
		return
	}
	if _, err := document.ParseDuration(text); err != nil {
		f.Wrong("window", want)
		return
	}
	length := f.Duration("window", minWindow, maxWindow, 0)
	f.only("timezone", false, "a window of the calendar: hour, day, week, month or year")
	f.only("anchor", false, "window: month")
	kind := f.algorithm()
	slots, burst := f.tuning(kind)
	if length == 0 {
		return
	}
	if kind.Burst {
		r.Burst = burst
	}
	r.Window = kind.New(length, int(slots), burst)
	r.windowText = windowText(length, kind, slots, burst)
	f.checkLimits(r, kind, length)
}

// algorithm reads the algorithm.
func (f ruleParser) algorithm() window.Kind {
	var names []string
	for _, k := range window.Kinds() {
		names = append(names, k.Name)
	}
	kind, _ := window.KindOf(f.Choice("algorithm", names...))
	return kind
}

// tuning reads slots and burst. Each algorithm uses one of them, or none.
func (f ruleParser) tuning(kind window.Kind) (slots, burst int64) {
	f.warnOfTuning("slots", kind, func(k *window.Kind) bool { return k.Slots })
	f.warnOfTuning("burst", kind, func(k *window.Kind) bool { return k.Burst })
	return f.Integer("slots", 1, window.MaxSlots, defaultSlots), f.Integer("burst", 1, MaxLimit, 0)
}

// warnOfTuning warns of a field that the algorithm does not use, and names those that do.
func (f ruleParser) warnOfTuning(name string, kind window.Kind, uses func(k *window.Kind) bool) {
	if !f.Has(name) || uses(&kind) {
		return
	}
	for _, k := range window.Kinds() {
		if uses(&k) {
			f.Warn(name, "means nothing without algorithm: %s", k.Name)
		}
	}
}

// only reports a field that has no effect here.
func (f ruleParser) only(name string, allowed bool, with string) {
	if !allowed && f.Has(name) {
		f.Fail(name, "only with %s", with)
	}
}

func (f ruleParser) calendar(r *Rule, unit window.Unit) {
	if kind := f.algorithm(); kind.Name != window.OnACalendar && f.Says("algorithm", kind.Name) {
		f.Fail("algorithm", "got %s, want %s: windows of the calendar are always %[2]s", f.Value("algorithm"), window.OnACalendar)
	}
	fixed, _ := window.KindOf(window.OnACalendar)
	f.tuning(fixed)
	f.only("anchor", unit == window.Month, "window: month")
	anchor := f.Integer("anchor", 1, 31, 1)
	zone := f.timezone()
	r.Window = window.NewCalendar(unit, zone, int(anchor))
	r.windowText = calendarText(unit, zone, anchor)
}

// timezone reads a zone of the IANA database. Local is refused: it would mean something else on each machine.
func (f ruleParser) timezone() *time.Location {
	const want = "a time zone such as Europe/Berlin or UTC"
	name, ok := f.Text("timezone", want)
	if !ok {
		return time.UTC
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		f.Wrong("timezone", want)
		return time.UTC
	}
	return loc
}

// checkLimits checks the limits against what an algorithm takes, that the time in which one unit comes back is not rounded
// away, and that a bucket refills within a closure.
func (f ruleParser) checkLimits(r *Rule, kind window.Kind, length time.Duration) {
	override := r.overrides.maxLimit()
	if kind.MaxLimit > 0 && r.Limit > kind.MaxLimit {
		f.Wrong("limit", fmt.Sprintf("at most %d with algorithm: %s; %s has no such bound", kind.MaxLimit, kind.Name, window.Default))
	}
	if kind.MaxLimit > 0 && override > kind.MaxLimit {
		f.Fail("overrides", "got a limit of %d, want at most %d with algorithm: %s", override, kind.MaxLimit, kind.Name)
	}
	limit, name := r.Limit, "limit"
	if override > limit {
		limit, name = override, "overrides"
	}
	if limit > 0 && length/time.Duration(limit) < kind.MinRefill {
		f.Fail(name, "got %d in %s, want at most one in %s with algorithm: %s", limit, document.FormatDuration(length), kind.MinRefill, kind.Name)
	}
	if r.Limit > 0 && r.Burst > int64(schemas.MaxClosure/max(length/time.Duration(r.Limit), 1)) {
		f.Fail("burst", "got %d, which refills in more than %s", r.Burst, document.FormatDuration(schemas.MaxClosure))
	}
}
