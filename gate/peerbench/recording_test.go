package main

import (
	"testing"

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
