package daemon

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/fatih/color"
	"github.com/schollz/progressbar/v3"

	"github.com/509da70d/floodgate/analyzer/api/ui"
	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// serveView shows a person what serve does: first what to do next, then a line a second.
type serveView struct {
	out         io.Writer
	interactive bool // out gets hints, and a line a second
	host        *host
	red         *color.Color
}

func newServeView(out io.Writer, interactive bool, h *host) *serveView {
	v := &serveView{out: out, interactive: interactive, host: h, red: color.New(color.FgRed, color.Bold)}
	if interactive {
		v.red.EnableColor()
	}
	return v
}

// run shows until ctx ends.
func (v *serveView) run(ctx context.Context) {
	v.invite()
	if v.interactive {
		address := v.host.config.listen
		if !strings.HasPrefix(address, "unix:") {
			address = v.host.asked.Address() // with the port that the system has chosen
		}
		fmt.Fprint(v.out, hints(address))
	}
	if v.host.intake != nil && v.host.config.fromStart {
		v.past(ctx)
	}
	if !v.interactive {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for before := v.totals(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := v.totals()
			fmt.Fprintln(v.out, v.line(now, before))
			before = now
		}
	}
}

// past waits until what the logs had already is counted, and then says how often each rule would have closed a caller.
func (v *serveView) past(ctx context.Context) {
	h, began := v.host, time.Now()
	var bar *progressbar.ProgressBar
	if v.interactive {
		bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(v.out), progressbar.OptionShowBytes(true),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("what is there already"))
	}
	for kafkaio.Sleep(ctx, 200*time.Millisecond) == nil {
		stats := h.feedStats()
		var read, lag int64
		for _, s := range stats.Sources {
			read, lag = read+s.Acked, lag+s.Lag
		}
		if bar != nil && read+lag > 0 {
			bar.ChangeMax64(read + lag)
			_ = bar.Set64(read) // the bar is not essential
		}
		if len(stats.Sources) < len(h.config.files) && time.Since(began) < noLog || lag > 0 || h.behind() > 0 {
			continue
		}
		if bar != nil {
			_ = bar.Finish()
		}
		v.sayPast(stats.Lines)
		return
	}
}

// noLog is how long a log that is not there yet is waited for, before the past of the others counts as read.
const noLog = 3 * time.Second

// sayPast says how often each rule would have closed a caller.
func (v *serveView) sayPast(lines uint64) {
	closes := make(map[string]uint64)
	for _, s := range v.host.analyzer.Stats() {
		for _, r := range s.Fold.Rules {
			closes[r.Rule] += r.Enforced.Closes + r.Shadowed.Closes
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(closes)) {
		v.host.logger.Info("counted what was there already", "rule", rule, "would_have_closed", closes[rule])
		if v.interactive {
			fmt.Fprintf(v.out, "in %s lines that were there already, rule %s would have closed callers %s times\n",
				humanize.Comma(int64(lines)), rule, humanize.Comma(int64(closes[rule])))
		}
	}
}

// invite prints a link to the dashboard, and after it was used another one, because each tab has a session of its own.
func (v *serveView) invite() {
	links := v.host.links
	if links == nil {
		return
	}
	show := func(text string) {
		if token, ok := links.New(); ok {
			fmt.Fprintf(v.out, "%s: http://%s%s#token=%s\n", text, v.host.apiBound.Addr(), ui.Prefix, token)
		}
	}
	links.Opened = func() { show("the link was used; another one, for another tab") }
	show("the dashboard, by a link that works once")
}

// serveTotals is what serve has done since its start, and what it holds now.
type serveTotals struct {
	at             time.Time
	read, rejected uint64 // lines, or requests that proxies asked about
	behind         int64  // bytes of files that are not read
	rows           int
	closed, shadow int // callers, by rules that block and by rules in mode shadow
	refused        uint64
	lag            time.Duration
	waits          string
}

func (v *serveView) totals() serveTotals {
	h, now := v.host, time.Now()
	t := serveTotals{at: now, refused: h.side.Stats().HTTP.Refused, waits: h.waits(now)}
	if h.intake != nil {
		s := h.feedStats()
		t.read = s.Lines
		for _, n := range s.Rejected {
			t.rejected += n
		}
		for _, source := range s.Sources {
			t.behind += source.Lag
		}
	} else {
		t.read = h.side.Stats().HTTP.Asked
	}
	for _, s := range h.analyzer.Stats() {
		t.rows += s.Fold.Rows
		t.lag = max(t.lag, s.Publish.GateLag)
		for by, n := range s.Publish.ClosedBy {
			if by.Mode == schemas.ModeShadow {
				t.shadow += n
			} else {
				t.closed += n
			}
		}
	}
	return t
}

// line is what happened in a second.
func (v *serveView) line(now, before serveTotals) string {
	what := "requests"
	if v.host.intake != nil {
		what = "lines"
	}
	if now.read < before.read { // another mapping: its feed counts from zero
		before.read = 0
	}
	rate := float64(now.read-before.read) / max(now.at.Sub(before.at).Seconds(), 1e-3)
	text := fmt.Sprintf("%s  %8s %s/s  callers x rules %s  would be closed %d",
		now.at.Format(time.TimeOnly), humanize.Comma(int64(rate)), what, humanize.Comma(int64(now.rows)), now.shadow)
	closed := fmt.Sprintf("closed %d, refused %s/s", now.closed, humanize.Comma(int64(now.refused-before.refused)))
	if now.closed > 0 {
		closed = v.red.Sprint(closed)
	}
	text += "  " + closed
	if now.lag > 0 {
		text += "  lag " + document.FormatDuration(now.lag.Round(100*time.Microsecond))
	}
	if now.rejected > 0 {
		text += fmt.Sprintf("  unreadable %s", humanize.Comma(int64(now.rejected)))
	}
	if now.behind > 1<<20 {
		text += fmt.Sprintf("  %s to read", humanize.Bytes(uint64(now.behind)))
	}
	if now.waits != "" {
		text += "  (" + now.waits + ")"
	}
	return text
}
