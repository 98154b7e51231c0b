package offline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/simulate"
	"github.com/509da70d/floodgate/cmd/floodgate/terminal"
)

// maxSeeds bounds --seeds.
const maxSeeds = 10_000

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	scenarios, predict []string
	rules              string
	mapping            option.Mapping
	list               bool
	lag, skew          time.Duration
	duration           time.Duration
	servers, seeds     int
	seed               uint64
	svg                string
	output             command.Output
}

func (f *simulateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenarios, "scenario", []string{"A"}, "`names` of scenarios, or all; --list prints them")
	flags.BoolVar(&f.list, "list", false, "print the scenarios and end")
	flags.StringSliceVar(&f.predict, "predict", []string{rules.PredictOff.String(), rules.PredictShares.String()},
		"by what `means` decisions come ahead of time, at most: "+strings.Join(rules.Predictions(), ", ")+"; of several each is run")
	flags.StringVar(&f.rules, "rules", "", "rules `file` instead of the scenario's rule; callers of scenarios are of kind "+simulate.Kind)
	flags.DurationVar(&f.lag, "lag", 0, "mean time from a request until its decision is in force (default: the scenario's)")
	flags.IntVar(&f.servers, "servers", 0, "number of servers (default: the scenario's)")
	flags.DurationVar(&f.skew, "skew", 0, "the servers' clocks are spread evenly over ± this (default: the scenario's)")
	flags.DurationVar(&f.duration, "duration", 0, "virtual time that is simulated (default: the scenario's)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the traffic and of the lag: the same seed gives the same output, to the byte")
	flags.IntVar(&f.seeds, "seeds", 1, "number of seeds, from --seed on: their windows are measured together")
	f.output.Add(cmd)
	flags.StringVar(&f.svg, "svg", "", "`file` for a picture: what was admitted in each window, of the first seed")
	f.mapping.Add(cmd)
	command.Words(cmd, "predict", rules.Predictions()...)
}

// checkNumbers returns a usage error for a number that cannot be simulated. The number of a flag that is not given is 0 here: the
// scenario's own is used.
func (f *simulateFlags) checkNumbers(given func(name string) bool) error {
	switch {
	case f.lag < 0 || f.lag > time.Hour || f.lag == 0 && given("lag"):
		return command.Usagef("--lag: got %v, want more than 0, and at most 1h", f.lag)
	case f.servers < 0 || f.servers > simulate.MaxServers || f.servers == 0 && given("servers"):
		return command.Usagef("--servers: got %d, want 1 to %d", f.servers, simulate.MaxServers)
	case f.skew < 0 || f.skew > simulate.MaxSkew:
		return command.Usagef("--skew: got %v, want 0 to %v", f.skew, simulate.MaxSkew)
	case f.duration < 0 || f.duration == 0 && given("duration"):
		return command.Usagef("--duration: got %v, want more than 0", f.duration)
	case f.seeds < 1 || f.seeds > maxSeeds:
		return command.Usagef("--seeds: got %d, want 1 to %d", f.seeds, maxSeeds)
	}
	return nil
}

// check returns the scenarios and the means of prediction to run. given says whether a flag is given.
func (f *simulateFlags) check(given func(name string) bool) (scenarios []simulate.Scenario, predict []rules.Predict, err error) {
	if err := f.checkNumbers(given); err != nil {
		return nil, nil, err
	}
	for _, name := range f.predict {
		p, err := rules.ParsePredict(name)
		if err != nil {
			return nil, nil, command.Usagef("--predict: %w", err)
		}
		predict = append(predict, p)
	}
	if slices.Equal(f.scenarios, []string{"all"}) {
		return simulate.Scenarios(), predict, nil
	}
	var names []string
	for _, s := range simulate.Scenarios() {
		names = append(names, s.Name)
	}
	for _, name := range f.scenarios {
		s, ok := simulate.Find(name)
		if !ok {
			hint := ""
			if meant := document.Closest(name, names); meant != "" {
				hint = ", did you mean " + meant + "?"
			}
			return nil, nil, command.Usagef("--scenario: got %q%s, --list prints what there is", name, hint)
		}
		scenarios = append(scenarios, s)
	}
	if len(scenarios) == 0 || len(predict) == 0 {
		return nil, nil, command.Usagef("--scenario, --predict: got none, want at least one of each")
	}
	return scenarios, predict, nil
}

