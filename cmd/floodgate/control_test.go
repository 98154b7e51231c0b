package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// TestARecordIsSentAgainWithItsId, so that it acts once. When nothing helps, the error says how to try again by hand.
func TestARecordIsSentAgainWithItsId(t *testing.T) {
	f := serveAPI(t)
	f.fails = 2
	out, err := runCommand("open", "key:\xff", "per-key", "--for", "1h", "--reason", "ticket 4711", "--api", f.URL)
	if err != nil || !strings.Contains(out, `in force: key:\xff has no limit under per-key until`) {
		t.Errorf("got %v and %q", err, out)
	}
	asked := f.take()[1:] // behind the question for the rules
	if len(asked) != 3 || asked[0] != asked[2] || len(f.keys) != 3 || f.keys[0] != f.keys[2] || len(f.keys[0]) != 32 {
		t.Errorf("got %q with keys %q, want the same three times", asked, f.keys)
	}
	var q apiv1.OpenRequest
	_, body, _ := strings.Cut(asked[0], "/v1/open ")
	if err := json.Unmarshal([]byte(body), &q); err != nil || q.Caller.Caller() != (schemas.Caller{Kind: "key", ID: "\xff"}) || q.Rule != "per-key" || q.Reason != "ticket 4711" {
		t.Errorf("got %v and %+v, want the caller's own bytes", err, q)
	}
	if left := time.Until(q.Until); left < 59*time.Minute || left > time.Hour {
		t.Errorf("got an end in %v, want an hour", left)
	}
	f.fails = 100
	_, err = runCommand("close", "key:a", "--for", "1h", "--reason", "r", "--api", f.URL)
	last := f.keys[len(f.keys)-1]
	if err == nil || command.IsUsage(err) || !strings.Contains(err.Error(), "it may be in force or not") || !strings.Contains(err.Error(), "--id "+last+" --until ") {
		t.Errorf("got %v, want how to try again with %s", err, last)
	}
}

// TestWithoutAConnectionNothingIsSent: the error says so, unless an earlier command with the same id may have sent the record.
func TestWithoutAConnectionNothingIsSent(t *testing.T) {
	api := "http://" + testenv.FreeAddress(t)
	args := []string{"close", "key:a", "--for", "1h", "--reason", "r", "--api", api}
	_, err := runCommand(args...)
	if err == nil || command.IsUsage(err) || !strings.HasSuffix(err.Error(), "; --api names the analyzer to ask. Nothing was sent") || strings.Contains(err.Error(), "may be in force") {
		t.Errorf("got %v, want that nothing was sent", err)
	}
	_, err = runCommand(append(args, "--id", strings.Repeat("1", 32))...)
	if err == nil || command.IsUsage(err) || !strings.Contains(err.Error(), "it may be in force or not") {
		t.Errorf("got %v, want that the earlier command may have sent it", err)
	}
	_, err = runCommand("explain", "key:a", "--api", api)
	if err == nil || command.IsUsage(err) || !strings.HasSuffix(err.Error(), "; --api names the analyzer to ask") {
		t.Errorf("got %v, want which flag names the analyzer", err)
	}
}

// TestAWatchOfTheAPI prints one table and then lines, also when the stream breaks and when changes were lost, and ends with 1 when the
// token is taken away.
func TestAWatchOfTheAPI(t *testing.T) {
	f := serveAPI(t)
	out, err := runCommand("decisions", "--watch", "--api", f.URL)
	if err == nil || command.IsUsage(err) || err.Error() != "decisions: the token was taken away" {
		t.Errorf("got %v, want the end of the token", err)
	}
	for _, want := range []string{
		`| key:noisy\x1b[2J | per-key`, "2026-03-02 12:00:01Z closed  key:noisy-1 by per-key until 2026-03-02 12:01:00: 500 of 500 in 1m\n",
		"2026-03-02 12:00:02Z opened  key:noisy-1 by per-key\n", "900 or more were missed. This is in force now:\n",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("got\n%s\nwant %q once", out, want)
		}
	}
	if strings.Count(out, "1 closure in force\n") != 2 {
		t.Errorf("got\n%s\nwant a table at the start and after the loss", out)
	}
	out, _ = runCommand("decisions", "--watch", "--output", "json", "--api", f.URL)
	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) || strings.Contains(line, "\x1b") {
			t.Errorf("got %q, want JSON that is safe to print", line)
		}
	}
	if !strings.Contains(out, `"change":"opened"`) || !strings.Contains(out, `"type":"lost"`) {
		t.Errorf("got\n%s", out)
	}
}

// TestSidecarsThatAreNone are said to be none.
func TestSidecarsThatAreNone(t *testing.T) {
	f := serveAPI(t)
	for url, want := range map[string]string{
		"nonsense": "--sidecar: got \"nonsense\", want an address such as 127.0.0.1:9091", f.URL + "/elsewhere": "is it a floodgate sidecar?", "http://127.0.0.1:1": "ask the sidecar",
	} {
		if _, err := runCommand("explain", "key:noisy-1", "--api", f.URL, "--sidecar", url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

// TestTopIsSafeToPrintWhenItFails: what a server says is wrong does nothing to the terminal that top draws on.
func TestTopIsSafeToPrintWhenItFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"title":"x","status":503,"detail":"away \u001b[2J\u202e","want":"\u001b]0;x\u0007"}`)
	}))
	defer s.Close()
	var out bytes.Buffer
	err := realMain(ctx, []string{"top", "--api", s.URL}, inside(writerFunc(func(b []byte) (int, error) {
		cancel()
		return out.Write(b)
	}), nil))
	if err != nil || !strings.Contains(out.String(), "away") || strings.ContainsAny(out.String(), "\x1b\x07\u202e") {
		t.Errorf("got %q and %v, want the problem without escape codes", out.String(), err)
	}
}

// writerFunc is a Writer that is a function.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
