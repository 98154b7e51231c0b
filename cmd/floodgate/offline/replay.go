package offline

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/simulate"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
	"github.com/509da70d/floodgate/schemas"
)

// maxReplayRows bounds --max-rows: the table of rows has no room for more.
const maxReplayRows = 1 << 30

// replayFlags are the flags of replay.
type replayFlags struct {
	rules        string
	mapping      option.Mapping
	callers      []string
	fields       ingest.Mapping
	layout       string
	reorder, lag time.Duration
	maxRows      int
	predict      option.Predict
	output       command.Output
}

func (f *replayFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.rules, "rules", "", "rules `file` (needed)")
	flags.DurationVar(&f.reorder, "reorder", replay.DefaultReorder, "by how much time lines may be out of order; older ones are late and dropped. If the mapping names a duration, a line is as old as its arrival")
	flags.DurationVar(&f.lag, "lag", 0, "time from a request until the decision that follows from it is in force at a gate; with it, the log passes through a simulated server (see simulate)")
	f.predict.Add(cmd)
	flags.IntVar(&f.maxRows, "max-rows", replay.DefaultMaxRows, "rules × callers with an exact count, at some 250 bytes each, taken as callers come; requests of more callers are uncounted")
	f.output.Add(cmd)
	f.mapping.Add(cmd)
	command.Section(cmd, "Fields of the log, where no mapping file says them", func(flags *pflag.FlagSet) {
		flags.StringArrayVar(&f.callers, "callers", nil,
			"callers of a kind, as kind=field, or kind=field+field for a composite one, where net and asn are fields too; can be given several times. "+
				"combined has ip, and fields user, method, resource, referer, agent; JSON has the fields of its objects, a.b for nested ones")
		flags.StringVar(&f.fields.Time, "time-field", "", `field of the time (json: "time")`)
		flags.StringVar(&f.layout, "time-layout", "auto", "auto, rfc3339, clf, unix, unix_ms, unix_us or unix_ns")
		flags.StringVar(&f.fields.Resource, "resource-field", "", "field of the path")
		flags.StringVar(&f.fields.Status, "status-field", "", "field of the HTTP status")
		flags.StringVar(&f.fields.Cost, "cost-field", "", "field of the cost")
	})
}

// config turns the flags into a configuration, without the inputs.
func (f *replayFlags) config() (replay.Config, error) {
	c := replay.Config{
		Reorder: f.reorder, Lag: f.lag, MaxRows: f.maxRows,
		Predict: f.predict.MaxWay(),
		Circuit: simulate.Circuit,
	}
	if f.rules == "" {
		return c, command.Usagef("--rules: got none, want a file")
	}
	switch {
	case f.reorder < 0:
		return c, command.Usagef("--reorder: got %v, want 0 or more", f.reorder)
	case f.lag < 0 || f.lag > schemas.MaxClosure:
		return c, command.Usagef("--lag: got %v, want 0 to %v", f.lag, schemas.MaxClosure)
	case f.maxRows < 1 || f.maxRows > maxReplayRows:
		return c, command.Usagef("--max-rows: got %d, want 1 to %d", f.maxRows, maxReplayRows)
	}
	var err error
	if c.Rules, err = f.mapping.IDs.Rules(f.rules); err != nil {
		return c, err
	}
	f.mapping.Count(c.Rules)
	c.Format, err = f.format()
	return c, err
}

