package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

func TestProbe(t *testing.T) {
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /cold", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "restoring", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("GET /created", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("GET /hangs", func(http.ResponseWriter, *http.Request) { <-release })
	mux.HandleFunc("GET /endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1024)); err != nil {
				return
			}
		}
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(release)

	for _, c := range []struct {
		name  string
		args  []string
		out   string // printed
		err   string // part of the error; empty for none
		usage bool
	}{
		{name: "ready", args: []string{s.URL + "/readyz"}, out: "ok\n"},
		{name: "not ready says why", args: []string{s.URL + "/cold"}, err: `503 Service Unavailable: "restoring\n"`},
		{name: "any other success is none", args: []string{s.URL + "/created"}, err: "201"},
		{name: "not there", args: []string{s.URL + "/none"}, err: "404"},
		{name: "hangs", args: []string{"--timeout", "50ms", s.URL + "/hangs"}, err: "deadline exceeded"},
		{name: "endless is cut", args: []string{s.URL + "/endless"}, out: strings.Repeat("x", 4<<10)},
		{name: "nobody listens", args: []string{"http://127.0.0.1:1/readyz"}, err: "refused"},
		{name: "no URL", err: "want one URL", usage: true},
		{name: "two URLs", args: []string{s.URL, s.URL}, err: "want one URL", usage: true},
		{name: "not a URL", args: []string{"http://[::1/"}, err: "missing ']'", usage: true},
		{name: "an address alone", args: []string{"127.0.0.1:9090"}, err: `got "127.0.0.1:9090", want a URL such as http://127.0.0.1:9090/readyz`, usage: true},
		{name: "no time", args: []string{"--timeout", "0s", s.URL}, err: "more than 0", usage: true},
		{name: "unknown flag", args: []string{"--url", s.URL}, err: "unknown flag", usage: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			out, err := runCommand(append([]string{"probe"}, c.args...)...)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v, want it bounded by its timeout", took)
			}
			if out != c.out {
				t.Errorf("got output %q, want %q", out, c.out)
			}
			switch {
			case c.err == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got error %v, want one with %q", err, c.err)
			}
			if command.IsUsage(err) != c.usage {
				t.Errorf("got error %v, want it to be one of usage: %v", err, c.usage)
			}
		})
	}
}
