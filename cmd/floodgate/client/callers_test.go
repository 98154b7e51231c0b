package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// TestAListThatBreaksOffIsNoList: a list of callers is whole, or the error says that it is not.
func TestAListThatBreaksOffIsNoList(t *testing.T) {
	const line = `{"at":[],"sort":"share","total":1,"callers":[{"caller":{"kind":"key","id":"a"}}]}` + "\n"
	for name, test := range map[string]struct {
		send  func(w http.ResponseWriter)
		lines int
		want  string
	}{
		"whole":         {func(w http.ResponseWriter) { _, _ = io.WriteString(w, line+line) }, 2, ""},
		"cut in a line": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, line+line[:20]) }, 1, "unexpected EOF"},
		"connection cut": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, line)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 1, "unexpected EOF"},
		"no list": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, line+"<html>") }, 1, "invalid character"},
		"refused": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"title":"Forbidden","status":403,"detail":"the token has another role"}`)
		}, 0, "another role"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept") != "application/x-ndjson" || r.URL.String() != "/v1/callers?kind=key" {
					t.Errorf("got %s with %v, want the whole list", r.URL, r.Header)
				}
				test.send(w)
			}))
			defer server.Close()
			c, err := New(Config{URL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			lines := 0
			err = c.Callers(t.Context(), url.Values{"kind": {"key"}}, func(piece *apiv1.CallerList) error {
				lines += len(piece.Callers)
				return nil
			})
			if lines != test.lines || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %d callers and %v, want %d and %q", lines, err, test.lines, test.want)
			}
			own := errors.New("mine")
			if err := c.Callers(t.Context(), url.Values{"kind": {"key"}}, func(*apiv1.CallerList) error { return own }); lines > 0 && !errors.Is(err, own) {
				t.Errorf("got %v, want the error of the function", err)
			}
		})
	}
}

// TestAListOfWhichNothingComesEnds after 30 s.
func TestAListOfWhichNothingComesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{base: &url.URL{Scheme: "http", Host: "dead"}, stream: &http.Client{Transport: silent{}}}
		began := time.Now()
		err := c.Callers(t.Context(), nil, func(*apiv1.CallerList) error { return nil })
		if !errors.Is(err, errSilent) || !errors.Is(err, ErrAnswer) || time.Since(began) != silence {
			t.Errorf("got %v after %v, want %v after %v", err, time.Since(began), errSilent, silence)
		}
	})
}
