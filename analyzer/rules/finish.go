package rules

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/window"
)

// finish computes what identifies the rule. Both texts quote what people chose, so that no two rules share one.
func (r *Rule) finish() {
	var shape strings.Builder
	fmt.Fprintf(&shape, "%q %v %v %v %q", r.Kind, r.Match, r.Measure, r.CountBlocked, r.Window.Shape())
	r.shape = hash(shape.String())
	r.fingerprint = hash(fmt.Sprintf("%q %s %q %d %d %v %v %v %v %q", r.Name, shape.String(), r.Pattern, r.Limit, r.Burst,
		r.CloseFor, r.Escalate, r.Mode, r.Warn, r.overrides.lines()))
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// String returns the match as text; it is part of fingerprints.
func (m Match) String() string { return fmt.Sprintf("%q %v", m.Resources, m.Statuses) }

// advise warns of what is allowed and often not meant.
func (f *fields) advise(r *Rule) {
	composite := strings.Contains(r.Kind, "route") || strings.Contains(r.Kind, "resource")
	if len(r.Match.Resources) > 0 && r.Kind != "" && !composite {
		f.advice("match", "only requests for these resources count, but closing shuts the whole caller; "+
			"to limit one route, count callers of kind %s_route", r.Kind)
	}
	if r.ReadsResponses() && r.CountBlocked {
		f.advice("count_blocked", "a blocked request has no response, so this rule never sees one")
	}
	if r.Window != nil && r.Window.Name() == window.NameFixed && r.Window.Length(0)%int64(7*24*time.Hour) == 0 &&
		window.ParseUnit(f.nodes["window"].GetToken().Value) == 0 {
		f.advice("window", "fixed windows start at multiples since 1970-01-01, a Thursday; window: week starts on Mondays")
	}
}

// advice warns about a field that is there.
func (f *fields) advice(name, format string, args ...any) {
	f.warnf(position(f.nodes[name]), "%s: %s", name, fmt.Sprintf(format, args...))
}
