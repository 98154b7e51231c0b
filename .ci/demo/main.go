// Command demo reads what "floodgate demo --output json" printed and asserts what its summary must say: the noisy caller
// was closed, no quiet one was, the audit found every request, and every figure is there.
//
//	floodgate demo --duration 10s --output json | go run ./.ci/demo key:noisy-1
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	if err := realMain(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// summary is the last line of the demo. Pointers tell a figure that is missing from one that is zero.
type summary struct {
	Type   string `json:"type"`
	Closed []struct {
		Caller    string   `json:"caller"`
		Admitted  *int64   `json:"admitted"`
		Blocked   *int64   `json:"blocked"`
		Overshoot *float64 `json:"overshoot"`
	} `json:"closed"`
	InnocentsClosed *int64 `json:"innocents_closed"`
	Requests        int64  `json:"requests"`
	LagMS           struct {
		P50 *float64 `json:"p50"`
		P99 *float64 `json:"p99"`
	} `json:"lag_ms"`
	HotPathNS float64 `json:"hot_path_ns"`
	Audit     struct {
		Generator int64 `json:"generator"`
		Log       int64 `json:"log"`
		Store     int64 `json:"store"`
	} `json:"audit"`
}

func realMain(noisy []string, in io.Reader, out io.Writer) error {
	if len(noisy) == 0 {
		return errors.New("usage: floodgate demo --output json | demo NOISY-CALLER…")
	}
	var last []byte
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = append(last[:0], lines.Bytes()...)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	fmt.Fprintf(out, "%s\n", last)
	var s summary
	if err := json.Unmarshal(last, &s); err != nil {
		return fmt.Errorf("last line: %w", err)
	}
	return errors.Join(s.callers(noisy), s.figures())
}

// callers reports whether exactly the noisy ones were closed, and were blocked.
func (s *summary) callers(noisy []string) error {
	var errs []error
	var closed []string
	for _, c := range s.Closed {
		closed = append(closed, c.Caller)
		if c.Admitted == nil || c.Blocked == nil || c.Overshoot == nil {
			errs = append(errs, fmt.Errorf("%s: a figure is missing", c.Caller))
		} else if *c.Admitted <= 0 || *c.Blocked <= 0 {
			errs = append(errs, fmt.Errorf("%s: got %d admitted and %d blocked, want both over 0", c.Caller, *c.Admitted, *c.Blocked))
		}
	}
	slices.Sort(closed)
	if want := slices.Sorted(slices.Values(noisy)); !slices.Equal(closed, want) {
		errs = append(errs, fmt.Errorf("got %q closed, want %q", closed, want))
	}
	return errors.Join(errs...)
}

// figures reports whether all of them are there and make sense.
func (s *summary) figures() error {
	var errs []error
	if s.Type != "summary" {
		errs = append(errs, fmt.Errorf("got type %q, want summary", s.Type))
	}
	if s.InnocentsClosed == nil || *s.InnocentsClosed != 0 {
		errs = append(errs, errors.New("innocents_closed: want 0"))
	}
	if s.Requests <= 0 {
		errs = append(errs, fmt.Errorf("requests: got %d, want more than 0", s.Requests))
	}
	if s.LagMS.P50 == nil || s.LagMS.P99 == nil || *s.LagMS.P50 <= 0 || *s.LagMS.P99 < *s.LagMS.P50 {
		errs = append(errs, errors.New("lag_ms: want 0 < p50 ≤ p99"))
	}
	if a := s.Audit; a.Generator != s.Requests || a.Log != s.Requests || a.Store != s.Requests {
		errs = append(errs, fmt.Errorf("audit: got %+v, want all %d requests three times", a, s.Requests))
	}
	if s.HotPathNS <= 0 {
		errs = append(errs, fmt.Errorf("hot_path_ns: got %g, want more than 0", s.HotPathNS))
	}
	return errors.Join(errs...)
}
