package record

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Writers, a drainer that settles in every way, and an auditor who finds nothing missing at any instant.
func TestEveryRequestIsAccountedForAtAllTimes(t *testing.T) {
	s := newServer(Options{MaxEntries: 256})
	const writers, each = 4, 5000
	var wg, drainer sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				s.request(fmt.Sprint(w, "-", i%700), "/", noon.Add(time.Duration(i)*time.Millisecond))
			}
		})
	}
	stop := make(chan struct{})
	var out uint64
	drainer.Go(func() {
		for i := 0; ; i++ {
			n := s.rec.Drain(func(_ uint64, e *schemas.Entry) {
				switch out += uint64(e.Count); i % 3 {
				case 0:
					s.rec.Acked(uint64(e.Count))
				case 1:
					s.rec.Unknown(uint64(e.Count))
				case 2:
					s.rec.Dropped(Backlog, uint64(e.Count))
				}
			})
			select {
			case <-stop:
				if n == 0 {
					return
				}
			default:
			}
		}
	})
	drainer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				conserve(t, s.rec.Stats())
			}
		}
	})
	wg.Wait()
	close(stop)
	drainer.Wait()
	st := s.rec.Stats()
	conserve(t, st)
	if st.Accepted != writers*each || st.Queued != 0 || st.Accepted != out+st.Dropped[Full]+st.Dropped[Contended] {
		t.Errorf("got %+v and %d drained, want %d accepted and all settled", st, out, writers*each)
	}
}

func TestSettlingWhatWasNotDrainedIsABug(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	New(Options{}).Acked(1)
}

func TestReasonsHaveLabels(t *testing.T) {
	seen := map[string]bool{}
	for r := range reasons {
		if seen[r.String()] || r.String() == "unknown" {
			t.Errorf("reason %d: got label %q, want one of its own", r, r)
		}
		seen[r.String()] = true
	}
	if reasons.String() != "unknown" {
		t.Errorf("got %q, want unknown", reasons)
	}
}
