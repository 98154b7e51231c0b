package api

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// changeOf returns a change of a caller as eventOf makes it.
func changeOf(kind string, number uint64, id string, now time.Time) apiv1.DecisionEvent {
	return eventOf(&Event{Kind: kind, Number: number, At: now, Decision: schemas.Decision{
		Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: id}, CloseAt: now.UnixNano(), Until: now.Add(time.Minute).UnixNano(),
	}}, now)
}

// hide redacts as a server with some secret does.
func hide(c *apiv1.Caller) { c.ID = "redacted:ab" }

// text returns the text of a change.
func text(t *testing.T, texts *changeTexts, v apiv1.DecisionEvent, redact func(*apiv1.Caller), packed bool) []byte {
	t.Helper()
	b, err := texts.get(&v, redact, packed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// same reports whether two texts are one and the same piece of memory.
func same(a, b []byte) bool { return &a[0] == &b[0] }

// TestAChangeIsEncodedOnce for all streams of one kind, however many ask at the same time.
func TestAChangeIsEncodedOnce(t *testing.T) {
	now := time.Now()
	v := changeOf("closed", 7, "anna", now)
	for _, packed := range []bool{false, true} {
		for _, redact := range []func(*apiv1.Caller){nil, hide} {
			texts := new(changeTexts)
			var got [10][]byte
			var g sync.WaitGroup
			for i := range got {
				g.Go(func() { got[i] = text(t, texts, v, redact, packed) })
			}
			g.Wait()
			for i := range got {
				if !same(got[0], got[i]) {
					t.Errorf("packed %v: stream %d got a text of its own", packed, i)
				}
			}
		}
	}
}

// TestStreamsShareOnlyEqualTexts: whoever asks first, each gets the text that it would get alone.
func TestStreamsShareOnlyEqualTexts(t *testing.T) {
	now := time.Now()
	later := now.Add(time.Hour) // its decision is no longer in force
	ended := changeOf("closed", 7, "anna", now)
	ended.Decision.InForce = false
	for name, other := range map[string]apiv1.DecisionEvent{
		"no longer in force": ended,
		"another kind":       changeOf("ended", 7, "anna", now),
		"another number":     changeOf("closed", 7+keptChanges, "bert", later),
		"an older number":    changeOf("closed", 7+3*keptChanges, "carl", now),
	} {
		texts := new(changeTexts)
		first := changeOf("closed", 7, "anna", now)
		for range 2 { // back and forth
			for _, v := range []apiv1.DecisionEvent{first, other} {
				for _, redact := range []func(*apiv1.Caller){nil, hide, nil} {
					var want bytes.Buffer
					if err := writeEvent(&want, &v, redact); err != nil {
						t.Fatal(err)
					}
					if got := text(t, texts, v, redact, false); !bytes.Equal(got, want.Bytes()) {
						t.Errorf("%s: got\n%s, want\n%s", name, got, want.Bytes())
					}
				}
			}
		}
	}
}

// TestARedactedTextHasNoID, in either order, compressed or not, and the change that others share keeps its own.
func TestARedactedTextHasNoID(t *testing.T) {
	for _, hiddenFirst := range []bool{false, true} {
		texts, v := new(changeTexts), changeOf("closed", 7, "anna", time.Now())
		for i := range 4 {
			var redact func(*apiv1.Caller)
			id, other := "anna", "redacted:ab"
			if (i%2 == 0) == hiddenFirst {
				redact, id, other = hide, other, id
			}
			plain, packed := text(t, texts, v, redact, false), unpacked(t, text(t, texts, v, redact, true))
			if !bytes.Contains(plain, []byte(id)) || bytes.Contains(plain, []byte(other)) || !bytes.Equal(plain, packed) {
				t.Errorf("got %s and compressed %s, want %s and not %s", plain, packed, id, other)
			}
		}
		if v.Decision.Caller.ID != "anna" {
			t.Errorf("got %s, want the change as it was", v.Decision.Caller.ID)
		}
	}
}

// unpacked returns what a client unpacks of a piece of a stream.
func unpacked(t *testing.T, piece []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(gzipHeader + string(piece)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if !errors.Is(err, io.ErrUnexpectedEOF) { // a stream is broken off
		t.Fatalf("got %v, want a stream that does not end", err)
	}
	return b
}

// TestStreamsOfAllRolesAtOnce: with redaction, a reader sees hashes and an operator ids, of the same changes, and each what its query
// asks for.
func TestStreamsOfAllRolesAtOnce(t *testing.T) {
	path, toks := tokens(t, "anna:read", "bert:operate")
	inBubble(t, func(c *Config) { c.TokenFile, c.Redact = path, true }, func(w *world, s *Server, p *pipes) {
		t := w.t
		dial := func(user int) *events {
			c := p.dial(t, streamRequest("Authorization: Bearer "+toks[user]))
			t.Cleanup(func() { _ = c.Close() })
			e := open(t, c)
			e.want("current", "")
			return e
		}
		readers, operators := []*events{dial(0), dial(0)}, []*events{dial(1), dial(1)}
		filtered := p.dial(t, strings.Replace(streamRequest("Authorization: Bearer "+toks[1]), "stream ", "stream?prefix=caller-9 ", 1))
		defer filtered.Close()
		some := open(t, filtered)
		some.want("current", "")
		for i := range 2*keptChanges + 3 {
			id := fmt.Sprintf("caller-%d", i)
			w.board.close(closing(id, 0))
			hidden := apiv1.Caller{Kind: "key", ID: id}
			redactor{on: true, secret: s.secret}.replace(&hidden)
			for j := range 2 {
				readers[j].want("closed", hidden.ID)
				operators[j].want("closed", id)
			}
			if strings.HasPrefix(id, "caller-9") {
				some.want("closed", id)
			}
		}
	})
}

// TestTextsGoWithTheirBoard: another board has other changes under the same numbers.
func TestTextsGoWithTheirBoard(t *testing.T) {
	s := &Server{}
	first, second := &Backend{}, &Backend{}
	s.Attach(first)
	texts := s.changes.Load()
	text(t, texts, changeOf("closed", 1, "anna", time.Now()), nil, false)
	s.Attach(second)
	if now := s.changes.Load(); now == texts || now.of != second || texts.of != first {
		t.Errorf("got the texts of %p, want of %p", now.of, second)
	}
	if b := text(t, s.changes.Load(), changeOf("closed", 1, "bert", time.Now()), nil, false); !bytes.Contains(b, []byte("bert")) {
		t.Errorf("got %s, want bert", b)
	}
}