// format returns the format with the mapping of the file, or of the flags.
func (f *replayFlags) format() (*ingest.Format, error) {
	m := f.fields
	for _, text := range f.callers {
		field, err := ingest.ParseCallerField(text)
		if err != nil {
			return nil, command.Usage(err)
		}
		m.Callers = append(m.Callers, field)
	}
	var err error
	if m.Layout, err = ingest.ParseTimeLayout(f.layout); err != nil {
		return nil, command.Usage(err)
	}
	if m.Client.Trusted, err = f.mapping.Trusted(); err != nil {
		return nil, err
	}
	if f.mapping.Path != "" {
		if len(m.Callers) > 0 || m.Layout != ingest.TimeAuto || m.Time+m.Resource+m.Status+m.Cost != "" {
			return nil, command.Usagef("--mapping: got flags for fields too, want one or the other")
		}
		return f.mapping.Load()
	}
	if m.IDs, err = f.mapping.IDs.Load(); err != nil {
		return nil, err
	}
	m.Callers = f.mapping.Callers(m.Callers)
	format, err := ingest.NewFormat(cmp.Or(f.mapping.Format, ingest.FormatAuto), m)
	if err != nil {
		return nil, command.Usage(err)
	}
	return format, nil
}

// Replay says what rules would have closed, from access logs.
func Replay(p command.Process) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --rules FILE [flags] [LOG...]",
		Short: "say what rules would have closed, from access logs",
		Long: "Reads the logs, plain or compressed by gzip, bzip2, xz or zstd, or standard input; counts them by the rules as the analyzer would, " +
			"and says which callers would have been closed. It needs no Kafka and blocks nobody.",
		Example: "floodgate replay --rules rules.yaml /var/log/nginx/access.log",
		RunE:    func(cmd *cobra.Command, logs []string) error { return f.run(cmd.Context(), p, logs) },
	}
	f.add(cmd)
	return cmd
}

func (f *replayFlags) run(ctx context.Context, p command.Process, logs []string) error {
	c, err := f.config()
	if err != nil {
		return err
	}
	adviseReplay(p.Stderr, c, f.mapping.IDs.HasASN())
	inputs, closeInputs, err := openInputs(p, logs)
	if err != nil {
		return err
	}
	defer closeInputs()

	out := bufio.NewWriterSize(p.Stdout, 64<<10)
	view := &replayView{out: out, measures: make(map[string]rules.Measure)}
	for _, r := range c.Rules.Rules {
		view.measures[r.Name] = r.Measure
	}
	c.Inputs, c.OnClose = inputs, view.close
	format, behind := sayFindings(p.Stderr, c.Format).Noting(nil)
	c.Format = format
	if f.output.JSON {
		enc := printable.JSON(out)
		c.OnClose = func(x replay.Close) error { return enc.Encode(x) }
	}
	bar := newReplayBar(p, f.output.JSON, inputs)
	if bar != nil {
		c.Progress = func(n int64) { _ = bar.Add64(n) } // the bar is not essential
	}
	began := time.Now()
	sum, err := replay.Run(ctx, c)
	took := time.Since(began)
	if bar != nil {
		_ = bar.Finish()
	}
	if ctx.Err() != nil {
		return errors.Join(out.Flush(), fmt.Errorf("replay: %w after %d lines", context.Cause(ctx), sum.Lines))
	}
	if f.output.JSON {
		err = errors.Join(err, printable.JSON(out).Encode(sum))
	} else {
		view.summary(sum, c, took)
	}
	for _, warning := range append(sum.Unused, behind.Advice()...) {
		fmt.Fprintf(p.Stderr, "warning: %s\n", printable.Of(warning))
	}
	return errors.Join(err, out.Flush(), allRejected(sum, c.Format))
}

// allRejected returns an error if no line could be read. It says what the first looks like.
func allRejected(s replay.Summary, f *ingest.Format) error {
	if s.Rejected == 0 || s.Rejected < s.Lines {
		return nil
	}
	for reason := range ingest.Reasons {
		if lines := s.RejectedLines[reason.String()]; len(lines) > 0 {
			return fmt.Errorf("all %d lines were rejected: format %s reads none of them; %s", s.Lines, f.Name(), f.Nearest(lines[0], reason))
		}
	}
	return nil
}

