package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// TestCallersAreThoseThatRecordersCount: a person writes what is on the screen or in a ticket, and gates compare whole ids.
func TestCallersAreThoseThatRecordersCount(t *testing.T) {
	long := strings.Repeat("x", schemas.MaxCallerID+1)
	for text, want := range map[string]string{
		"ip:203.0.113.9":                  "ip:203.0.113.9",
		"ip:::ffff:203.0.113.9":           "ip:203.0.113.9",
		"ip:203.0.113.9/32":               "ip:203.0.113.9",
		"ip:::ffff:203.0.113.9/128":       "ip:203.0.113.9",
		"ip:2001:db8::1":                  "ip:2001:db8::",
		"ip:2001:DB8:0:0:1:2:3:4":         "ip:2001:db8::",
		"ip:2001:db8::/64":                "ip:2001:db8::",
		"ip:2001:db8::1:2/128":            "ip:2001:db8::",
		"ip:fe80::1%eth0":                 "ip:fe80::",
		"key:abc":                         "key:abc",
		"key:a:b:c":                       "key:a:b:c",
		"key:\xff\x00":                    "key:\xff\x00",
		"key:" + long:                     "key:" + schemas.ID(long),
		"ip_route:2001:db8::1|GET /":      "ip_route:2001:db8::|GET /",
		"ip_route:::ffff:192.0.2.1|GET /": "ip_route:192.0.2.1|GET /",
		"ip_route:no address|GET /":       "ip_route:no address|GET /",
		"net:203.0.113.0/24":              "net:203.0.113.0/24",
		"net:2001:db8:1::/48":             "net:2001:db8:1::/48",
		"asn:64500":                       "asn:AS64500",
	} {
		got, err := callerParser{}.text("caller", text)
		if err != nil || got.String() != want {
			t.Errorf("%.80q: got %.80q, %v, want %.80q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                   "kind:id",
		"key":                "kind:id",
		":abc":               "a kind of 1 to 32",
		"KEY:abc":            "a kind of 1 to 32",
		"_canary:x":          "none of floodgate's own",
		"key:":               "an id of 1 to 256 bytes",
		"ip:":                "an id of 1 to 256 bytes",
		"ip:localhost":       "an IP address",
		"ip:203.0.113":       "an IP address",
		"ip:203.0.113.*":     "override of their network",
		"ip:203.0.113.0/24":  "override of 203.0.113.0/24",
		"ip:203.0.113.9/24":  "override of 203.0.113.0/24",
		"ip:2001:db8::/48":   "override of 2001:db8::/48",
		"ip:0.0.0.0/0":       "override of 0.0.0.0/0",
		"ip:203.0.113.9/":    "an IP address",
		"ip:203.0.113.9/333": "an IP address",
		"net:203.0.113.7/24": "203.0.113.0/24",
		"net:203.0.113.0/25": "a network of 24 bits, such as 203.0.113.0/24",
		"net:203.0.113.9":    "the network of this address: 203.0.113.0/24",
		"net:*":              "a network, such as",
		"asn:hoster":         "AS and the number",
	} {
		_, err := callerParser{}.text("caller", text)
		p, ok := errors.AsType[*apiv1.Problem](err)
		if !ok || p.Status != http.StatusBadRequest || p.Pointer != "caller" || !strings.Contains(p.Want, want) {
			t.Errorf("%q: got %+v, want a problem that says %q", text, p, want)
		}
	}
}

// signed returns a request as one analyzer forwards it, and its body.
func signed(s *signer, now time.Time) (*http.Request, []byte) {
	body := []byte(`{"count":5}`)
	r := httptest.NewRequest(http.MethodPost, "http://10.0.0.2:9096/v1/try?caller=key%3Aabc", nil)
	r.Header.Set("Accept", "application/json")
	s.sign(r, body, "10.0.0.2:9096", &identity{name: "anna", role: roleRead, redact: true}, now)
	return r, body
}

// TestEachPartOfAForwardIsSigned: a listener can change nothing of it, and cannot send it to another analyzer.
func TestEachPartOfAForwardIsSigned(t *testing.T) {
	now := time.Now()
	s := &signer{key: []byte(strings.Repeat("k", MinClusterKey)), age: func() time.Duration { return time.Hour }}
	r, body := signed(s, now)
	w, err := s.verify(r, body, "10.0.0.2:9096", now)
	if err != nil || w.name != "anna" || w.role != roleRead || !w.redact || !w.forwarded {
		t.Fatalf("got %+v, %v, want anna, who reads hashes", w, err)
	}
	if _, err := s.verify(r, body, "10.0.0.2:9096", now); !errors.Is(err, errForwardReplay) {
		t.Errorf("once more: got %v, want it refused", err)
	}
	target := "10.0.0.2:9096"
	for name, change := range map[string]func(r *http.Request, body []byte){
		"method":       func(r *http.Request, _ []byte) { r.Method = http.MethodPut },
		"path":         func(r *http.Request, _ []byte) { r.URL.Path = "/v1/open" },
		"query":        func(r *http.Request, _ []byte) { r.URL.RawQuery = "caller=key%3Aabd" },
		"query's form": func(r *http.Request, _ []byte) { r.URL.RawQuery = "caller=key:abc" },
		"accept":       func(r *http.Request, _ []byte) { r.Header.Set("Accept", "application/x-ndjson") },
		"body":         func(_ *http.Request, body []byte) { body[9] = '9' },
		"role": func(r *http.Request, _ []byte) {
			r.Header.Set(headerSignature, strings.Replace(r.Header.Get(headerSignature), " read ", " admin ", 1))
		},
		"redaction": func(r *http.Request, _ []byte) {
			r.Header.Set(headerSignature, strings.Replace(r.Header.Get(headerSignature), " true ", " false ", 1))
		},
		"author": func(r *http.Request, _ []byte) {
			r.Header.Set(headerSignature, strings.Replace(r.Header.Get(headerSignature), " anna ", " bert ", 1))
		},
		"two headers": func(r *http.Request, _ []byte) { r.Header.Add(headerSignature, r.Header.Get(headerSignature)) },
		"no header":   func(r *http.Request, _ []byte) { r.Header.Del(headerSignature) },
	} {
		r, body := signed(s, now)
		change(r, body)
		if w, err := s.verify(r, body, target, now); err == nil {
			t.Errorf("%s: got %+v, want it refused", name, w)
		}
	}
	r, body = signed(s, now)
	if _, err := s.verify(r, body, "10.0.0.3:9096", now); !errors.Is(err, errForwardMAC) {
		t.Errorf("another analyzer: got %v, want it refused", err)
	}
	other := &signer{key: []byte(strings.Repeat("j", MinClusterKey)), age: s.age}
	if _, err := other.verify(r, body, target, now); !errors.Is(err, errForwardMAC) {
		t.Errorf("another key: got %v, want it refused", err)
	}
}

// TestAForwardHasItsTime: 30 s of difference between two clocks, and nothing from before the analyzer's start, whose nonces it has forgotten.
func TestAForwardHasItsTime(t *testing.T) {
	now := time.Now()
	for off, ok := range map[time.Duration]bool{
		0: true, maxSkew: true, -maxSkew: true, maxSkew + time.Second: false, -maxSkew - time.Second: false, time.Hour: false,
	} {
		s := &signer{key: []byte(strings.Repeat("k", MinClusterKey)), age: func() time.Duration { return time.Hour }}
		r, body := signed(s, now)
		if _, err := s.verify(r, body, "10.0.0.2:9096", now.Add(off)); (err == nil) != ok {
			t.Errorf("%v later: got %v, want it accepted: %v", off, err, ok)
		}
	}
	young := &signer{key: []byte(strings.Repeat("k", MinClusterKey)), age: func() time.Duration { return time.Second }}
	r, body := signed(young, now.Add(-2*time.Second))
	if _, err := young.verify(r, body, "10.0.0.2:9096", now); !errors.Is(err, errForwardOld) {
		t.Errorf("before the start: got %v, want it refused", err)
	}
}

// TestWhatAnotherAnalyzerRefusesIsPassedOnAsItIs, if it is a problem with the status that it came with; else nothing of it is.
func TestWhatAnotherAnalyzerRefusesIsPassedOnAsItIs(t *testing.T) {
	for body, want := range map[string]string{
		`{"title":"Conflict","status":409,"detail":"it is there"}`: "Conflict: it is there",
		`{"title":"Conflict","status":200,"detail":"it is there"}`: "status 409 and no reason",
		`{"status":409}`:        "status 409 and no reason",
		`<html>it is there`:     "status 409 and no reason",
		``:                      "status 409 and no reason",
		`{"title":409}`:         "status 409 and no reason",
		`["Conflict", 409, ""]`: "status 409 and no reason",
	} {
		p := readProblem(http.StatusConflict, []byte(body))
		if !strings.Contains(p.Error(), want) || (p.Status == http.StatusConflict) != (want == "Conflict: it is there") {
			t.Errorf("%s: got %d %v, want %q", body, p.Status, p, want)
		}
	}
}
