package hold

import (
	"hash/fnv"
	"strconv"

	"github.com/509da70d/floodgate/analyzer/integer"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
)

// Terms says what the requests of a rule hold. It does not change: any number of goroutines may use one.
type Terms struct {
	Estimate  int64          // what a request costs until responses say it; 1 to MaxCost
	Resources []pattern.Glob // requests for these have other estimates; the first that matches counts
	Estimates []int64        // of Resources
	Margin    int64          // deviations that stay free for what is not known, in hundredths

	Span    int64 // length of a cohort in nanoseconds, whole seconds: a response must find the cohort of its arrival
	Cohorts int   // the newest ones that are kept

	ID uint64 // of the estimates: see Identify
}

// MaxCost bounds what one request is taken to cost. The rest of a higher cost is counted, but not learned.
const MaxCost = 1 << 40

// leastDeclared is how many times less than the estimate a server may declare. Until enough responses have come, what is held can be too low by
// this factor, because a caller says in its requests that they cost nothing.
const leastDeclared = 4

// estimateOf returns what a request for a resource costs.
func (t *Terms) estimateOf(resource string) int64 {
	if i := pattern.IndexResource(t.Resources, resource); i >= 0 {
		return t.Estimates[i]
	}
	return t.Estimate
}

// expected returns what all requests of an entry are expected to cost.
func (t *Terms) expected(e *schemas.Entry) int64 {
	estimate := integer.MulDiv(t.estimateOf(e.Resource), int64(e.Count), 1)
	if e.Declared > 0 {
		return max(cut(e.Declared, int64(e.Count)), estimate/leastDeclared)
	}
	return estimate
}

// Identify sets the ID. What was learned under one depends on the estimates, and says nothing under others.
func (t *Terms) Identify() {
	h := fnv.New64a()
	number := func(n int64) { h.Write(strconv.AppendInt([]byte{0}, n, 10)) }
	number(t.Estimate)
	for i, g := range t.Resources {
		h.Write(append([]byte{0}, g.String()...))
		number(t.Estimates[i])
	}
	t.ID = h.Sum64()
}