// Simulate says how well callers are held to their limits.
func Simulate(p command.Process) *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate [flags] [LOG...]",
		Short: "say how far callers get over their limits, by lag and traffic",
		Long: "Runs servers, gates and the analyzer in virtual time, and measures how far callers get over their limits, beside a synchronous limiter. " +
			"The requests are those of a scenario, or, with --rules, those of access logs. It needs no Kafka. .github/ACCURACY.md says how to read the table.",
		Example: "floodgate simulate --scenario A,B-20 --lag 50ms --svg simulate.svg",
		RunE: func(cmd *cobra.Command, logs []string) error {
			return f.run(cmd.Context(), p, logs, cmd.Flags().Changed)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *simulateFlags) run(ctx context.Context, p command.Process, logs []string, given func(flag string) bool) error {
	scenarios, predict, err := f.check(given)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(p.Stdout)
	view := simulateView{out: out, asJSON: f.output.JSON}
	if f.list {
		view.list()
		return out.Flush()
	}
	o := simulate.Options{Lag: f.lag, Servers: f.servers, Skew: f.skew, Duration: f.duration}
	if f.rules != "" {
		if o.Rules, err = rules.Load(f.rules); err != nil {
			return err
		}
	}
	if len(logs) > 0 {
		if err := f.logs(ctx, p, &view, o, predict, logs); err != nil {
			view.finish()
			return errors.Join(out.Flush(), err)
		}
		scenarios = nil
	}
	for i := range scenarios {
		for _, o.Predict = range predict {
			r, err := f.scenario(ctx, p, &scenarios[i], o)
			if err != nil {
				view.finish()
				return errors.Join(out.Flush(), err)
			}
			if err := view.add(scenarios[i].Name, o.Predict, r); err != nil {
				return err
			}
		}
	}
	view.finish()
	return errors.Join(out.Flush(), f.draw(view.panels))
}

// scenario runs a scenario with all seeds.
func (f *simulateFlags) scenario(ctx context.Context, p command.Process, s *simulate.Scenario, o simulate.Options) (*simulate.Result, error) {
	bar := newSimulateBar(p, f, s.Name+", "+o.Predict.String())
	var pooled *simulate.Result
	for i := range f.seeds {
		o.Seed = f.seed + uint64(i) // f.seeds is small
		if bar != nil {
			o.Progress = func(passed, of time.Duration) {
				_ = bar.Set64((int64(i)*int64(of) + int64(passed)) / (int64(of)/1000 + 1)) // the bar is not essential
			}
		}
		r, err := s.Run(ctx, o)
		if err != nil {
			return nil, err
		}
		if pooled == nil {
			pooled = r
		} else {
			pooled.Pool(r)
		}
	}
	if bar != nil {
		_ = bar.Finish()
	}
	return pooled, nil
}

