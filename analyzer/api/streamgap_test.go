package api

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// unpack lets the events be read out of a compressed stream.
func unpack(e *events) {
	e.t.Helper()
	r, err := gzip.NewReader(e.r)
	if err != nil {
		e.t.Fatal(err)
	}
	e.r = bufio.NewReader(r)
}

// TestChangesThatComeTogetherAreSentTogether: a change after a silence is sent at once. Of those that follow, none waits longer than
// streamGap, and a stream is not written to more often than that. None is lost, and their order stays.
func TestChangesThatComeTogetherAreSentTogether(t *testing.T) {
	const changes, every = 400, time.Millisecond
	const silence = time.Minute + streamCheck/2 // does not end where a sign of life is sent
	for _, packed := range []bool{false, true} {
		inBubble(t, nil, func(w *world, _ *Server, p *pipes) {
			t := w.t
			var header []string
			if packed {
				header = append(header, "Accept-Encoding: gzip")
			}
			c := p.dial(t, streamRequest(header...))
			defer c.Close()
			e := open(t, c)
			if packed {
				unpack(e)
			}
			e.want("current", "")
			go func() {
				for i := range changes {
					if i <= 1 {
						time.Sleep(silence)
					}
					w.board.close(closing(fmt.Sprint(i), 0))
					time.Sleep(every)
				}
			}()
			began := time.Now()
			e.want("closed", "0")
			if took := time.Since(began); took != silence {
				t.Errorf("packed %v: the change after a silence came after %v, want %v", packed, took, silence)
			}
			began = began.Add(2*silence + every)
			times := make(map[time.Time]bool)
			for i := range changes - 1 {
				e.want("closed", fmt.Sprint(i+1))
				if late := time.Since(began.Add(time.Duration(i) * every)); late < 0 || late > streamGap {
					t.Errorf("packed %v: change %d came after %v, want %v at most", packed, i+1, late, streamGap)
				}
				times[time.Now()] = true
			}
			if most := int(changes*every/streamGap) + 1; len(times) > most {
				t.Errorf("packed %v: changes came at %d different times, want %d at most", packed, len(times), most)
			}
		})
	}
}

// TestAWaitingChangeIsSentBeforeTheReasonOfTheEnd: what was ready is not lost when the token goes.
func TestAWaitingChangeIsSentBeforeTheReasonOfTheEnd(t *testing.T) {
	const seen = 7 // changes before the token goes
	path, toks := tokens(t, "anna:operate", "bert:read")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(c *Config) { c.TokenFile = path }, func(w *world, _ *Server, p *pipes) {
		t := w.t
		c := p.dial(t, streamRequest("Authorization: Bearer "+toks[0]))
		defer c.Close()
		e := open(t, c)
		e.want("current", "")
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for i := 0; ; i++ {
				if i == seen {
					if err := os.WriteFile(path, []byte(strings.SplitAfter(string(text), "\n")[1]), 0o600); err != nil {
						t.Error(err)
					}
				}
				select {
				case <-stop:
					return
				case <-time.After(streamGap / 5):
					w.board.close(closing(fmt.Sprint(i), 0))
				}
			}
		}()
		for n := 0; ; n++ {
			kind, id, data, err := e.next()
			if err != nil {
				t.Fatalf("after %d changes: got %v, want why the stream ends", n, err)
			}
			if kind == "end" {
				if n < seen || string(data) != `{"why":"revoked"}` {
					t.Errorf("got the end %s after %d changes, want %d or more, and that the token was revoked", data, n, seen)
				}
				return
			}
			if id != fmt.Sprint(n+1) {
				t.Fatalf("got change %s, want %d", id, n+1)
			}
		}
	})
}
