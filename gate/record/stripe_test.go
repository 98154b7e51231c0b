package record

import (
	"fmt"
	"testing"
)

func TestBeyondTheCapTheSmallestAreDroppedAndCounted(t *testing.T) {
	s := newServer(Options{MaxEntries: 1})
	room := minStripe * len(s.rec.stripes)
	for i := range room { // no loss before the cap, although one goroutine has one processor
		s.request(fmt.Sprint("caller ", i), "/", noon)
	}
	if st := s.rec.Stats(); st.DroppedTotal() != 0 {
		t.Fatalf("got %v dropped below the cap, want none", st.Dropped)
	}
	for i := range 10 * room {
		s.request(fmt.Sprint("newcomer ", i), "/", noon)
		s.request("noisy", "/", noon)
	}
	st := s.rec.Stats()
	conserve(t, st)
	if st.Dropped[Full] < uint64(9*room) || st.Dropped[Full] != st.DroppedTotal() {
		t.Errorf("got %v dropped, want at least %d for want of room", st.Dropped, 9*room)
	}
	var noisy int
	es := s.drain(t)
	for _, e := range es {
		if e.ID == "noisy" {
			noisy += int(e.Count)
		}
	}
	if len(es) > room {
		t.Errorf("got %d entries, want at most %d", len(es), room)
	}
	if noisy < 10*room*99/100 {
		t.Errorf("got %d of the flood's %d requests, want nearly all", noisy, 10*room)
	}
	s.request("back to normal", "/", noon)
	if got := s.drain(t); len(got) != 1 {
		t.Errorf("got %d entries after the drain, want 1", len(got))
	}
}

func TestWhenEveryStripeIsTakenTheRequestIsDroppedAndCounted(t *testing.T) {
	s := newServer(Options{})
	for i := range s.rec.stripes {
		s.rec.stripes[i].takeWaiting()
	}
	s.request("k", "/", noon) // returns
	for i := range s.rec.stripes {
		s.rec.stripes[i].release()
	}
	st := s.rec.Stats()
	conserve(t, st)
	if st.Dropped[Contended] != 1 || st.Accepted != 1 {
		t.Errorf("got %+v, want 1 accepted and dropped", st)
	}
	s.rec.stripes[0].takeWaiting()
	s.request("k", "/", noon)
	s.rec.stripes[0].release()
	if st := s.rec.Stats(); st.Queued != 1 {
		t.Errorf("got %+v, want 1 queued in another stripe", st)
	}
}
