package api

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// TestTheLogIsNotFilledByOneRequest: a client chooses names of fields and paths, of any length. Neither answer nor log repeats
// them in full.
func TestTheLogIsNotFilledByOneRequest(t *testing.T) {
	long := strings.Repeat("x", maxBody/2)
	for name, ask := range map[string]func(n *node) *answer{
		"a field": func(n *node) *answer { return n.post("/v1/close", `{"`+long+`": 1}`) },
		"a reason": func(n *node) *answer {
			return n.post("/v1/reset", body("caller", callerBody("key", "k"), "reason", long))
		},
		"a rule": func(n *node) *answer {
			return n.post("/v1/reset", body("caller", callerBody("key", "k"), "rule", long, "reason", "r"))
		},
		"a mode":      func(n *node) *answer { return n.post("/v1/mode", body("mode", long, "reason", "r")) },
		"a parameter": func(n *node) *answer { return n.get("/v1/status?" + long[:8<<10] + "=1") },
	} {
		w := newWorld(t)
		a := ask(w.node(w.analyzer(0, 1, 2, 3), acting))
		if a.status < http.StatusBadRequest || a.status >= http.StatusInternalServerError {
			t.Errorf("%s: got %d, want a refusal", name, a.status)
		}
		if n := len(a.body); n > 4<<10 {
			t.Errorf("%s: got an answer of %d bytes, want a short one", name, n)
		}
		if n := len(w.log.String()); n > 4<<10 {
			t.Errorf("%s: got %d bytes of log, want a line", name, n)
		}
	}
}

// TestTheLogIsNotFilledByAStranger, who has no token and asks for long paths with long methods.
func TestTheLogIsNotFilledByAStranger(t *testing.T) {
	path, _ := tokens(t, "anna:read")
	inBubble(t, func(c *Config) { c.TokenFile = path }, func(w *world, _ *Server, p *pipes) {
		t := w.t
		long := strings.Repeat("x", 6<<10)
		c := p.dial(t, "POST"+long+" /"+long+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
		defer c.Close()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode < 400 || resp.StatusCode >= 500 {
			t.Errorf("got %v and %v, want a refusal", resp, err)
		}
		if text := w.log.String(); len(text) > 4<<10 || !strings.Contains(text, "refused") {
			t.Errorf("got %d bytes of log, want a line", len(text))
		}
	})
}