// adviseReplay warns of rules that are doubtful, and of rules whose callers this log does not have.
func adviseReplay(w io.Writer, c replay.Config, hasASN bool) {
	for _, warning := range c.Rules.Warnings {
		fmt.Fprintf(w, "warning: %s\n", printable.Error(warning))
	}
	kinds := c.Format.Kinds()
	for _, r := range c.Rules.Rules {
		switch {
		case slices.Contains(kinds, r.Kind):
		case r.Kind == schemas.KindASN && !hasASN:
			fmt.Fprintf(w, "warning: rule %s counts callers of kind asn, and no file says which addresses an autonomous system has: see --asn-file\n", printable.Of(r.Name))
		default:
			fmt.Fprintf(w, "warning: rule %s counts callers of kind %q, and no such field was named: see --callers\n", printable.Of(r.Name), r.Kind)
		}
	}
}

// openInputs opens the named logs; "-", or no name at all, is standard input.
func openInputs(p command.Process, names []string) (inputs []replay.Input, closeAll func(), err error) {
	var files []io.Closer
	closeAll = func() {
		for _, f := range files {
			_ = f.Close() // only read
		}
	}
	if len(names) == 0 {
		names = []string{"-"}
	}
	for i, name := range names {
		if name == "-" {
			if slices.Contains(names[:i], "-") {
				closeAll()
				return nil, nil, command.Usagef("replay: standard input can be read only once")
			}
			inputs = append(inputs, replay.Input{Name: "standard input", Reader: p.Stdin})
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("open log: %w", err)
		}
		files, inputs = append(files, f), append(inputs, replay.Input{Name: name, Reader: f})
	}
	return inputs, closeAll, nil
}

// newReplayBar returns a progress bar on standard error if that is a terminal to which nothing else is written, else nil.
func newReplayBar(p command.Process, asJSON bool, inputs []replay.Input) *progressbar.ProgressBar {
	if !terminal.Interactive(p.Stderr) || asJSON && terminal.Interactive(p.Stdout) {
		return nil
	}
	total := int64(0)
	for _, in := range inputs {
		f, ok := in.Reader.(*os.File)
		if !ok {
			total = -1
			break
		}
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			total = -1 // a pipe: its length is unknown
			break
		}
		total += info.Size()
	}
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.Stderr), progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("replay"))
}

// sayFindings returns the format, which says on w what auto finds out, each thing once.
func sayFindings(w io.Writer, f *ingest.Format) *ingest.Format {
	var mu sync.Mutex
	seen := make(map[string]bool) // guarded by mu
	return f.Reporting(func(found ingest.Finding) {
		mu.Lock()
		defer mu.Unlock()
		key := found.Format + strings.Join(found.Unwrap, "+")
		if seen[key] || len(seen) >= maxFindings {
			return
		}
		seen[key] = true
		for line := range strings.Lines(found.String()) {
			fmt.Fprintln(w, printable.Of(strings.TrimSuffix(line, "\n")))
		}
	})
}

// maxFindings bounds what is said of many logs.
const maxFindings = 20

// replayRows is how many closes the table shows.
const replayRows = 50

// replayView prints a run for people: a table of the closes with time and rule, and the totals.
type replayView struct {
	out      io.Writer
	closes   []replay.Close           // the first ones
	measures map[string]rules.Measure // of each rule
}

func (v *replayView) close(c replay.Close) error {
	if len(v.closes) < replayRows {
		v.closes = append(v.closes, c)
	}
	return nil
}

func (v *replayView) summary(s replay.Summary, c replay.Config, took time.Duration) {
	if s.Closes > 0 {
		v.table(s)
	}
	v.totals(s, c, took)
}

