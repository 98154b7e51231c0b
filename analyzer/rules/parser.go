package rules

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"
	_ "time/tzdata" // time zones, also where the system has none, as in an empty container

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

// parser reads a rule file.
type parser struct {
	doc *document.Document
	ids schemas.IDs // how ids of callers are made

	pools int // rules with a capacity that were read
}

// Parse is ParseWith for ids that are made by the defaults.
func Parse(name string, data []byte) (*Set, error) { return ParseWith(name, data, schemas.IDs{}) }

// ParseWith returns the rules in data. The name is the file's, for messages, and ids says how the ids of callers are made.
// What is wrong with data is returned as document.Errors: as much of it at once as possible, at most 50 errors, in the order
// of the file.
func ParseWith(name string, data []byte, ids schemas.IDs) (*Set, error) {
	p := &parser{doc: document.Parse(name, data, "version and rules"), ids: ids}
	rules := p.rules()
	if err := p.doc.Err(); err != nil {
		return nil, err
	}
	set := newSet(rules, p.doc.Warnings())
	set.text = bytes.Clone(data)
	if ids.Hash != nil {
		text, err := hashText(name, set, p.doc, ids)
		if err != nil {
			return nil, err
		}
		set.text = text
	}
	return set, nil
}

// rules reads the whole file. What it returns is only good where no error was reported.
func (p *parser) rules() []*Rule {
	top, list, ok := p.doc.List("rules")
	if !ok {
		return nil
	}
	if len(list) > MaxRules {
		top.Fail("rules", "got %d, want at most %d", len(list), MaxRules)
		return nil
	}
	if len(list) == 0 {
		top.Warn("rules", "there are none, so no gate will ever close")
	}
	names := make(map[string]int) // the line of the rule of each name
	rules := make([]*Rule, 0, len(list))
	for _, v := range list {
		r, at := p.rule(v), v.Position()
		if first := names[r.Name]; first > 0 {
			p.doc.Errorf(at, "name: %s is taken by the rule in line %d", r.Name, first)
		}
		if r.Name != "" {
			names[r.Name] = at.Line
		}
		rules = append(rules, r)
	}
	return rules
}

// Bounds on the values of a rule.
const (
	minWindow = time.Millisecond
	maxWindow = schemas.MaxClosure
	maxFactor = 1000
	maxWarn   = 100
	maxGlob   = schemas.MaxResource
)

// ruleParser reads one rule of a file.
type ruleParser struct {
	document.Mapping

	ids schemas.IDs
}

// rule reads one rule. Where it reports an error, the rule may lack values.
func (p *parser) rule(v document.Value) *Rule {
	m, ok := p.doc.Mapping("rule", v, "name", "callers", "match", "limit", "capacity", "weights", "protect", "window", "algorithm", "slots", "burst", "timezone",
		"anchor", "measure", "charge", "hold", "count_blocked", "close_for", "escalate", "mode", "predict", "overrides", "warn")
	if !ok {
		return &Rule{}
	}
	f := ruleParser{Mapping: m, ids: p.ids}
	r := &Rule{
		Name:         f.name(),
		Measure:      f.measure(),
		CountBlocked: f.Boolean("count_blocked", false),
		CloseFor:     f.Duration("close_for", time.Millisecond, schemas.MaxClosure, 0),
		Mode:         f.mode(),
	}
	r.Kind, r.Pattern = f.callers()
	f.warnOfPattern(r)
	r.Match = f.match()
	r.Warn = f.warn()
	r.Escalate = f.escalate(r.CloseFor)
	r.Limit = f.limit()
	if f.Has("capacity") {
		f.pool(r, p.pools)
		p.pools++
	} else {
		f.limited(r)
	}
	f.warnOfRule(r)
	if r.Window != nil {
		r.identify()
	}
	return r
}

// limited reads what only a rule with a limit says.
func (f ruleParser) limited(r *Rule) {
	f.only("weights", !f.Lacks("capacity"), "capacity")
	f.only("protect", !f.Lacks("capacity"), "capacity")
	r.overrides = f.readOverrides(r, limitsByCaller())
	if r.Measure == InFlight {
		f.inFlight(r)
	} else {
		f.window(r)
		f.charge(r)
	}
	r.Predict = f.predict(r)
}

func (f ruleParser) name() string {
	const want = "a name of letters, digits, '_', '-' and '.', beginning with a letter or digit"
	name, ok := f.Required("name", want)
	if !ok {
		return ""
	}
	if len(name) > maxName {
		f.Fail("name", "got %d bytes, want 1 to %d", len(name), maxName)
		return ""
	}
	for i := range len(name) {
		b := name[i]
		letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("_-.", rune(b))) {
			f.Wrong("name", want)
			return ""
		}
	}
	if name == "" {
		f.Wrong("name", want)
	}
	return name
}

