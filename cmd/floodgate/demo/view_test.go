package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestViewFitsATerminal(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 5e6, time.FixedZone("EST", -5*3600)) // people compare it with explain, which says UTC
	callers := func(n int) (list []closedCaller) {
		for i := range n {
			list = append(list, closedCaller{fmt.Sprintf("key:noisy-%d", i+1), at})
		}
		return list
	}
	tests := map[int]string{
		0:    "",
		1:    "closed (UTC): key:noisy-1 until 12:00:00.005",
		2:    "closed (UTC): key:noisy-1 until 12:00:00.005, key:noisy-2 until 12:00:00.005",
		3:    "closed (UTC): key:noisy-1 until 12:00:00.005, key:noisy-2 until 12:00:00.005 and 1 more",
		9999: "closed (UTC): key:noisy-1 until 12:00:00.005, key:noisy-2 until 12:00:00.005 and 9997 more",
	}
	for n, want := range tests {
		var out strings.Builder
		v := newView(&out, false)
		v.tick(3*time.Second, totals{admitted: 123, blocked: 45}, callers(n), []time.Duration{2 * time.Millisecond})
		line := strings.TrimSuffix(out.String(), "\n")
		if !strings.HasPrefix(line, "   3s  admitted    123  blocked     45  lag p50 2.0 ms") || !strings.HasSuffix(line, want) || strings.ContainsAny(line, "\n\x1b") || len(line) > 160 {
			t.Errorf("%d closed: got %q of %d columns, want one line with %q", n, line, len(line), want)
		}
	}
}

func TestViewInJSONIsOneObjectALine(t *testing.T) {
	var out strings.Builder
	v := newView(&out, true)
	v.say("not shown: %d", 1)
	v.tick(1234*time.Millisecond, totals{}, nil, nil)
	v.tick(2*time.Second, totals{admitted: 5, blocked: 6}, []closedCaller{{"key:a", time.Unix(9, 0)}}, []time.Duration{time.Millisecond, 3 * time.Millisecond})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`{"admitted":0,"blocked":0,"closed":[],"lag_ms":{"p50":0,"p99":0,"samples":0},"seconds":1.2,"type":"tick"}`,
		`{"admitted":5,"blocked":6,"closed":["key:a"],"lag_ms":{"p50":3,"p99":3,"samples":2},"seconds":2,"type":"tick"}`,
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestViewPrintsNoIDRaw, should its callers ever be chosen by somebody else: a tick is one line of printable characters.
func TestViewPrintsNoIDRaw(t *testing.T) {
	for _, id := range []string{"\x1b[2J\x1b[H", "\x1b]0;title\x07", "\u009b2J", "a\x00b", "x\n   9s  admitted  forged", "\r| forged |", "\u202egnp.exe", "a\u200bb", "\xff", `"}` + "\n{"} {
		for _, asJSON := range []bool{false, true} {
			var out strings.Builder
			newView(&out, asJSON).tick(time.Second, totals{}, []closedCaller{{caller: "key:" + id, until: time.Unix(1, 0)}}, nil)
			line, found := strings.CutSuffix(out.String(), "\n")
			if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 || !found {
				t.Errorf("JSON %v: got %q, want one line of what is printable", asJSON, out.String())
			}
			if !strings.Contains(line, "key:") {
				t.Errorf("JSON %v: got %q, want the caller named", asJSON, line)
			}
		}
	}
}

// TestViewSaysNothingButObjectsInJSON, and lines of text otherwise. Without a terminal there are no colours.
func TestViewSaysNothingButObjectsInJSON(t *testing.T) {
	for asJSON, want := range map[bool]string{true: "", false: "starting 3 servers\n"} {
		var out strings.Builder
		v := newView(&out, asJSON)
		if v.say("starting %d servers", 3); out.String() != want {
			t.Errorf("JSON %v: got %q, want %q", asJSON, out.String(), want)
		}
		v.tick(time.Second, totals{}, []closedCaller{{"key:a", time.Unix(9, 0)}}, nil)
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("JSON %v: got %q, want no colours", asJSON, out.String())
		}
	}
}
