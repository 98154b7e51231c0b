package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// Lag is a distribution in milliseconds.
type Lag struct {
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Samples int     `json:"samples"`
}

// Closed is the result of one caller that was closed.
type Closed struct {
	Caller    string  `json:"caller"`
	Admitted  int64   `json:"admitted"`
	Blocked   int64   `json:"blocked"`
	Overshoot float64 `json:"overshoot"`
	Closes    int     `json:"closes"`
}

// Summary is the result of the demo.
type Summary struct {
	Type      string   `json:"type"`
	Closed    []Closed `json:"closed"`
	Innocents int      `json:"innocents_closed"`
	Requests  int64    `json:"requests"`
	Lag       Lag      `json:"lag_ms"`
	Canaries  Lag      `json:"canary_lag_ms"`
	HotPath   float64  `json:"hot_path_ns"`
	Audit     Audit    `json:"audit"`

	Fair     *Fair      `json:"fair,omitempty"`
	Accuracy []Accuracy `json:"accuracy"` // of each half; of the whole demo if nothing was predicted
}

// Print prints the summary: as a table and lines of text, or as one JSON object.
func (s *Summary) Print(out io.Writer, asJSON bool) error {
	if asJSON {
		return printable.JSON(out).Encode(s)
	}
	t := terminal.NewTable(out, "closed caller", "closes", "admitted", "blocked", "overshoot")
	for _, c := range s.Closed {
		overshoot := fmt.Sprintf("%.1f %%", 100*c.Overshoot)
		if s.Fair != nil {
			overshoot = "–" // no caller has a limit
		}
		t.AppendRow(terminal.Cells(terminal.Caller(c.Caller), c.Closes, c.Admitted, c.Blocked, overshoot))
	}
	t.Render()
	if s.Fair != nil {
		s.Fair.show(out)
	} else {
		printAccuracy(out, s.Accuracy)
	}
	fmt.Fprintf(out, "innocents closed: %d\n", s.Innocents)
	fmt.Fprintf(out, "lag from request to closed gate: p50 %.1f ms, p99 %.1f ms (%d samples)\n", s.Lag.P50, s.Lag.P99, s.Lag.Samples)
	fmt.Fprintf(out, "lag of canaries, all the time: p50 %.1f ms, p99 %.1f ms (%d samples, worst server)\n", s.Canaries.P50, s.Canaries.P99, s.Canaries.Samples)
	fmt.Fprintf(out, "hot path: %.0f ns to name a caller and check its gate\n", s.HotPath)
	for _, w := range s.Audit.Wrong {
		fmt.Fprintf(out, "audit: %s\n", printable.Of(w))
	}
	if len(s.Audit.Reset) > 0 {
		fmt.Fprintf(out, "audit: left out, as their counts were reset by hand: %s\n", printable.Of(strings.Join(s.Audit.Reset, ", ")))
	}
	_, err := fmt.Fprintf(out, "audit: generator %d = log %d = store %d: %s\n", s.Audit.Generator, s.Audit.Log, s.Audit.Store, s.Audit.verdict())
	return err
}

// OK reports whether the three counts are equal, for each caller.
func (a *Audit) OK() bool { return len(a.Wrong) == 0 && a.Generator == a.Log && a.Log == a.Store }

func (a *Audit) verdict() string {
	if a.OK() {
		return "exact"
	}
	return "WRONG"
}

// Verdict returns an error if the three counts differ, or if an innocent was closed.
func (s *Summary) Verdict() error {
	if !s.Audit.OK() {
		return errors.New("demo: the audit found differences")
	}
	if s.Innocents > 0 {
		return fmt.Errorf("demo: %d innocent callers were closed", s.Innocents)
	}
	return nil
}
