package rules

import (
	"math"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/analyzer/window"
	"github.com/509da70d/floodgate/schemas"
)

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
	m, ok := p.doc.Mapping("rule", v, "name", "callers", "match", "limit", "window", "algorithm", "slots", "burst", "timezone",
		"anchor", "measure", "count_blocked", "close_for", "escalate", "mode", "predict", "overrides", "warn")
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
	r.overrides = f.readOverrides(r)
	f.window(r)
	r.Predict = f.predict()
	f.warnOfRule(r)
	if r.Window != nil {
		r.identify()
	}
	return r
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
	switch f.Choice("measure", Requests.String(), Responses.String(), Cost.String()) {
	case Responses.String():
		return Responses
	case Cost.String():
		return Cost
	}
	return Requests
}

func (f ruleParser) mode() schemas.Mode {
	if f.Choice("mode", schemas.ModeEnforce.String(), schemas.ModeShadow.String()) == schemas.ModeShadow.String() {
		return schemas.ModeShadow
	}
	return schemas.ModeEnforce
}

// predict reads what is predicted. Windows of the calendar are long: nothing is gained there, unless the file asks for it.
func (f ruleParser) predict() Predict {
	if f.Lacks("predict") {
		if text, _ := f.Value("window").Text(); window.ParseUnit(text) != 0 {
			return PredictOff
		}
		return PredictShares
	}
	p, _ := ParsePredict(f.Choice("predict", PredictShares.String(), PredictEarly.String(), PredictOff.String()))
	return p
}

func (f ruleParser) limit() int64 {
	if f.Lacks("limit") {
		f.Fail("limit", "missing, want 1 or more")
		return 0
	}
	return f.Integer("limit", 1, MaxLimit, 0)
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
