package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestAFilteredStreamGivesSignsOfLife: all that happens is about other rules than the client asked for. The client still hears something every
// ten seconds, or it would take the connection for lost.
func TestAFilteredStreamGivesSignsOfLife(t *testing.T) {
	inBubble(t, nil, func(w *world, _ *Server, p *pipes) {
		t := w.t
		c := p.dial(t, strings.Replace(streamRequest(), "/stream", "/stream?rule=quiet", 1))
		defer c.Close()
		e := open(t, c)
		e.want("current", "")
		if line, err := e.r.ReadString('\n'); err != nil || line != ": still here\n" {
			t.Fatalf("while nothing happens: got %q and %v, want a sign of life", line, err)
		}
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(streamCheck / 2):
					w.board.close(schemas.Decision{Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint(i)}})
				}
			}
		}()
		for i := range 10 {
			_ = c.SetReadDeadline(time.Now().Add(keepAlive + 2*streamCheck)) // a pipe can
			line, err := e.r.ReadString('\n')
			if err == nil && line == "\n" {
				line, err = e.r.ReadString('\n')
			}
			if err != nil || line != ": still here\n" {
				t.Errorf("sign %d: got %q and %v, want one every %v", i, line, err, keepAlive)
				return
			}
		}
	})
}
