package rules

import (
	"math"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/509da70d/floodgate/schemas"
)

// Bounds on the durations of a rule.
const (
	minWindow = time.Millisecond
	maxWindow = schemas.MaxClosure
	maxFactor = 1000
	minRefill = time.Microsecond // of one unit under gcra
	maxWarn   = 100
	maxGlob   = schemas.MaxResource
)

// rule reads one rule.
func (s *source) rule(n ast.Node) *Rule {
	f, ok := s.mapping("rule", n, "name", "callers", "match", "limit", "window", "algorithm", "slots", "burst", "timezone",
		"anchor", "measure", "count_blocked", "close_for", "escalate", "mode", "overrides", "warn")
	if !ok {
		return &Rule{}
	}
	r := &Rule{
		Name:         f.name(),
		Measure:      f.measure(),
		CountBlocked: f.boolean("count_blocked"),
		CloseFor:     f.duration("close_for", time.Millisecond, schemas.MaxClosure, 0),
		Mode:         f.mode(),
	}
	r.Kind, r.Pattern = f.callers()
	r.Match = f.match()
	r.Warn = f.warn()
	r.Escalate = f.escalate(r.CloseFor)
	r.Limit = f.limit()
	r.overrides = f.overridden(r)
	f.window(r)
	f.advise(r)
	if r.Window != nil {
		r.finish()
	}
	return r
}

func (f *fields) name() string {
	const want = "a name of letters, digits, '_', '-' and '.', beginning with a letter or digit"
	name, ok := f.text("name", want)
	if !ok {
		if !f.has("name") {
			f.fail("name", "missing, want %s", want)
		}
		return ""
	}
	if len(name) > MaxName {
		f.fail("name", "got %d bytes, want 1 to %d", len(name), MaxName)
		return ""
	}
	for i := range len(name) {
		b := name[i]
		letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("_-.", rune(b))) {
			f.wrong("name", want)
			return ""
		}
	}
	if name == "" {
		f.wrong("name", want)
	}
	return name
}

// callers reads a kind, or a kind and a pattern of ids: key, or key:free-*.
func (f *fields) callers() (kind string, pattern Glob) {
	const want = "a kind of a-z, 0-9, '_' and '-', such as ip, or a kind and a pattern, such as key:free-*"
	text, ok := f.text("callers", want)
	if !ok {
		if !f.has("callers") {
			f.fail("callers", "missing, want %s", want)
		}
		return "", Glob{}
	}
	kind, ids, found := strings.Cut(text, ":")
	if err := schemas.ValidateKind(kind); err != nil {
		f.wrong("callers", want)
		return "", Glob{}
	}
	switch {
	case found && ids == "" || len(ids) > schemas.MaxCallerID:
		f.fail("callers", "got a pattern of %d bytes, want 1 to %d", len(ids), schemas.MaxCallerID)
	case kind == schemas.KindIP && strings.Contains(ids, "/"):
		f.fail("callers", "got %q, want a pattern such as 10.0.*; networks go into overrides", ids)
	}
	return kind, NewGlob(ids)
}

func (f *fields) match() Match {
	var m Match
	if !f.has("match") {
		return m
	}
	in, _ := f.mapping("match", f.nodes["match"], "resource", "status")
	for _, n := range in.list("resource", MaxGlobs) {
		text, ok := textOf(n)
		if !ok || text == "" || len(text) > maxGlob {
			f.errorf(position(n), "resource: got %s, want a pattern such as /api/* of at most %d bytes", describe(n), maxGlob)
			continue
		}
		m.Resources = append(m.Resources, NewGlob(text))
	}
	for _, n := range in.list("status", MaxGlobs) {
		status, ok := statusOf(n)
		if !ok {
			f.errorf(position(n), "status: got %s, want 100 to 599, or 1xx to 5xx", describe(n))
			continue
		}
		m.Statuses = append(m.Statuses, status)
	}
	return m
}

// statusOf reads 401, or 5xx.
func statusOf(n ast.Node) (StatusRange, bool) {
	if v, ok := integerOf(n); ok {
		return StatusRange{uint16(v), uint16(v)}, 100 <= v && v <= 599
	}
	text, _ := textOf(n)
	class, found := strings.CutSuffix(text, "xx")
	if !found || len(class) != 1 || class[0] < '1' || class[0] > '5' {
		return StatusRange{}, false
	}
	from := uint16(class[0]-'0') * 100
	return StatusRange{from, from + 99}, true
}

func (f *fields) measure() Measure {
	switch f.choice("measure", Requests.String(), Responses.String(), Cost.String()) {
	case Responses.String():
		return Responses
	case Cost.String():
		return Cost
	}
	return Requests
}

func (f *fields) mode() schemas.Mode {
	if f.choice("mode", schemas.ModeEnforce.String(), schemas.ModeShadow.String()) == schemas.ModeShadow.String() {
		return schemas.ModeShadow
	}
	return schemas.ModeEnforce
}

func (f *fields) limit() int64 {
	if !f.has("limit") {
		f.fail("limit", "missing, want 1 or more")
		return 0
	}
	return f.integer("limit", 1, MaxLimit, 0)
}

func (f *fields) warn() []float64 {
	var warn []float64
	for _, n := range f.list("warn", MaxWarn) {
		v, ok := numberOf(n)
		if !ok || math.IsNaN(v) || v <= 0 || v > maxWarn {
			f.errorf(position(n), "warn: got %s, want a fraction of the limit, over 0 and up to %d", describe(n), maxWarn)
			continue
		}
		if len(warn) > 0 && v <= warn[len(warn)-1] {
			f.errorf(position(n), "warn: got %s, want rising fractions", describe(n))
			continue
		}
		warn = append(warn, v)
	}
	return warn
}

func (f *fields) escalate(closeFor time.Duration) Escalate {
	if !f.has("escalate") {
		return Escalate{}
	}
	in, ok := f.mapping("escalate", f.nodes["escalate"], "factor", "max", "forget")
	if !ok {
		return Escalate{}
	}
	e := Escalate{
		Factor: in.number("factor", 1, maxFactor, 2),
		Max:    in.duration("max", time.Millisecond, schemas.MaxClosure, 0),
	}
	e.Forget = in.duration("forget", time.Millisecond, schemas.MaxClosure, e.Max)
	switch {
	case !f.has("close_for"):
		f.fail("escalate", "needs close_for")
	case !in.has("max"):
		in.fail("max", "missing, want the longest close")
	case closeFor > 0 && e.Max > 0 && e.Max < closeFor:
		in.fail("max", "got %s, want at least close_for, %s", short(e.Max), short(closeFor))
	}
	return e
}
