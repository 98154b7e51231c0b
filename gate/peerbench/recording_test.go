package main

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

func TestServerRecordsEachCallerOfEachRequest(t *testing.T) {
	closed, asked := crowd(few, few)
	for callers, work := range map[uint64]func(*server) int{
		1: func(s *server) int { return s.oneCaller(0) },
		2: func(s *server) int { return s.twoCallers(0) },
	} {
		s := newServer(closed, asked)
		if got := work(s); got != few {
			t.Errorf("got %d requests, want %d", got, few)
		}
		s.stop()
		kinds := map[string]uint64{}
		rest := s.rec.Drain(func(_ uint64, e *schemas.Entry) {
			if e.Blocked || e.Resource != resource {
				t.Errorf("got %+v, want a request for %s that was admitted", e, resource)
			}
			kinds[e.Kind] += uint64(e.Count)
		})
		s.rec.Acked(rest)
		st := s.rec.Stats()
		if want := callers * few; st.Accepted != want || st.Acked != want {
			t.Errorf("%d callers: got %d accepted and %d acked, want %d", callers, st.Accepted, st.Acked, want)
		}
		if rest > 0 && uint64(len(kinds)) != callers {
			t.Errorf("%d callers: got kinds %v", callers, kinds)
		}
	}
}

func TestHashingServerRecordsHashes(t *testing.T) {
	closed, asked := crowd(few, few)
	s, err := newHashingServer(closed, asked)
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if s.keys.Closed(asked[0]) || !s.keys.Closed(closed[0]) {
		t.Error("got another caller closed, want those that were named in clear")
	}
	if got := s.oneCaller(0); got != few {
		t.Errorf("got %d requests, want %d", got, few)
	}
	seen := 0
	s.rec.Acked(s.rec.Drain(func(_ uint64, e *schemas.Entry) {
		if seen++; !schemas.Hashed(e.ID) {
			t.Errorf("got the id %s in clear", e.ID)
		}
	}))
	if seen == 0 {
		t.Error("got nothing recorded")
	}
}

func TestServerThatKnowsTheTimeSaysIt(t *testing.T) {
	closed, asked := crowd(1, few)
	s := newServer(closed, asked)
	defer s.stop()
	if q := s.request(); !q.At.IsZero() || q.Resource != resource {
		t.Errorf("got %+v, want the recorder to look at its clock", q)
	}
	s.timed = true
	if q := s.request(); time.Since(q.At) > time.Minute || q.Resource != resource {
		t.Errorf("got %+v, want the time now", q)
	}
}

func TestAddressesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range addresses(70_000) {
		if !a.Is4() || seen[a.String()] {
			t.Fatalf("got %v, twice or no IPv4", a)
		}
		seen[a.String()] = true
	}
}

func TestDrainEmptiesUntilItIsStopped(t *testing.T) {
	set, rec := gate.New(gate.Options{}), record.New(record.Options{})
	keys := set.Gate(peers.Kind)
	put := func() {
		var c gate.Callers
		c.Add(keys, "caller")
		rec.Record(&c, gate.Verdict{}, record.Request{})
	}
	stop := drain(rec)
	put()
	for deadline := time.Now().Add(10 * time.Second); rec.Stats().Acked != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("got nothing drained in 10 s")
		}
	}
	stop()
	put()
	time.Sleep(20 * time.Millisecond)
	if s := rec.Stats(); s.Queued != 1 || s.Acked != 1 {
		t.Errorf("got %d queued and %d acked after stop, want 1 and 1", s.Queued, s.Acked)
	}
}

func TestFloodIsReported(t *testing.T) {
	percent, err := flood(100_000)
	if err != nil {
		t.Fatal(err)
	}
	if percent < 99 || percent > 100 {
		t.Errorf("got %v %% of the flooder's requests reported, want all or nearly all", percent)
	}
}

func TestFloodThatFitsIsNone(t *testing.T) {
	if _, err := flood(100); err == nil {
		t.Error("got no error, want one: a recorder that drops nothing shows nothing")
	}
}

func TestRecordingHasARowForEach(t *testing.T) {
	b := &bench{settings: tiny(), report: &report.Report{}}
	if err := b.recording(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := b.report.Rows
	if len(rows) != 6 || rows[0].Bar.AtMost != 50 || rows[1].Bar.AtMost != 100 || rows[4].Bar.Allocs != 1 || rows[5].Bar.AtLeast != 100 {
		t.Fatalf("got %+v, want one caller, two callers, both by a server that knows the time, a hashed id, and a flood", rows)
	}
	for _, row := range rows[:5] {
		if len(row.Figures) != 2 || row.Figures[0].Value <= 0 {
			t.Errorf("got %+v, want figures at 1 and 2 CPUs", row)
		}
	}
}
