package ingest

import (
	"fmt"
	"strings"
	"testing"
)

// TestSamplesAreTheFirstThreeOfEachReason, cut, whatever a client writes how often.
func TestSamplesAreTheFirstThreeOfEachReason(t *testing.T) {
	var s Samples
	if got := s.AddTo(nil); got != nil {
		t.Errorf("got %v of nothing", got)
	}
	for _, r := range []Reason{OK, Dropped, Header, Continued, Empty} {
		if n := s.Add(r, []byte("not to be shown")); n != 0 {
			t.Errorf("%v: got %d, want it left out", r, n)
		}
	}
	for i := range 1000 {
		want := i + 1
		if want > MaxSamples {
			want = 0
		}
		line := fmt.Sprintf("\x1b[2J%d %s", i, strings.Repeat("A", MaxLine))
		for _, r := range []Reason{BadFormat, TooLong} {
			if n := s.Add(r, []byte(line)); n != want || s.Full(r) != (i+1 >= MaxSamples) {
				t.Fatalf("line %d: got %d, want %d", i, n, want)
			}
		}
	}
	got := s.AddTo(nil)
	if len(got) != 2 || len(got["other format"]) != MaxSamples || len(got["line too long"]) != MaxSamples {
		t.Fatalf("got %d reasons", len(got))
	}
	for i, line := range got["other format"] {
		if len(line) != MaxSample || !strings.HasPrefix(line, fmt.Sprintf("\x1b[2J%d A", i)) {
			t.Errorf("got %d bytes: %.20q", len(line), line)
		}
	}
}

// TestSamplesDoNotKeepTheLine: the bytes of the line may be overwritten afterwards.
func TestSamplesDoNotKeepTheLine(t *testing.T) {
	var s Samples
	line := []byte("first")
	s.Add(BadTime, line)
	copy(line, "xxxxx")
	if got := s.AddTo(nil)["bad time"]; len(got) != 1 || got[0] != "first" {
		t.Errorf("got %q", got)
	}
}

// TestSamplesAddUpInOrder: blocks of a log are scanned apart, and their samples are put together in the order of the log.
func TestSamplesAddUpInOrder(t *testing.T) {
	var all map[string][]string
	for i := range 4 {
		var block Samples
		for j := range 2 {
			block.Add(BadJSON, fmt.Appendf(nil, "%d.%d", i, j))
		}
		if i == 2 {
			block.Add(BadTime, []byte("late"))
		}
		all = block.AddTo(all)
	}
	if got := fmt.Sprint(all); got != "map[bad json:[0.0 0.1 1.0] bad time:[late]]" {
		t.Errorf("got %s", got)
	}
}