// callers reads a kind, or a kind and a pattern of ids: key, or key:free-*.
func (f ruleParser) callers() (kind string, ids pattern.Glob) {
	const want = "a kind of a-z, 0-9, '_' and '-', such as ip, or a kind and a pattern, such as key:free-*"
	text, ok := f.Required("callers", want)
	if !ok {
		return "", pattern.Glob{}
	}
	kind, glob, found := strings.Cut(text, ":")
	if err := schemas.ValidateKind(kind); err != nil {
		f.Wrong("callers", want)
		return "", pattern.Glob{}
	}
	switch {
	case found && glob == "" || len(glob) > schemas.MaxCallerID:
		f.Fail("callers", "got a pattern of %d bytes, want 1 to %d", len(glob), schemas.MaxCallerID)
	case kind == schemas.KindIP && strings.Contains(glob, "/"):
		f.Fail("callers", "got %q, want a pattern such as 10.0.*; networks go into overrides", glob)
	}
	return kind, pattern.NewGlob(glob)
}

func (f ruleParser) match() Match {
	var m Match
	in, ok := f.Nested("match", "resource", "status")
	if !ok {
		return m
	}
	for _, v := range in.List("resource", maxGlobs) {
		text, ok := v.Text()
		if !ok || text == "" || len(text) > maxGlob {
			f.Document().Errorf(v.Position(), "resource: got %s, want a pattern such as /api/* of at most %d bytes", v, maxGlob)
			continue
		}
		f.warnOfResource(v.Position(), text)
		m.Resources = append(m.Resources, pattern.NewGlob(text))
	}
	m.Statuses = in.Statuses("status", maxGlobs)
	return m
}

func (f ruleParser) measure() Measure {
	text := f.Choice("measure", Requests.String(), Responses.String(), Cost.String(), InFlight.String())
	for m := Requests; m <= InFlight; m++ {
		if m.String() == text {
			return m
		}
	}
	return Requests
}

func (f ruleParser) mode() schemas.Mode {
	if f.Choice("mode", schemas.ModeEnforce.String(), schemas.ModeShadow.String()) == schemas.ModeShadow.String() {
		return schemas.ModeShadow
	}
	return schemas.ModeEnforce
}

// predict reads what is predicted. Windows of the calendar are long: nothing is gained there, unless the file asks for it, or requests hold.
func (f ruleParser) predict(r *Rule) Predict {
	if f.Lacks("predict") {
		if text, _ := f.Value("window").Text(); window.ParseUnit(text) != 0 && r.Hold == nil {
			return PredictOff
		}
		return PredictShares
	}
	p, _ := ParsePredict(f.Choice("predict", PredictShares.String(), PredictEarly.String(), PredictOff.String()))
	return p
}

func (f ruleParser) warn() []float64 {
	var warn []float64
	var before document.Value // of the last element of warn
	for _, v := range f.List("warn", maxWarns) {
		fraction, ok := v.Number()
		if !ok || math.IsNaN(fraction) || fraction <= 0 || fraction > maxWarn {
			f.Document().Errorf(v.Position(), "warn: got %s, want a fraction of the limit, over 0 and up to %d", v, maxWarn)
			continue
		}
		if n := len(warn); n > 0 && fraction <= warn[n-1] {
			if warn[n-1] > 1 && fraction <= 1 { // a percentage, and the mistake is in the value before
				f.Document().Errorf(before.Position(), "warn: got %s before %s, want rising fractions of the limit, such as 0.8 for 80 %%", before, v)
				warn[n-1], before = fraction, v
				continue
			}
			f.Document().Errorf(v.Position(), "warn: got %s, want rising fractions", v)
			continue
		}
		warn, before = append(warn, fraction), v
	}
	return warn
}

func (f ruleParser) escalate(closeFor time.Duration) Escalate {
	in, ok := f.Nested("escalate", "factor", "max", "forget")
	if !ok {
		return Escalate{}
	}
	e := Escalate{
		Factor: in.Number("factor", 1, maxFactor, 2),
		Max:    in.Duration("max", time.Millisecond, schemas.MaxClosure, 0),
	}
	e.Forget = in.Duration("forget", time.Millisecond, schemas.MaxClosure, e.Max)
	switch {
	case f.Lacks("close_for"):
		f.Fail("escalate", "needs close_for")
	case in.Lacks("max"):
		in.Fail("max", "missing, want the longest close")
	case closeFor > 0 && e.Max > 0 && e.Max < closeFor:
		in.Fail("max", "got %s, want at least close_for, %s", document.FormatDuration(e.Max), document.FormatDuration(closeFor))
	}
	return e
}

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