// logs runs access logs, once for each means of prediction.
func (f *simulateFlags) logs(ctx context.Context, p command.Process, view *simulateView, o simulate.Options, predict []rules.Predict, names []string) error {
	switch {
	case o.Rules == nil:
		return command.Usagef("--rules: got none, want a file where there are logs")
	case f.seeds != 1 || f.duration != 0:
		return command.Usagef("--seeds, --duration: got one of them and logs, want one or the other")
	case slices.Contains(names, "-") && len(predict) > 1:
		return command.Usagef("--predict: got %q, want one of them where the log is standard input", f.predict)
	}
	format, err := f.mapping.Load()
	if err != nil {
		return err
	}
	o.Seed = f.seed
	for i, mean := range predict {
		o.Predict = mean
		inputs, closeInputs, err := openInputs(p, names)
		if err != nil {
			return err
		}
		if i == 0 {
			format = sayFindings(p.Stderr, format)
		}
		sim := simulate.NewLog(o, format.Kinds())
		c := replay.Config{Rules: o.Rules, Format: format, Inputs: inputs, Reorder: replay.DefaultReorder}
		bar := newReplayBar(p, f.output.JSON, inputs)
		if bar != nil {
			c.Progress = func(n int64) { _ = bar.Add64(n) } // the bar is not essential
		}
		sum, err := replay.Requests(ctx, c, sim.Line)
		closeInputs()
		if bar != nil {
			_ = bar.Finish()
		}
		if err := errors.Join(err, context.Cause(ctx), allRejected(sum, format)); err != nil {
			return err
		}
		r, err := sim.Finish()
		if err != nil {
			return err
		}
		if r == nil {
			return errors.New("simulate: got logs without requests")
		}
		if err := view.add("log", mean, r); err != nil {
			return err
		}
	}
	return nil
}

// newSimulateBar returns a progress bar on standard error if that is a terminal to which nothing else is written, else nil.
func newSimulateBar(p command.Process, f *simulateFlags, what string) *progressbar.ProgressBar {
	if !terminal.Interactive(p.Stderr) || terminal.Interactive(p.Stdout) && f.output.JSON {
		return nil
	}
	return progressbar.NewOptions64(1000*int64(f.seeds), progressbar.OptionSetWriter(p.Stderr),
		progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(what))
}

// draw writes the picture, if one is wanted.
func (f *simulateFlags) draw(panels []simulate.Picture) error {
	if f.svg == "" {
		return nil
	}
	file, err := os.Create(f.svg)
	if err != nil {
		return fmt.Errorf("--svg: %w", err)
	}
	if err := errors.Join(simulate.Draw(file, panels), file.Close()); err != nil {
		return fmt.Errorf("--svg: write %s: %w", f.svg, err)
	}
	return nil
}

// simulateView prints what was measured: a row for each rule of each run, or a JSON object for each run.
type simulateView struct {
	out     io.Writer
	asJSON  bool
	table   table.Writer
	lasting table.Writer // of rules about requests that last
	pools   table.Writer // of rules with a capacity
	panels  []simulate.Picture
}

// simulated is the JSON object of a run.
type simulated struct {
	Type     string `json:"type"` // "simulation"
	Scenario string `json:"scenario"`
	Predict  string `json:"predict"`
	*simulate.Result
}

// list prints the scenarios.
func (v *simulateView) list() {
	t := terminal.NewTable(v.out, "scenario", "what")
	t.SetStyle(table.StyleLight)
	for _, s := range simulate.Scenarios() {
		t.AppendRow(terminal.Cells(s.Name, s.About))
	}
	t.Render()
}

// add takes the result of a run.
func (v *simulateView) add(scenario string, p rules.Predict, r *simulate.Result) error {
	for i := range r.Rules {
		v.panels = append(v.panels, simulate.Picture{
			Title:  fmt.Sprintf("%s, predict %s: %s, %s", scenario, p, r.Rules[i].Series.Caller, r.Rules[i].Window),
			Series: r.Rules[i].Series,
		})
	}
	if v.asJSON {
		return printable.JSON(v.out).Encode(simulated{"simulation", scenario, p.String(), r})
	}
	for i := range r.Pools {
		v.addPool(scenario, r, &r.Pools[i])
	}
	for i := range r.Rules {
		x := &r.Rules[i]
		if len(x.Limiters) > 0 {
			v.addLasting(scenario, p, r, x)
		} else {
			v.addRule(scenario, p, r, x)
		}
	}
	return nil
}

