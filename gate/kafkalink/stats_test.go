package kafkalink

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// TestStatsAreReadableAsJSON: why requests were dropped, and why decisions were refused, has a name there.
func TestStatsAreReadableAsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{Backlog: 1})
		w.kafka.SetFault(down)
		for _, id := range []string{"a", "b", "c"} {
			w.request(id)
		}
		w.start()
		pass(time.Second)
		w.shutdown()
		w.link.counts.refuse("epoch", 3)
		text, err := json.Marshal(w.link.Stats())
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Refused  map[string]uint64
			Requests struct{ Dropped map[string]uint64 }
		}
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		requests := w.link.Stats().Requests
		dropped := requests.DroppedTotal()
		if d := s.Requests.Dropped; dropped == 0 || d["full"]+d["shutdown"]+d["backlog"] != dropped || s.Refused["epoch"] != 3 {
			t.Errorf("got %s, want %d dropped by the names full, backlog or shutdown, and 3 refused by epoch", text, dropped)
		}
	})
}
