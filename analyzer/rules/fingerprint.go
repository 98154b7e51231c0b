package rules

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// identify computes the rule's shape and fingerprint. Both texts quote what people chose, so that no two rules share one.
func (r *Rule) identify() {
	var shape strings.Builder
	fmt.Fprintf(&shape, "%q %v %v %v %q", r.Kind, r.Match, r.Measure, r.CountBlocked, r.Window.Shape())
	r.shape = hash(shape.String())
	r.fingerprint = hash(fmt.Sprintf("%q %s %q %d %d %v %v %v %v %v %q", r.Name, shape.String(), r.Pattern, r.Limit, r.Burst,
		r.CloseFor, r.Escalate, r.Mode, r.Predict, r.Warn, r.overrides.lines()))
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// String returns the match as text; it is part of fingerprints.
func (m Match) String() string { return fmt.Sprintf("%q %v", m.Resources, m.Statuses) }
