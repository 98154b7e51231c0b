package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestAClockThatIsSetBack is said once, and once more when it is over.
func TestAClockThatIsSetBack(t *testing.T) {
	var said bytes.Buffer
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	w := clockWatch{newest: start, logger: slog.New(slog.NewTextHandler(&said, nil))}
	for _, step := range []struct {
		at   time.Duration
		says string // empty: nothing
	}{
		{time.Second, ""}, {0, ""}, {2 * time.Second, ""}, {-time.Hour, "by=1h0m2s was=2026-03-02T12:00:02Z"}, {-time.Hour + time.Second, ""},
		{time.Second, ""}, {3 * time.Second, "where it was"}, {-time.Minute, "by=1m3s"},
	} {
		said.Reset()
		w.look(start.Add(step.at))
		if got := said.String(); (step.says == "") != (got == "") || !strings.Contains(got, step.says) {
			t.Errorf("at %v: got %q, want %q", step.at, got, step.says)
		}
	}
}
