package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := realMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

// exitCode returns the code for an error, which it writes to stderr: 0 for none, 2 for wrong usage, 1 for others.
func exitCode(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "peerbench:", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

// errUsage is a mistake in how the command was called.
var errUsage = errors.New("wrong usage")

// config holds the flags.
type config struct {
	settings settings
	json     bool
	page     string // file to rewrite; empty is none
}

func parse(args []string, stderr io.Writer) (c config, err error) {
	fs := flag.NewFlagSet("peerbench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	output := fs.String("output", "table", "table or json")
	update := fs.Bool("update", false, "rewrite the block in the file that -page names")
	page := fs.String("page", "RESULTS.md", "`file` that -update rewrites")
	s := full()
	fs.IntVar(&s.plan.Rounds, "rounds", s.plan.Rounds, "rounds of each measurement; their median counts")
	fs.DurationVar(&s.plan.Round, "round", s.plan.Round, "how long each takes")
	fs.IntVar(&s.many, "many", s.many, "callers where the cases say 1 M; fewer take less memory and time, but prove nothing")
	fs.StringVar(&s.only, "only", "", "measure only parts whose `name` contains this text: see the progress output of a whole run")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return c, err
		}
		return c, fmt.Errorf("%w: %w", errUsage, err)
	}
	switch {
	case fs.NArg() > 0:
		return c, fmt.Errorf("%w: got argument %q, want flags only", errUsage, fs.Arg(0))
	case *output != "table" && *output != "json":
		return c, fmt.Errorf("%w: -output is table or json, got %q", errUsage, *output)
	case s.only != "" && *update:
		return c, fmt.Errorf("%w: -update needs a whole run", errUsage)
	case s.plan.Rounds < 1 || s.plan.Round < time.Millisecond || s.many < minMany:
		return c, fmt.Errorf("%w: want at least 1 round, of 1ms, with %d callers", errUsage, minMany)
	}
	c = config{settings: s, json: *output == "json"}
	if *update {
		c.page = *page
	}
	return c, nil
}

func realMain(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	c, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return show(ctx, c, stdout, stderr)
}

// show measures and prints, and updates the page last.
func show(ctx context.Context, c config, stdout, stderr io.Writer) error {
	r, err := run(ctx, c.settings, stderr)
	if err != nil {
		return err
	}
	if c.json {
		err = r.WriteJSON(stdout)
	} else {
		err = r.WriteText(stdout)
	}
	if err != nil || c.page == "" {
		return err
	}
	return r.Update(c.page)
}

// settings define the measurements.
type settings struct {
	plan meter.Plan
	cpus []int  // processor counts
	many int    // number of closed callers, and of others, in the cases of 1 M
	cold int    // isolated lookups of each subject
	only string // measure only parts whose name contains this; empty is all
}

// minMany is the smallest number of callers with which all cases are different.
const minMany = 4 * few

// few is how many callers the small cases have.
const few = 1000

func full() settings {
	s := settings{plan: meter.Plan{Rounds: 5, Round: 100 * time.Millisecond}, cpus: []int{1}, many: 1_000_000, cold: 1000}
	if runtime.NumCPU() > 1 {
		s.cpus = append(s.cpus, 2)
	}
	return s
}

// run measures everything, and writes to progress which part it measures.
func run(ctx context.Context, s settings, progress io.Writer) (*report.Report, error) {
	b := &bench{settings: s, report: &report.Report{Machine: machine()}}
	b.report.Skipped = append(b.report.Skipped, "a limiter in Redis: it needs a server, and its price is the round trip")
	if s.many != full().many {
		b.report.Skipped = append(b.report.Skipped, fmt.Sprintf("the cases of 1 M callers, with %d in their place", s.many))
	}
	start := time.Now()
	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"lookups", b.lookups},
		{"decisions: lookups while they are applied, memory, time", b.applying},
		{"check and record", b.recording},
		{"middleware", b.middleware},
		{"whole requests", b.requests},
		{"limiters", b.limits},
		{"parts", b.parts},
	} {
		if !strings.Contains(part.name, s.only) {
			continue
		}
		fmt.Fprintf(progress, "%4.0f s  %s\n", time.Since(start).Seconds(), part.name)
		if err := part.measure(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	fmt.Fprintf(progress, "%4.0f s  done\n", time.Since(start).Seconds())
	return b.report, nil
}
