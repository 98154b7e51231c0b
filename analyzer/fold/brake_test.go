package fold

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
)

// TestTheBrakeCountsWhatPasses: while a mode record holds a quota in shadow, callers over it pass, and are counted. When the brake is let
// go, the quota is spent and the caller is closed. A rule that is in shadow by its file counts as if it had blocked them.
func TestTheBrakeCountsWhatPasses(t *testing.T) {
	for name, rule := range map[string]string{
		"a month": "limit: 100, window: month", "a bucket": "limit: 100, window: 24h, algorithm: gcra", "a sliding day": "limit: 100, window: 24h",
	} {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, "{name: quota, callers: key, "+rule+"}", "{name: trial, callers: key, mode: shadow, "+rule+"}"), Options{})
			at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC).UnixNano()
			send := func(n int, blocked bool) {
				for range n {
					at += second / 10
					f.Entry(&schemas.Entry{Time: at, Kind: "key", ID: "a", Count: 1, Blocked: blocked})
				}
			}
			send(100, false)
			send(30, true) // gates have closed it
			pull := schemas.Control{ID: controlNumber(1), Action: schemas.ControlMode, Rule: "quota", Time: at, Until: at + hour}
			if err := f.Control(&pull, 1, 1); err != nil {
				t.Fatal(err)
			}
			send(5, true) // and some gates do not know of the brake yet
			send(20, false)
			if got := totals(f); got["quota a"] != 120 || got["trial a"] != 100 {
				t.Errorf("under the brake: got %v, want 120 and 100", got)
			}
			undo := schemas.Control{ID: controlNumber(2), Action: schemas.ControlUndo, Target: pull.ID, Time: at}
			if err := f.Control(&undo, 2, 2); err != nil {
				t.Fatal(err)
			}
			send(10, true)
			for _, c := range f.View().Closures(at) {
				if c.Rule.Name == "quota" && (c.Rule.Mode != schemas.ModeEnforce || c.Closure.Peak != 120) {
					t.Errorf("after the brake: got %+v, want it closed with all that it sent", c)
				}
			}
			stats := f.Stats().Rules[0]
			if stats.Counted != 120 || stats.WouldBlock != 25 || stats.Blocked != 40 {
				t.Errorf("got %+v, want 120 counted, 25 of closed callers under the brake, and 40 refused by gates", stats)
			}
		})
	}
}
