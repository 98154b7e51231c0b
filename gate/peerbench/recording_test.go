package main

import (
	"testing"

	"github.com/509da70d/floodgate/gate/peerbench/report"
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

func TestFloodIsReported(t *testing.T) {
	percent, err := flood(100_000)
	if err != nil {
		t.Fatal(err)
	}
	if percent < 99 || percent > 100 {
		t.Errorf("got %v %% of the flooder's requests reported, want all or nearly all", percent)
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