func (v *replayView) table(s replay.Summary) {
	t := terminal.NewTable(v.out, "closed at (UTC)", "for", "caller", "rule", "count", "limit")
	t.SetStyle(table.StyleLight)
	for _, c := range v.closes {
		name := c.Rule
		if c.Mode != "" {
			name += " (" + c.Mode + ")"
		}
		length := c.Until.Sub(c.CloseAt).Round(time.Millisecond).String()
		if v.measures[c.Rule] == rules.InFlight {
			length = "until one ends"
		}
		t.AppendRow(terminal.Cells(
			c.CloseAt.Format("2006-01-02 15:04:05.999"), length, terminal.Caller(c.Caller), name, c.Count, v.measures[c.Rule].Amount(c.Limit),
		))
	}
	t.Render()
	if more := s.Closes - int64(len(v.closes)); more > 0 {
		fmt.Fprintf(v.out, "… and %s more, see --output json\n", humanize.Comma(more))
	}
	fmt.Fprintln(v.out)
}

// rejected prints the first lines that could not be read, for each reason.
func (v *replayView) rejected(s replay.Summary) {
	for _, r := range slices.Sorted(maps.Keys(s.RejectedLines)) {
		for _, line := range s.RejectedLines[r] {
			fmt.Fprintf(v.out, "%-10s %12s  %s: %s\n", "", "", r, printable.Of(line))
		}
	}
}

func (v *replayView) totals(s replay.Summary, c replay.Config, took time.Duration) {
	line := func(name string, n int64, format string, args ...any) {
		fmt.Fprintf(v.out, "%-10s %12s  %s\n", name, humanize.Comma(n), fmt.Sprintf(format, args...))
	}
	line("lines", s.Lines, "%.1f s, %s lines/s", took.Seconds(), humanize.Comma(int64(float64(s.Lines)/max(took.Seconds(), 1e-6))))
	if s.Rejected > 0 {
		var reasons []string
		for _, r := range slices.Sorted(maps.Keys(s.RejectedByReason)) {
			reasons = append(reasons, fmt.Sprintf("%s %s", r, humanize.Comma(s.RejectedByReason[r])))
		}
		line("rejected", s.Rejected, "could not be read: %s", strings.Join(reasons, ", "))
		v.rejected(s)
	}
	if s.Late > 0 {
		line("late", s.Late, "more than %v older than an earlier line: dropped; a larger --reorder counts them", c.Reorder)
	}
	if s.ReorderCut > 0 {
		line("cut", s.ReorderCut, "counted early, perhaps out of order: more than %d MiB of lines, or of responses, waited; for lines, a smaller --reorder avoids that", replay.DefaultMaxBuffer>>20)
	}
	if s.Uncounted > 0 {
		line("uncounted", int64(min(s.Uncounted, 1<<62)), "of callers without a row, because the table was full: closes may be missing. --max-rows %d can be more, at some 250 bytes a row", c.MaxRows)
	}
	about := ""
	if s.CallersEstimated {
		about = "about; "
	}
	line("callers", s.Callers, "%s%s requests", about, humanize.Comma(s.Requests))
	shadow := ""
	if s.ShadowCloses > 0 {
		shadow = fmt.Sprintf("%s of them by shadow rules, which would have blocked %s more requests", humanize.Comma(s.ShadowCloses), humanize.Comma(s.ShadowBlocked))
	}
	line("closes", s.Closes, "%s", shadow)
	line("blocked", s.Blocked, "%.2f %% of the requests", 100*float64(s.Blocked)/float64(max(1, s.Requests)))
	later := ""
	if slices.ContainsFunc(s.Lasting, func(x replay.Lasting) bool { return x.OverMost > s.Overshoot }) {
		later = "; it lacks costs that became known when their window was over, see used"
	}
	fmt.Fprintf(v.out, "%-10s %11.1f%%  the largest excess of a caller over its limit%s\n", "overshoot", 100*s.Overshoot, later)
	if a := s.Accuracy; a != nil {
		v.accuracy(a, c.Lag, line)
	}
	for i := range s.Lasting {
		v.lasting(&s.Lasting[i], line)
	}
	for i := range s.Pools {
		v.pool(&s.Pools[i], line)
	}
}

