package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/fatih/color"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/mattn/go-isatty"
)

// demoView shows a running demo: a line a second, coloured on a terminal.
type demoView struct {
	out    io.Writer
	json   bool
	colour *color.Color
}

func newDemoView(p process, asJSON bool) *demoView {
	v := &demoView{out: p.stdout, json: asJSON, colour: color.New(color.FgRed, color.Bold)}
	if isTerminal(p.stdout) {
		v.colour.EnableColor()
	} else {
		v.colour.DisableColor()
	}
	return v
}

// isTerminal reports whether w is a terminal that wants colours and progress.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && os.Getenv("NO_COLOR") == ""
}

func (v *demoView) say(format string, args ...any) {
	if !v.json {
		fmt.Fprintf(v.out, format+"\n", args...)
	}
}

// tick shows where the demo is.
func (v *demoView) tick(at time.Duration, t loadTotals, closed []closedCaller, lags []time.Duration) {
	lag := quantiles(lags)
	if v.json {
		names := []string{}
		for _, c := range closed {
			names = append(names, c.caller)
		}
		_ = json.NewEncoder(v.out).Encode(map[string]any{ // the summary's error is the one that counts
			"type": "tick", "seconds": math.Round(at.Seconds()*10) / 10, "admitted": t.admitted, "blocked": t.blocked, "closed": names, "lag_ms": lag,
		})
		return
	}
	line := fmt.Sprintf("%4.0fs  admitted %6d  blocked %6d  lag p50 %.1f ms", at.Seconds(), t.admitted, t.blocked, lag.P50)
	if len(closed) > 0 {
		line += "  " + v.colour.Sprint("closed: "+closedText(closed))
	}
	fmt.Fprintln(v.out, line)
}

// maxNamed is how many closed callers a line names: more would not fit a terminal.
const maxNamed = 2

func closedText(closed []closedCaller) string {
	var names []string
	for _, c := range closed[:min(maxNamed, len(closed))] {
		names = append(names, fmt.Sprintf("%s until %s", c.caller, c.until.Format("15:04:05.000")))
	}
	text := strings.Join(names, ", ")
	if more := len(closed) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// demoLag is a distribution in milliseconds.
type demoLag struct {
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Samples int     `json:"samples"`
}

// demoClosed is what became of one caller that was closed.
type demoClosed struct {
	Caller    string  `json:"caller"`
	Admitted  int64   `json:"admitted"`
	Blocked   int64   `json:"blocked"`
	Overshoot float64 `json:"overshoot"`
	Closes    int     `json:"closes"`
}

// demoSummary is the demo's last word.
type demoSummary struct {
	Type      string       `json:"type"`
	Closed    []demoClosed `json:"closed"`
	Innocents int          `json:"innocents_closed"`
	Requests  int64        `json:"requests"`
	Lag       demoLag      `json:"lag_ms"`
	Canaries  demoLag      `json:"canary_lag_ms"`
	HotPath   float64      `json:"hot_path_ns"`
	Audit     audit        `json:"audit"`
}

func (s *demoSummary) print(p process, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(s)
	}
	t := table.NewWriter()
	t.SetOutputMirror(p.stdout)
	t.AppendHeader(table.Row{"closed caller", "closes", "admitted", "blocked", "overshoot"})
	for _, c := range s.Closed {
		t.AppendRow(table.Row{c.Caller, c.Closes, c.Admitted, c.Blocked, fmt.Sprintf("%.1f %%", 100*c.Overshoot)})
	}
	t.Render()
	fmt.Fprintf(p.stdout, "innocents closed: %d\n", s.Innocents)
	fmt.Fprintf(p.stdout, "lag from request to closed gate: p50 %.1f ms, p99 %.1f ms (%d samples)\n", s.Lag.P50, s.Lag.P99, s.Lag.Samples)
	fmt.Fprintf(p.stdout, "lag of canaries, all the time: p50 %.1f ms, p99 %.1f ms (%d samples, worst server)\n", s.Canaries.P50, s.Canaries.P99, s.Canaries.Samples)
	fmt.Fprintf(p.stdout, "hot path: %.0f ns to name a caller and check its gate\n", s.HotPath)
	for _, w := range s.Audit.Wrong {
		fmt.Fprintf(p.stdout, "audit: %s\n", w)
	}
	_, err := fmt.Fprintf(p.stdout, "audit: generator %d = log %d = store %d: %s\n", s.Audit.Generator, s.Audit.Log, s.Audit.Store, s.Audit.verdict())
	return err
}

func (a *audit) ok() bool { return len(a.Wrong) == 0 && a.Generator == a.Log && a.Log == a.Store }

func (a *audit) verdict() string {
	if a.ok() {
		return "exact"
	}
	return "WRONG"
}

// verdict fails a demo that did not count right, or that closed an innocent.
func (s *demoSummary) verdict() error {
	if !s.Audit.ok() {
		return errors.New("demo: the audit found differences")
	}
	if s.Innocents > 0 {
		return fmt.Errorf("demo: %d innocent callers were closed", s.Innocents)
	}
	return nil
}
