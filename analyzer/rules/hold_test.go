package rules

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

const tokens = "callers: key, measure: cost, charge: arrival"

// TestCohorts: all cohorts together cover a sliding window, or the longest request. In fixed windows they are the newest one and the one before.
func TestCohorts(t *testing.T) {
	const minute = int64(time.Minute)
	for fields, want := range map[string]struct {
		span    int64
		cohorts int
	}{
		"window: 1m, algorithm: fixed":              {minute, 2},
		"window: 10s, algorithm: fixed":             {10 * minute / 60, 2},
		"window: 1m":                                {9 * minute / 60, 8},
		"window: 1m, slots: 1":                      {minute, 3},
		"window: 1m, slots: 60":                     {7 * minute / 60, 10},
		"window: 100s, slots: 30":                   {0, 0}, // slots of 3.33 s
		"window: 1d, slots: 1000":                   {0, 0},
		"window: month":                             {minute * 75 / 60, 9},
		"window: month, longest: 10s":               {2 * minute / 60, 9}, // whole seconds, rounded up
		"window: hour, longest: 24h":                {180 * minute, 9},
		"window: 1m, algorithm: fixed, longest: 1h": {minute, 2},
	} {
		fields, longest, _ := strings.Cut(fields, ", longest: ")
		if longest == "" {
			longest = "10m"
		}
		set, err := Parse("r", fmt.Appendf(nil, "version: 1\nrules: [{name: r, limit: 10, %s, %s, hold: {estimate: 3, longest: %s}}]\n", tokens, fields, longest))
		if err != nil {
			if want.span > 0 || !strings.Contains(err.Error(), "whole seconds") {
				t.Errorf("%s: got %v", fields, err)
			}
			continue
		}
		r := set.Rules[0]
		if r.Hold.Span != want.span || r.Hold.Cohorts != want.cohorts {
			t.Errorf("%s: got %d cohorts of %v, want %d of %v", fields, r.Hold.Cohorts, time.Duration(r.Hold.Span), want.cohorts, time.Duration(want.span))
		}
	}
}

// TestWhatAHoldSays: each number of the file arrives, and what a file leaves out has its default.
func TestWhatAHoldSays(t *testing.T) {
	r := one(t, tokens+`, hold: {estimate: 1000, resources: {"POST /v1/big*": 4_000, "/b": 2}, margin: 1.25, longest: 5m}`)
	h := r.Hold
	if h == nil || h.Estimate != 1000 || h.Margin != 125 || len(h.Resources) != 2 || h.Resources[0].String() != "POST /v1/big*" || h.Estimates[0] != 4000 ||
		h.Estimates[1] != 2 || !r.AtArrival || !r.FollowsRequests() || !r.ReadsResponses() {
		t.Errorf("got %+v of %+v", h, r)
	}
	if h := one(t, tokens+", hold: {estimate: 7}").Hold; h == nil || h.Estimate != 7 || h.Margin != 200 || h.Resources != nil {
		t.Errorf("got %+v, want the defaults", h)
	}
	if h := one(t, tokens+", hold: {estimate: 7, margin: 0}").Hold; h == nil || h.Margin != 0 {
		t.Errorf("got %+v, want no margin", h)
	}
	if r := one(t, tokens); r.Hold != nil || !r.AtArrival || r.FollowsRequests() {
		t.Errorf("got %+v, want costs that count by their arrival, and nothing held", r)
	}
	if r := one(t, "callers: key, measure: cost, charge: end"); r.AtArrival || r.Fingerprint() != one(t, "callers: key, measure: cost").Fingerprint() {
		t.Errorf("got %+v, want what a rule says without charge", r)
	}
	if got := parse(t, "  - {name: r, limit: 1, window: month, "+tokens+", hold: {estimate: 7}}\n").Rules[0].Predict; got != PredictShares {
		t.Errorf("a hold of a month: got predict %s, want that it holds callers", got)
	}
}

// TestALateResponseCounts: a response comes long after its arrival, and its cost counts in the window in which the request arrived.
func TestALateResponseCounts(t *testing.T) {
	start, minute := int64(100*time.Minute), int64(time.Minute)
	for fields, counts := range map[string]bool{
		tokens: true, tokens + ", hold: {estimate: 1, longest: 30s}": true, tokens + ", hold: {estimate: 1, longest: 10s}": false,
		"callers: key, measure: cost": false,
	} {
		r := one(t, "algorithm: fixed, "+fields)
		s, _ := r.Window.Add(nil, 100, start+1, 10)
		s, _ = r.Window.Add(s, 100, start+minute, 1)
		s, _ = r.Window.Add(s, 100, start+minute+int64(20*time.Second), 1)
		if _, c := r.Window.Add(s, 100, start+2, 5); (c.Total == 15) != counts {
			t.Errorf("%s: got %+v, want it counted: %v", fields, c, counts)
		}
	}
}

