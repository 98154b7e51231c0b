package demo

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/fatih/color"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// view shows a running demo: a line a second, coloured on a terminal.
type view struct {
	out    io.Writer
	json   bool
	colour *color.Color
}

func newView(out io.Writer, asJSON bool) *view {
	v := &view{out: out, json: asJSON, colour: color.New(color.FgRed, color.Bold)}
	if terminal.Interactive(out) {
		v.colour.EnableColor()
	} else {
		v.colour.DisableColor()
	}
	return v
}

func (v *view) say(format string, args ...any) {
	if !v.json {
		fmt.Fprintf(v.out, format+"\n", args...)
	}
}

// link shows where a browser finds something.
func (v *view) link(what, address string) {
	if v.json {
		_ = printable.JSON(v.out).Encode(map[string]any{"type": "link", "address": address})
		return
	}
	fmt.Fprintf(v.out, "%s: %s\n", what, address)
}

// tick shows the state of the demo.
func (v *view) tick(at time.Duration, t totals, closed []closedCaller, lags []time.Duration) {
	lag := quantiles(lags)
	if v.json {
		names := []string{}
		for _, c := range closed {
			names = append(names, c.caller)
		}
		_ = printable.JSON(v.out).Encode(map[string]any{ // if the output fails, printing the summary fails too
			"type": "tick", "seconds": math.Round(at.Seconds()*10) / 10, "admitted": t.admitted, "blocked": t.blocked, "closed": names, "lag_ms": lag,
		})
		return
	}
	line := fmt.Sprintf("%4.0fs  admitted %6d  blocked %6d  lag p50 %.1f ms", at.Seconds(), t.admitted, t.blocked, lag.P50)
	if len(closed) > 0 {
		line += "  " + v.colour.Sprint("closed (UTC): "+closedText(closed))
	}
	fmt.Fprintln(v.out, line)
}

// maxNamed is how many closed callers a line names: more would not fit on a terminal's line.
const maxNamed = 2

func closedText(closed []closedCaller) string {
	var names []string
	for _, c := range closed[:min(maxNamed, len(closed))] {
		names = append(names, fmt.Sprintf("%s until %s", terminal.Caller(c.caller), c.until.UTC().Format("15:04:05.000")))
	}
	text := strings.Join(names, ", ")
	if more := len(closed) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
