package rules

import (
	"fmt"
	"net/netip"
	"time"
	_ "time/tzdata" // time zones also where the system has none, as in a container without anything

	"github.com/goccy/go-yaml/ast"

	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// window reads the window and what belongs to it, and checks the limits against it. A time zone or anchor that means
// nothing is an error, because the window would not be the one that was meant; slots and burst only earn a warning, so
// that an algorithm can be tried out by changing one line.
func (f *fields) window(r *Rule) {
	const want = "a duration such as 1m, or hour, day, week, month or year"
	text, ok := f.text("window", want)
	if !ok {
		if !f.has("window") {
			f.fail("window", "missing, want %s", want)
		}
		return
	}
	if unit := window.ParseUnit(text); unit != 0 {
		f.calendar(r, unit)
		return
	}
	if _, err := ParseDuration(text); err != nil {
		f.wrong("window", want)
		return
	}
	length := f.duration("window", minWindow, maxWindow, 0)
	f.only("timezone", false, "a window of the calendar: hour, day, week, month or year")
	f.only("anchor", false, "window: month")
	algorithm := f.algorithm()
	slots, burst := f.tuning(algorithm)
	if length == 0 {
		return
	}
	switch algorithm {
	case window.NameSliding:
		r.Window = window.NewSliding(length, int(slots))
	case window.NameFixed:
		r.Window = window.NewFixed(length)
	case window.NameLog:
		r.Window = window.NewLog(length)
		f.log(r)
	case window.NameGCRA:
		r.Burst = burst
		r.Window = window.NewGCRA(length, burst)
		f.gcra(r, length)
	}
}

// algorithm reads the algorithm; sliding is the default.
func (f *fields) algorithm() string {
	return f.choice("algorithm", window.NameSliding, window.NameFixed, window.NameLog, window.NameGCRA)
}

// tuning reads slots and burst, of which each algorithm has at most one.
func (f *fields) tuning(algorithm string) (slots, burst int64) {
	if f.has("slots") && algorithm != window.NameSliding {
		f.advice("slots", "means nothing without algorithm: sliding")
	}
	if f.has("burst") && algorithm != window.NameGCRA {
		f.advice("burst", "means nothing without algorithm: gcra")
	}
	return f.integer("slots", 1, window.MaxSlots, 20), f.integer("burst", 1, MaxLimit, 0)
}

// only reports a field that is given where it means nothing.
func (f *fields) only(name string, allowed bool, with string) {
	if !allowed && f.has(name) {
		f.fail(name, "only with %s", with)
	}
}

func (f *fields) calendar(r *Rule, unit window.Unit) {
	known := len(f.errs)
	if algorithm := f.algorithm(); f.has("algorithm") && algorithm != window.NameFixed && len(f.errs) == known {
		f.fail("algorithm", "got %s, want fixed: windows of the calendar are always fixed", describe(f.nodes["algorithm"]))
	}
	f.tuning(window.NameFixed)
	f.only("anchor", unit == window.Month, "window: month")
	anchor := f.integer("anchor", 1, 31, 1)
	r.Window = window.NewCalendar(unit, f.timezone(), int(anchor))
}

// timezone reads a zone of the IANA database. Local is refused: it would mean something else on each machine.
func (f *fields) timezone() *time.Location {
	const want = "a time zone such as Europe/Berlin or UTC"
	name, ok := f.text("timezone", want)
	if !ok {
		return time.UTC
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		f.wrong("timezone", want)
		return time.UTC
	}
	return loc
}

// log checks what a log has to keep for each caller.
func (f *fields) log(r *Rule) {
	if r.Limit > MaxLogLimit {
		f.wrong("limit", "at most 10000 with algorithm: log; sliding has no such bound")
	}
	if most := r.overrides.most(); most > MaxLogLimit {
		f.fail("overrides", "got a limit of %d, want at most %d with algorithm: log", most, MaxLogLimit)
	}
}

// gcra checks that the time in which one unit refills is not rounded away, and that a bucket fills within a closure.
func (f *fields) gcra(r *Rule, length time.Duration) {
	most := max(r.Limit, r.overrides.most())
	if most == 0 {
		return
	}
	if refill := length / time.Duration(most); refill < minRefill {
		name := "limit"
		if most > r.Limit {
			name = "overrides"
		}
		f.fail(name, "got %d in %s, want at most one in %s with algorithm: gcra", most, short(length), minRefill)
	}
	if r.Limit > 0 && r.Burst > int64(schemas.MaxClosure/max(length/time.Duration(r.Limit), 1)) {
		f.fail("burst", "got %d, which refills in more than %s", r.Burst, short(schemas.MaxClosure))
	}
}

// overridden reads the overrides. Two ways to write one caller are the same one.
func (f *fields) overridden(r *Rule) overrides {
	var o overrides
	if !f.has("overrides") || r.Kind == "" {
		return o
	}
	values, ok := pairs(f.nodes["overrides"])
	if !ok {
		f.wrong("overrides", "a mapping of ids to limits")
		return o
	}
	if len(values) > MaxOverrides {
		f.fail("overrides", "got %d, want at most %d", len(values), MaxOverrides)
		return o
	}
	for _, pair := range values {
		at := position(pair)
		id := pair.Key.GetToken().Value
		to, ok := overrideOf(pair.Value)
		if !ok {
			f.errorf(position(pair.Value), "overrides: got %s for %q, want 1 to %d, or unlimited",
				describe(pair.Value), clip(id), int64(MaxLimit))
			continue
		}
		caller, network, err := subject(r.Kind, id)
		switch {
		case err != nil:
			f.errorf(at, "overrides: %v", err)
		case network.IsValid() && !o.addNetwork(network, to), !network.IsValid() && !o.addExact(caller, to):
			f.errorf(at, "overrides: %q given twice", clip(id))
		case !network.IsValid() && !r.Pattern.Match(caller):
			f.warnf(at, "overrides: %q is not among the callers %s:%s", clip(id), r.Kind, r.Pattern)
		}
	}
	return o
}

func overrideOf(n ast.Node) (override, bool) {
	if text, ok := textOf(n); ok {
		return override{unlimited: true}, text == "unlimited"
	}
	v, ok := integerOf(n)
	return override{limit: v}, ok && v >= 1 && v <= MaxLimit
}

// subject reads whom an override is for: an id in its canonical form, or a network of addresses.
func subject(kind, id string) (caller string, network netip.Prefix, err error) {
	if kind != schemas.KindIP {
		if _, err := netip.ParsePrefix(id); err == nil {
			return "", netip.Prefix{}, fmt.Errorf("got the network %s, want an id; only callers of kind ip have networks", id)
		}
		c := schemas.Caller{Kind: kind, ID: id}
		return id, netip.Prefix{}, c.Validate()
	}
	if _, err := netip.ParseAddr(id); err != nil {
		network, err = canonicalNetwork(id)
		return "", network, err
	}
	c, err := schemas.ParseCaller(kind + ":" + id)
	return c.ID, netip.Prefix{}, err
}
