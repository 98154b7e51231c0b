package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Goroutines that record, one that drains and reports every outcome, and one that finds no request missing at any time.
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
		for i, stopped := 0, false; ; i++ {
			select {
			case <-stop:
				stopped = true
			default:
			}
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
			if stopped && n == 0 { // not what was drained before the last was written
				return
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

// TestReasonsHaveNamesInJSON, as in metrics: a number says nothing to whoever reads it.
func TestReasonsHaveNamesInJSON(t *testing.T) {
	s := Stats{Dropped: make(map[Reason]uint64)}
	for r := range reasons {
		s.Dropped[r] = uint64(r) + 1
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `"Dropped":{"backlog":3,"clock_ahead":5,"contended":2,"full":1,"invalid":7,"refused":4,"shutdown":8,"undelivered":6}`
	if !strings.Contains(string(text), want) {
		t.Errorf("got %s, want %s", text, want)
	}
	var again Stats
	if err := json.Unmarshal(text, &again); err != nil || !maps.Equal(again.Dropped, s.Dropped) {
		t.Errorf("read again: got %v and %v, want %v", again.Dropped, err, s.Dropped)
	}
	for _, name := range []string{"", "unknown", "FULL", "0"} {
		if r := Shutdown; r.UnmarshalText([]byte(name)) == nil || r != Shutdown {
			t.Errorf("%q: got %v and no error", name, r)
		}
	}
}
