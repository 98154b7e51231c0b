package gatehttp

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
)

func TestFieldsOfTheAnswer(t *testing.T) {
	for _, p := range []struct {
		name string
		v    gate.Verdict
		want http.Header
	}{
		{"all is known", gate.Verdict{Rule: "per-ip", RetryAfter: 11*time.Second + 1, Limit: 100, Window: time.Minute},
			http.Header{"Retry-After": {"12"}, "Ratelimit": {`"per-ip";r=0;t=12`}, "Ratelimit-Policy": {`"per-ip";q=100;w=60`}}},
		{"no limit", gate.Verdict{Rule: "control", RetryAfter: time.Minute, Window: time.Minute},
			http.Header{"Retry-After": {"60"}, "Ratelimit": {`"control";r=0;t=60`}}},
		{"no rule", gate.Verdict{Stale: true, RetryAfter: time.Second, Limit: 1, Window: time.Minute},
			http.Header{"Retry-After": {"1"}}},
		{"a short time and window", gate.Verdict{Rule: "r", RetryAfter: 1, Limit: 5, Window: 100 * time.Millisecond},
			http.Header{"Retry-After": {"1"}, "Ratelimit": {`"r";r=0;t=1`}, "Ratelimit-Policy": {`"r";q=5;w=1`}}},
		{"a limit beyond structured fields", gate.Verdict{Rule: "r", RetryAfter: 1, Limit: 1e15, Window: time.Hour},
			http.Header{"Retry-After": {"1"}, "Ratelimit": {`"r";r=0;t=1`}}},
		{"a rule that would be another field", gate.Verdict{Rule: "r\"\r\nSet-Cookie: x", RetryAfter: 1, Limit: 5, Window: time.Hour},
			http.Header{"Retry-After": {"1"}}},
		{"a rule with quotes", gate.Verdict{Rule: `a"b\c`, RetryAfter: 1, Limit: 5, Window: time.Hour},
			http.Header{"Retry-After": {"1"}, "Ratelimit": {`"a\"b\\c";r=0;t=1`}, "Ratelimit-Policy": {`"a\"b\\c";q=5;w=3600`}}},
		{"a rule beyond ASCII", gate.Verdict{Rule: "größe", RetryAfter: 1, Limit: 5, Window: time.Hour},
			http.Header{"Retry-After": {"1"}}},
	} {
		t.Run(p.name, func(t *testing.T) {
			h := http.Header{}
			setFields(h, p.v)
			if !reflect.DeepEqual(h, p.want) {
				t.Errorf("got %v, want %v", h, p.want)
			}
		})
	}
}

// A flood is answered with these fields and little else.
func TestFieldsTakeTwoAllocations(t *testing.T) {
	v := gate.Verdict{Rule: "per-ip", RetryAfter: time.Minute, Limit: 100, Window: time.Minute}
	h := http.Header{}
	setFields(h, v) // the header's own memory
	if n := testing.AllocsPerRun(1000, func() { setFields(h, v) }); n > 2 {
		t.Errorf("got %v allocations, want 2", n)
	}
}

// Handlers may change what a response says: no value may reach into another one's.
func TestFieldsDoNotShareTheirValues(t *testing.T) {
	h := http.Header{}
	setFields(h, gate.Verdict{Rule: strings.Repeat("long ", 60), RetryAfter: time.Minute, Limit: 100, Window: time.Minute})
	policy := h.Get("RateLimit-Policy")
	h.Add("Retry-After", "1")
	h.Add("RateLimit", "other")
	h.Set("RateLimit", "mine")
	if got := h.Get("RateLimit-Policy"); got != policy || len(h["Retry-After"]) != 2 || h.Get("Retry-After") != "60" {
		t.Errorf("got %v, want each field by itself", h)
	}
}