// TestWhatReadsAndWeighs: a rule that follows requests reads both entries of a request, and the pair leaves what the response says.
func TestWhatReadsAndWeighs(t *testing.T) {
	streams := parse(t, "  - {name: r, callers: key, limit: 20, measure: in_flight}\n").Rules[0]
	holds, atArrival := one(t, tokens+", hold: {estimate: 7}"), one(t, tokens)
	arrival := schemas.Entry{Kind: "key", ID: "k", Count: 3, Declared: 50, Arrived: 7}
	response := schemas.Entry{Kind: "key", ID: "k", Count: 3, Response: true, Cost: 9, Arrived: 7}
	untimed, unfollowed := response, arrival
	untimed.Arrived, unfollowed.Arrived = 0, 0
	most := schemas.Entry{Kind: "key", ID: "k", Count: math.MaxUint32, Response: true, Arrived: math.MaxInt64}
	for _, test := range []struct {
		name   string
		r      *Rule
		e      schemas.Entry
		reads  bool
		weight int64
	}{
		{"an arrival is in flight", streams, arrival, true, 3},
		{"its response takes it away", streams, response, true, -3},
		{"an arrival whose response will not say when it arrived", streams, unfollowed, true, 0},
		{"a response that does not say when its request arrived", streams, untimed, true, 0},
		{"the largest count ends", streams, most, true, -math.MaxUint32},
		{"an arrival costs nothing yet", holds, arrival, true, 0},
		{"its response costs", holds, response, true, 9},
		{"its response costs, whenever it arrived", holds, untimed, true, 9},
		{"without a hold nobody looks at arrivals", atArrival, arrival, false, 0},
		{"without a hold a response costs", atArrival, response, true, 9},
	} {
		if got := test.r.Matches(&test.e); got != test.reads {
			t.Errorf("%s: got it read %v", test.name, got)
		}
		if got := test.r.Weight(&test.e, false); got != test.weight {
			t.Errorf("%s: got weight %d, want %d", test.name, got, test.weight)
		}
		want := min(test.weight, 0) // a server may report an arrival before it asks, and then a refusal: that request has ended
		if got := test.r.Weight(&test.e, true); got != want {
			t.Errorf("%s: got weight %d when it is blocked, want %d", test.name, got, want)
		}
	}
}

// TestWhatAReloadOfHoldsKeeps: counts stay when what is held changes, and begin anew when costs count at another time. Each is another
// version.
func TestWhatAReloadOfHoldsKeeps(t *testing.T) {
	base := one(t, tokens)
	seen := map[uint64]string{base.Fingerprint(): tokens}
	for _, test := range []struct {
		fields string
		keeps  bool
	}{
		{tokens + ", hold: {estimate: 7}", true},
		{tokens + ", hold: {estimate: 8}", true},
		{tokens + ", hold: {estimate: 7, margin: 1}", true},
		{tokens + ", hold: {estimate: 7, longest: 1m}", true},
		{tokens + ", hold: {estimate: 7, resources: {/a: 7}}", true},
		{tokens + ", hold: {estimate: 7, resources: {/a: 8}}", true},
		{tokens + ", hold: {estimate: 7, resources: {/b: 7}}", true},
		{tokens + ", hold: {estimate: 7, resources: {/b: 7, /a: 7}}", true},
		{tokens + ", hold: {estimate: 7, resources: {/a: 7, /b: 7}}", true},
		{"callers: key, measure: cost", false},
		{"callers: key", false},
	} {
		r := one(t, test.fields)
		if before, twice := seen[r.Fingerprint()]; twice {
			t.Errorf("%q has the fingerprint of %q", test.fields, before)
		}
		seen[r.Fingerprint()] = test.fields
		if keeps := r.Shape() == base.Shape(); keeps != test.keeps {
			t.Errorf("%q: got counts kept %v, want %v", test.fields, keeps, test.keeps)
		}
	}
	inFlight := func(fields string) *Rule {
		return parse(t, "  - {name: r, callers: key, limit: 20, measure: in_flight"+fields+"}\n").Rules[0]
	}
	if a, b := inFlight(""), inFlight(", hold: {longest: 10m}"); a.Fingerprint() != b.Fingerprint() {
		t.Error("the default of longest is another version")
	}
	if a, b := inFlight(""), inFlight(", hold: {longest: 11m}"); a.Fingerprint() == b.Fingerprint() || a.Shape() == b.Shape() {
		t.Error("another longest is the same window")
	}
}

// TestHoldsHaveBounds: as many resources as a match may have, and none that no resource can be.
func TestHoldsHaveBounds(t *testing.T) {
	holds := func(n, length int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "\"%s%03d\": 1, ", strings.Repeat("/", length-3), i)
		}
		return "version: 1\nrules: [{name: r, limit: 1, window: 1m, " + tokens + ", hold: {estimate: 1, resources: {" + b.String() + "}}}]\n"
	}
	for _, test := range []struct {
		n, length int
		want      string
	}{
		{maxGlobs, 10, ""}, {1, maxGlob, ""},
		{maxGlobs + 1, 10, "resources: got 65, want at most 64"}, {1, maxGlob + 1, "resources: got a pattern of 1025 bytes, want 1 to 1024"},
	} {
		_, err := Parse("r", []byte(holds(test.n, test.length)))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasSuffix(err.Error(), test.want)) {
			t.Errorf("%d of %d bytes: got %.200v, want %q", test.n, test.length, err, test.want)
		}
	}
}

// TestHashedTextKeepsHolds: overrides are hashed, and the names of resources are not, whatever they look like.
func TestHashedTextKeepsHolds(t *testing.T) {
	set, err := ParseWith("r", []byte(`version: 1
rules:
  - name: tokens
    hold: {resources: {"POST /v1/big*": 4_000, overrides: 3, "/a\u2028|<b>&": 5, callers: 6}, estimate: 1000, margin: 0.5, longest: 5m}
    overrides: {sk_live_1: 7}
    callers: key
    measure: cost
    charge: arrival
    limit: 100000
    window: 1m
  - {name: streams, callers: key, measure: in_flight, limit: 20, hold: {longest: 5m}, overrides: {sk_live_1: 9}}
`), hashing(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("state", set.Text())
	if err != nil || again.ID() != set.ID() || strings.Contains(string(set.Text()), "sk_live_1") {
		t.Fatalf("got %v and the text\n%s\nwant the same rules without a key", err, set.Text())
	}
	if got, want := again.Rules[0].HoldText(), set.Rules[0].HoldText(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
