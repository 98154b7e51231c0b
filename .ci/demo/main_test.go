package main

import (
	"strings"
	"testing"
)

const good = `{"type":"close","caller":"ip:198.51.100.1"}
{"type":"summary","closed":[{"caller":"ip:198.51.100.1","admitted":104,"blocked":900,"overshoot":0.04}],` +
	`"innocents_closed":0,"requests":5000,"lag_ms":{"p50":4.1,"p99":9},"hot_path_ns":21.5,` +
	`"audit":{"generator":5000,"log":5000,"store":5000}}
`

func TestRealMain(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"good", "", "", ""},
		{"nothing closed", `{"caller":"ip:198.51.100.1","admitted":104,"blocked":900,"overshoot":0.04}`, "", `got [] closed`},
		{"another closed", `"closed":[`, `"closed":[{"caller":"ip:192.0.2.1","admitted":1,"blocked":1,"overshoot":0},`, `"ip:192.0.2.1"`},
		{"nothing blocked", `"blocked":900`, `"blocked":0`, "104 admitted and 0 blocked"},
		{"no overshoot", `,"overshoot":0.04`, "", "a figure is missing"},
		{"an innocent closed", `"innocents_closed":0`, `"innocents_closed":1`, "innocents_closed"},
		{"innocents not counted", `"innocents_closed":0,`, "", "innocents_closed"},
		{"no requests", `"requests":5000`, `"requests":0`, "requests: got 0"},
		{"no lag", `"p50":4.1,`, "", "lag_ms"},
		{"lag upside down", `"p99":9`, `"p99":2`, "lag_ms"},
		{"no hot path", `,"hot_path_ns":21.5`, "", "hot_path_ns"},
		{"one too few in the log", `"log":5000`, `"log":4999`, "audit"},
		{"one twice in the store", `"store":5000`, `"store":5001`, "audit"},
		{"no audit", `,"audit":{"generator":5000,"log":5000,"store":5000}`, "", "audit"},
		{"no summary", `"type":"summary"`, `"type":"close"`, `got type "close"`},
		{"cut short", `5000}}`, "", "last line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := strings.Replace(good, c.old, c.new, 1)
			if c.old != "" && in == good {
				t.Fatalf("%q is not in the good output", c.old)
			}
			var out strings.Builder
			err := realMain([]string{"ip:198.51.100.1"}, strings.NewReader(in), &out)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	if err := realMain([]string{"ip:198.51.100.1"}, strings.NewReader(""), &strings.Builder{}); err == nil {
		t.Error("got no error for no output at all")
	}
	if err := realMain(nil, strings.NewReader(good), &strings.Builder{}); err == nil {
		t.Error("got no error without a noisy caller, want usage")
	}
}