// addPool adds a row for a rule with a capacity.
func (v *simulateView) addPool(scenario string, r *simulate.Result, x *replay.Pool) {
	if v.pools == nil {
		v.pools = terminal.NewTable(v.out, "scenario", "rule", "lag", "contended", "callers limited", "refused", "asked", "admitted", "max", "static limit")
		v.pools.SetStyle(table.StyleLight)
	}
	v.pools.AppendRow(terminal.Cells(scenario, x.Rule, seconds(r.LagMean), seconds(x.Contended), x.Limited, x.Refused, percent(x.Asked), percent(x.Used),
		percent(x.Most), x.Static))
}

// addRule adds a row for a rule.
func (v *simulateView) addRule(scenario string, p rules.Predict, r *simulate.Result, x *simulate.RuleResult) {
	if v.table == nil {
		v.table = terminal.NewTable(v.out, "scenario", "predict", "rule", "lag", "admitted", "sync", "over mean", "p99", "max", "first", "lost",
			"innocents closed", "longest", "decisions/s")
		v.table.SetStyle(table.StyleLight)
	}
	v.table.AppendRow(terminal.Cells(scenario, p.String(), x.Rule, seconds(r.LagMean), percent(x.AdmittedShare), percent(x.SyncShare),
		percent(x.Overshoot.Mean), percent(x.Overshoot.P99), percent(x.Overshoot.Max), percent(x.First.Mean), percent(x.Lost),
		fmt.Sprintf("%d of %d", x.InnocentsClosed, x.Innocents), seconds(x.InnocentLongest), fmt.Sprintf("%.2f", x.DecisionRate)))
}

// addLasting adds a row for each limiter of a rule about requests that last.
func (v *simulateView) addLasting(scenario string, p rules.Predict, r *simulate.Result, x *simulate.RuleResult) {
	if v.lasting == nil {
		v.lasting = terminal.NewTable(v.out, "scenario", "predict", "rule", "lag", "limiter", "over mean", "p99", "max", "in time", "changed", "used",
			"refused", "fairness", "decisions/min")
		v.lasting.SetStyle(table.StyleLight)
	}
	for i := range x.Limiters {
		l := &x.Limiters[i]
		var inTime, changed, fairness, decisions string
		if l.Changed.N > 0 {
			changed = percent(l.Changed.Mean)
		}
		if l.Fairness > 0 {
			fairness = fmt.Sprintf("%.3f", l.Fairness)
		}
		if l.InTime.N > 0 {
			inTime = percent(l.InTime.Mean) + ", " + percent(l.InTime.P99)
		}
		if i == 0 {
			decisions = fmt.Sprintf("%.1f", 60*x.DecisionRate)
		}
		v.lasting.AppendRow(terminal.Cells(scenario, p.String(), x.Rule, seconds(r.LagMean), l.Name, percent(l.Overshoot.Mean), percent(l.Overshoot.P99),
			percent(l.Overshoot.Max), inTime, changed, percent(l.Used), percent(l.Refused), fairness, decisions))
	}
}

// finish prints the tables.
func (v *simulateView) finish() {
	if v.pools != nil {
		v.pools.Render()
		fmt.Fprintln(v.out, "\nShares of the capacity, in windows in which callers ask for more than that together. static limit: the best one of each caller instead.")
	}
	if v.table != nil {
		v.table.Render()
		fmt.Fprintln(v.out, "\nShares of the limit. admitted, sync: of the windows whose demand reached the limit, by us and by a synchronous limiter. over: by how much\n"+
			"windows exceed the limit, and the first one that reached it. lost: what the synchronous limiter admits and we do not.")
	}
	if v.table != nil && v.lasting != nil {
		fmt.Fprintln(v.out)
	}
	if v.lasting != nil {
		v.lasting.Render()
		fmt.Fprintln(v.out, "\nShares of the limit. Requests count in the window in which they arrive. over: of windows, or by the most in flight in a minute; in time: mean\n"+
			"and p99 of the seconds, by the number in flight. changed: over where the scenario changes something. used: of the limit, or of what is asked for if that is less.\n"+
			"refused: of what is asked for in windows with less than the limit. fairness: Jain's index of what clients get.")
	}
}

func percent(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