// pool prints what a rule with a capacity would have done, and what the best static limit would have.
func (v *replayView) pool(x *replay.Pool, line func(name string, n int64, format string, args ...any)) {
	rule := printable.Of(x.Rule)
	if x.Contended == 0 {
		line("pool", 0, "callers limited by rule %s: they never asked for more than its capacity together", rule)
		return
	}
	line("pool", x.Limited, "callers limited by rule %s, which refused %s requests; for %s callers asked for %.2f of its capacity, and %.2f was admitted, %.2f at most",
		rule, humanize.Comma(x.Refused), seconds(x.Contended), x.Asked, x.Used, x.Most)
	line("static", x.Static, "is the best limit of each caller instead: it would admit as much on average, and refuse %s requests while there is room for all",
		humanize.Comma(x.StaticRefused))
}

// lasting prints what a rule about requests that last would have done.
func (v *replayView) lasting(x *replay.Lasting, line func(name string, n int64, format string, args ...any)) {
	rule := printable.Of(x.Rule)
	if x.Closures+x.Refused > 0 {
		line("in flight", x.Closures, "closures of rule %s because of requests in flight: they refused %s requests", rule, humanize.Comma(x.Refused))
	}
	if x.Windows > 0 {
		fmt.Fprintf(v.out, "%-10s %11.1f%%  of the limit of rule %s, in the %s windows in which as much was asked for; on average %.1f %% over it, and at most %.1f %%\n",
			"used", 100*x.Used, rule, humanize.Comma(x.Windows), 100*x.Over, 100*x.OverMost)
	}
	if x.Needless > 0 {
		line("needless", x.Needless, "requests that rule %s alone refused, because of requests in flight, in windows in which less than its limit was asked for", rule)
	}
}

// accuracy prints what a lag costs.
func (v *replayView) accuracy(a *replay.Accuracy, lag time.Duration, line func(name string, n int64, format string, args ...any)) {
	fmt.Fprintf(v.out, "%-10s %11.2f%%  the mean of all closes%s\n", "", 100*a.OvershootMean, foreseen(a.Foreseen, -1, a.Expected, a.Bound))
	if len(a.Mechanisms) > 1 {
		for _, m := range a.Mechanisms {
			fmt.Fprintf(v.out, "%-10s %11.2f%%  of %s closes %s%s\n", "", 100*m.Mean, humanize.Comma(m.Closes), closesBy(m.Name), foreseen(m.Foreseen, m.Closes, m.Expected, m.Bound))
		}
	}
	line("over", int64(min(a.Over, 1<<62)), "requests, or their cost, admitted over a limit that was reached, because decisions take %v", lag) // bounded
	if a.Early == 0 && a.Shares == 0 && a.InnocentsClosed == 0 {
		return
	}
	line("early", a.Early, "decisions ahead of time")
	line("shares", a.Shares, "decisions with a share, by which a gate lets so many requests of a caller pass in each period")
	about := ""
	if a.InnocentUncertain {
		about = "about; "
	}
	line("innocents", a.InnocentsClosed, "%scallers that their rule, alone and without a lag, never closes: %s of their requests were blocked, and none was closed for longer than %s",
		about, humanize.Comma(a.InnocentRequests), seconds(a.InnocentLongest))
}

// closesBy says what the closes of a mechanism are.
func closesBy(mechanism string) string {
	switch mechanism {
	case policy.Predicted.String():
		return "that came ahead of time"
	case policy.Shared.String():
		return "while a share held"
	}
	return "that followed the count"
}

// foreseen returns a text about the overshoot that decisions expected. closes is how many closes they expected one for: the text has
// that number, unless it is all of them.
func foreseen(closes, all int64, expected, bound float64) string {
	of := ""
	switch closes {
	case 0:
		return ""
	case all:
	default:
		of = fmt.Sprintf("of %s closes ", humanize.Comma(closes))
	}
	return fmt.Sprintf("; %s%.2f %% was expected, and at most %.2f %%", of, 100*expected, 100*bound)
}
