package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/history"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// fakeEvents is a topic of events of one page each.
type fakeEvents struct {
	events []event.Event
	asked  history.Query
	err    error
}

func (f *fakeEvents) Page(_ context.Context, q history.Query) (p history.Page, err error) {
	f.asked = q
	for i := range f.events {
		if q.Keep(&f.events[i]) {
			p.Events = append(p.Events, f.events[i])
		}
	}
	if len(q.After) == 0 {
		p.Next = []int64{1, 2, 3, 4}
	}
	return p, f.err
}

func someEvents() *fakeEvents {
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	caller := event.CallerOf(schemas.Caller{Kind: "key", ID: "secret-key"})
	f := &fakeEvents{events: []event.Event{
		{Type: event.Closed, Time: at, Caller: caller, Rule: "per-key", Mode: "enforce", CloseAt: at, Until: at.Add(time.Minute), Count: 10, Limit: 10, Nth: 1},
		{Type: event.Warned, Time: at, Caller: event.CallerOf(schemas.Caller{Kind: "ip", ID: "\xff"}), Rule: "per-ip", Mode: "shadow", Count: 8, Limit: 10, Share: 0.8},
		{Type: event.Control, Time: at, Caller: caller, Action: "open", Author: "alice", Reason: "secret-key asked", Record: strings.Repeat("0", 32)},
		{Type: event.Gap, Time: at, From: 1, To: 7},
		{Type: "of a later version", Time: at},
	}}
	for i := range f.events {
		f.events[i].Identify()
	}
	return f
}

// TestSinceListsWhatHasHappened: with filters, in pages, and as the description says.
func TestSinceListsWhatHasHappened(t *testing.T) {
	w := newWorld(t)
	f := someEvents()
	w.events = f
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	const since = "/v1/decisions?since=2026-03-02T12:00:00Z"
	a := n.get(since)
	a.want(t, http.StatusOK, `"type":"closed"`)
	for _, want := range []string{`"id_base64":"/w=="`, `"share":0.8`, `"reason":"secret-key asked"`, `"to":7`, `"type":"of a later version"`, `"decisions":[]`, `"next":"`} {
		a.want(t, http.StatusOK, want)
	}
	for query, want := range map[string]int{"&caller=key:secret-key": 3, "&kind=ip": 2, "&rule=per-key": 2, "&mode=shadow": 2, "&prefix=secret": 3, "&kind=none": 1} {
		if a := n.get(since + query); strings.Count(string(a.body), `"partition":`) != want {
			t.Errorf("%s: got %s, want %d events", query, a.body, want)
		}
	}
	for _, text := range []string{"", "yesterday", "24h", "2026-03-02", "1"} {
		n.get("/v1/decisions?since="+text).want(t, http.StatusBadRequest, "RFC 3339")
	}
	n.get(since+"&limit=0").want(t, http.StatusBadRequest, "a number from 1 to 1000")
	n.get(since+"&cursor=x").want(t, http.StatusBadRequest, "next of an earlier answer")
	f.err = errors.New("away")
	n.get(since).want(t, http.StatusServiceUnavailable, "cannot read the topic of events: away")
	w.events = nil
	w.node(w.analyzer(), acting).get(since).want(t, http.StatusServiceUnavailable, "there is no topic of events")
}

// TestEventsGoOnBehindTheLastPage: the cursor says where each partition goes on.
func TestEventsGoOnBehindTheLastPage(t *testing.T) {
	w := newWorld(t)
	f := someEvents()
	w.events = f
	n := w.node(w.analyzer(0, 1, 2, 3), acting)
	const since = "/v1/decisions?since=2026-03-02T12:00:00Z"
	_, rest, _ := strings.Cut(string(n.get(since).body), `"next":"`)
	cursor, _, _ := strings.Cut(rest, `"`)
	if a := n.get(since + "&cursor=" + cursor); a.status != http.StatusOK || strings.Contains(string(a.body), `"next"`) {
		t.Errorf("got %s, want the last page", a.body)
	}
	if len(f.asked.After) != 4 || f.asked.After[3] != 4 {
		t.Errorf("got places %v, want 1 2 3 4", f.asked.After)
	}
}
