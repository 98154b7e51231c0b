package rules

import (
	"math"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// parse returns the set of rules given as YAML, without the version.
func parse(t *testing.T, rules string) *Set {
	t.Helper()
	s, err := Parse("rules.yaml", []byte("version: 1\nrules:\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// one returns the only rule of a set; fields are its fields beside name, limit and window.
func one(t *testing.T, fields string) *Rule {
	t.Helper()
	return parse(t, "  - {name: r, limit: 10, window: 1m, "+fields+"}\n").Rules[0]
}

func TestDefaults(t *testing.T) {
	r := one(t, "callers: ip")
	if r.Name != "r" || r.Kind != "ip" || !r.Pattern.All() || r.Limit != 10 || r.Measure != Requests || r.CountBlocked ||
		r.CloseFor != 0 || r.Escalate != (Escalate{}) || r.Mode != schemas.ModeEnforce || r.Warn != nil {
		t.Errorf("got %+v", r)
	}
	if got, want := r.Window.Shape(), "sliding/60000000000/20"; got != want {
		t.Errorf("got window %s, want %s", got, want)
	}
	r = one(t, "callers: ip, close_for: 30s, escalate: {max: 1h}")
	if want := (Escalate{Factor: 2, Max: time.Hour, Forget: time.Hour}); r.Escalate != want {
		t.Errorf("got %+v, want %+v", r.Escalate, want)
	}
}

func TestMatches(t *testing.T) {
	arrival := schemas.Entry{Kind: "key", ID: "free-1", Resource: "/api/v1/x", Count: 3}
	response := arrival
	response.Response, response.Status, response.Cost = true, 503, 7
	blocked := arrival
	blocked.Blocked = true
	tests := []struct {
		name    string
		fields  string
		entry   schemas.Entry
		matches bool
	}{
		{"arrivals count requests", "callers: key", arrival, true},
		{"responses are not requests again", "callers: key", response, false},
		{"blocked ones match, whatever they weigh", "callers: key", blocked, true},
		{"another kind", "callers: ip", arrival, false},
		{"a pattern of ids", "callers: 'key:free-*'", arrival, true},
		{"another pattern of ids", "callers: 'key:paid-*'", arrival, false},
		{"measure responses", "callers: key, measure: responses", response, true},
		{"an arrival is no response", "callers: key, measure: responses", arrival, false},
		{"cost", "callers: key, measure: cost", response, true},
		{"a status reads responses", "callers: key, match: {status: 5xx}", response, true},
		{"a status that no arrival has", "callers: key, match: {status: 5xx}", arrival, false},
		{"another status", "callers: key, match: {status: [401, 4xx]}", response, false},
		{"one of several statuses", "callers: key, match: {status: [401, 503]}", response, true},
		{"a resource, with slashes under the star", "callers: key, match: {resource: /api/*}", arrival, true},
		{"one of several resources", "callers: key, match: {resource: [/x, '*/v1/*']}", arrival, true},
		{"another resource", "callers: key, match: {resource: /api/}", arrival, false},
		{"both must hold: resource", "callers: key, match: {resource: /nope, status: 503}", response, false},
		{"both must hold: status", "callers: key, match: {resource: '*', status: 200}", response, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := one(t, test.fields).Matches(&test.entry); got != test.matches {
				t.Errorf("got %v, want %v", got, test.matches)
			}
		})
	}
}

func TestWeight(t *testing.T) {
	tests := []struct {
		name   string
		fields string
		entry  schemas.Entry
		want   int64
	}{
		{"a count", "callers: key", schemas.Entry{Count: 3, Cost: 7}, 3},
		{"the largest count", "callers: key", schemas.Entry{Count: math.MaxUint32}, math.MaxUint32},
		{"blocked", "callers: key", schemas.Entry{Count: 3, Blocked: true}, 0},
		{"blocked and counted", "callers: key, count_blocked: true", schemas.Entry{Count: 3, Blocked: true}, 3},
		{"responses", "callers: key, measure: responses", schemas.Entry{Count: 3, Cost: 7, Response: true}, 3},
		{"cost", "callers: key, measure: cost", schemas.Entry{Count: 3, Cost: 7, Response: true}, 7},
		{"a negative cost, which no decoder lets through", "callers: key, measure: cost", schemas.Entry{Count: 3, Cost: -7}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := one(t, test.fields).Weight(&test.entry, test.entry.Blocked); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestNothingAllocatesPerEntry(t *testing.T) {
	s := parse(t, `
  - {name: a, callers: 'ip:2*', limit: 10, window: 1m, match: {resource: ['/b/*', '/a*z/*c'], status: [401, 5xx]},
     overrides: {"203.0.113.9": 5, "203.0.113.0/24": 6, "2001:db8::/32": 7, "2001:db8:1::/48": unlimited}}
`)
	e := schemas.Entry{Kind: "ip", ID: "2001:db8::1", Resource: "/abcz/deadc", Status: 503, Response: true, Count: 1}
	if n := testing.AllocsPerRun(100, func() {
		for _, r := range s.ForKind(e.Kind) {
			if !r.Matches(&e) {
				panic("no match")
			}
			r.Weight(&e, e.Blocked)
			if limit, _ := r.LimitFor(e.ID); limit != 7 {
				panic(limit)
			}
			r.LimitFor("203.0.113.77")
			r.LimitFor("203.0.113.9")
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
