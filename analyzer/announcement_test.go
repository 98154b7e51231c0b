package analyzer

import (
	"testing"
	"time"
)

// TestASnapshotWaitsForItsEvents: an owner that starts from a snapshot cannot tell what happened before its end.
func TestASnapshotWaitsForItsEvents(t *testing.T) {
	t.Parallel()
	var a announcement
	var acked uint64
	now := time.Unix(0, 0)
	for i, s := range []struct {
		after    time.Duration
		newest   uint64 // event when the last snapshot ended
		acked    uint64
		complete int64
		want     int64
	}{
		{0, 0, 0, 7, 7},             // that of the owner before
		{time.Second, 5, 4, 20, 7},  // complete, and one event waits
		{time.Second, 5, 5, 20, 20}, // now it is written
		{time.Second, 9, 5, 20, 20}, // the next is not complete
		{time.Second, 9, 5, 30, 20}, // complete, and the topic takes nothing
		{29 * time.Second, 9, 5, 30, 20},
		{time.Second, 9, 5, 30, 30},   // for half a minute: an owner that starts from it writes a gap
		{time.Second, 12, 12, 40, 40}, // and so on
	} {
		if i == 0 {
			a.begin(s.complete)
		}
		now, acked = now.Add(s.after), s.acked
		a.ends(s.newest)
		if got := a.next(s.complete, now, func(n uint64) bool { return n <= acked }); got != s.want {
			t.Errorf("step %d: got %d, want %d", i, got, s.want)
		}
	}
}
