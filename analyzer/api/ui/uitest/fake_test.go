package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/api/ui"
)

// fake is an API that says what a test wants: as many closures in force, and as many changes each second.
type fake struct {
	closures int
	every    time.Duration // from one change to the next; 0: there are none
	begun    time.Time
	status   func(*apiv1.Status) // changes the answer of /v1/status; nil: it does not
	series   func(*apiv1.Series) // changes the answer of /v1/series; nil: it does not
	rules    []apiv1.Rule
	decide   func(i int, d *apiv1.DecisionView) // changes the closures in force; nil: it does not
	explain  apiv1.Explanation
}

// serve returns its address.
func (f *fake) serve(t *testing.T) string {
	t.Helper()
	f.begun = time.Now()
	mux := http.NewServeMux()
	mux.Handle("/ui/", ui.Handler())
	answer := func(path string, v func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v()) })
	}
	answer("/v1/status", func() any {
		s := apiv1.Status{Now: time.Now(), Who: "fake", Role: "read", RulesAgree: true, Board: apiv1.BoardStatus{Ready: true, Decisions: f.closures}, Partitions: []apiv1.PartitionStatus{}, Brakes: []apiv1.Action{}, Kafka: apiv1.KafkaStatus{Reachable: true, Brokers: []string{}}}
		if f.status != nil {
			f.status(&s)
		}
		return s
	})
	answer("/v1/rules", func() any { return apiv1.Rules{Rules: append([]apiv1.Rule{}, f.rules...)} })
	answer("/v1/rules/versions", func() any { return apiv1.RulesVersions{Versions: []apiv1.RulesVersion{}} })
	answer("/v1/explain", func() any { return f.explain })
	answer("/v1/callers", func() any { return apiv1.Busy{} })
	answer("/v1/series", func() any { return f.samples() })
	mux.HandleFunc("/v1/decisions/stream", f.stream)
	s := httptest.NewServer(mux)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// samples returns those of fifteen minutes.
func (f *fake) samples() apiv1.Series {
	const n = 900
	v := apiv1.Series{From: time.Now().Truncate(time.Second).Add(-(n + 1) * time.Second), StepNS: int64(time.Second), Partitions: 1}
	for range n {
		v.Covered, v.Requests, v.Blocked, v.WouldBlock = append(v.Covered, 1), append(v.Requests, 5000), append(v.Blocked, 300), append(v.WouldBlock, 0)
		v.Closes, v.LagNS, v.Ended, v.Overshoot = append(v.Closes, 250), append(v.LagNS, 2e6), append(v.Ended, 250), append(v.Overshoot, 0.02)
	}
	if f.series != nil {
		f.series(&v)
	}
	return v
}

// stream sends all closures, and then changes: closes of callers that were not closed, and ends of the oldest closures.
func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	number := uint64(1)
	send := func(kind string, i int) {
		e := apiv1.DecisionEvent{Kind: kind, Number: number, At: time.Now()}
		if i >= 0 {
			e.Decision = f.decision(i)
		}
		data, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "event: %s\nid: %d\ndata: %s\n\n", kind, number, data)
		number++
	}
	for i := range f.closures {
		send("in_force", i)
	}
	send("current", -1)
	_ = http.NewResponseController(w).Flush()
	if f.every > 0 {
		f.change(r.Context(), w, send)
	}
	<-r.Context().Done()
}

// change sends changes until ctx ends.
func (f *fake) change(ctx context.Context, w http.ResponseWriter, send func(kind string, i int)) {
	began, tick := time.Now(), time.NewTicker(f.every)
	defer tick.Stop()
	for sent := 0; ctx.Err() == nil; {
		for due := int(time.Since(began) / f.every); sent < due; sent++ {
			if sent%2 == 0 {
				send("closed", f.closures+sent/2)
			} else {
				send("ended", sent/2)
			}
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (f *fake) decision(i int) *apiv1.DecisionView {
	at := f.begun.Add(time.Duration(i) * time.Microsecond).UTC()
	d := &apiv1.DecisionView{
		Rule: "per-key", Version: "261ab9ec50d8b5cb", Caller: apiv1.Caller{Kind: "key", ID: fmt.Sprintf("abuser-%07d", i)}, Mode: "enforce",
		CloseAt: at, Until: at.Add(time.Hour), InForce: true, Partition: i % 16, Epoch: 1795370735016, Seq: uint64(i), Count: 100, Limit: 100,
		WindowNS: int64(time.Minute), WindowFrom: at.Add(-time.Minute), Offset: int64(i), EntryTime: at, LagNS: 1500000,
	}
	if f.decide != nil {
		f.decide(i, d)
	}
	return d
}
