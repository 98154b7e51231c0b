package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	code := exitCode(realMain(ctx, os.Args[1:], process{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookup: os.LookupEnv, environ: os.Environ,
	}), os.Stderr)
	stop()
	os.Exit(code)
}

// process is the part of the process that a subcommand may use, so that tests can run several subcommands in one process.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookup         func(string) (string, bool) // of the environment
	environ        func() []string             // all of it, as os.Environ; nil: empty
	describe       func(*pflag.FlagSet)        // if not nil, parseFlags gives it the flags, and parses and runs nothing
}

// logger returns the structured log of long-running subcommands that have no flags for it.
func (p process) logger() *slog.Logger { return logFlags{}.logger(p) }

// subcommand is one subcommand of floodgate.
type subcommand struct {
	name    string
	summary string
	run     func(ctx context.Context, p process, args []string) error
}

func subcommands() []subcommand {
	return []subcommand{
		{"demo", "run everything in one process: broker, analyzer, three servers, load", runDemo},
		{"analyze", "count requests from Kafka and publish decisions", runAnalyze},
		{"sidecar", "answer nginx, Traefik, Caddy and Envoy whether a request may pass", runSidecar},
		{"ingest", "feed the logs of other servers, from Kafka or files, to the analyzer", runIngest},
		{"notify", "deliver events as webhooks", runNotify},
		{"formats", "print the formats of logs and their fields", runFormats},
		{"rejects", "print what could not be read", runRejects},
		{"replay", "say what rules would have closed, from access logs", runReplay},
		{"simulate", "say how far callers get over their limits, by lag and traffic", runSimulate},
		{"rules", "check a rules file; show and compare the versions in force", runRules},
		{"status", "say who owns which partition, and how far it has counted", runStatus},
		{"top", "show the busiest callers, again each second", runTop},
		{"callers", "list callers by share of their limits, count, rate or blocked requests", runCallers},
		{"explain", "say whether a caller is closed, by what, until when, and why", runExplain},
		{"decisions", "print the closed callers and, with --watch, each change", runDecisions},
		{"try", "say whether requests would pass, without counting them", runTry},
		{"close", "close a caller by hand, for a time", runClose},
		{"open", "let a caller through by hand, for a time", runOpen},
		{"limit", "give a caller another limit by hand, for a time", runLimit},
		{"reset", "let a caller's counts start from zero", runReset},
		{"mode", "put rules into mode shadow, for a time: the emergency brake", runMode},
		{"undo", "end the effect of what was done by hand", runUndo},
		{"actions", "list what was done by hand, by whom and why", runActions},
		{"token", "make a token for the API", runToken},
		{"topics", "print, create and check the Kafka topics", runTopics},
		{"audit", "count the log once more and compare it with a stopped analyzer's counts", runAudit},
		{"repartition", "write requests to another topic with more partitions, to grow", runRepartition},
		{"store", "print the counts that a stopped analyzer holds", runStore},
		{"broker", "run the embedded Kafka broker, for trials and tests", runBroker},
		{"probe", "ask a URL such as /readyz, for health checks", runProbe},
		{"completion", "print what lets bash, zsh or fish complete command lines", runCompletion},
		{"version", "print the version", runVersion},
	}
}

// usageError is a mistake in how the command was called; the process exits 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode prints err, unless it is nil or was logged, and returns its exit code.
func exitCode(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if _, logged := errors.AsType[loggedError](err); !logged {
		fmt.Fprintf(stderr, "floodgate: %s\n", printable.Error(err))
	}
	if _, usage := errors.AsType[usageError](err); usage {
		return 2
	}
	return 1
}

// realMain finds the subcommand and runs it.
func realMain(ctx context.Context, args []string, p process) error {
	if len(args) == 0 {
		printUsage(p.stderr)
		return usagef("want a subcommand")
	}
	switch args[0] {
	case "help", "-h", "--help":
		if len(args) == 1 || strings.HasPrefix(args[1], "-") {
			printUsage(p.stdout)
			return nil
		}
		args = []string{args[1], "--help"}
	case "--version":
		return runVersion(ctx, p, nil)
	case completeCommand:
		return runComplete(ctx, p, args[1:])
	}
	var names []string
	for _, c := range subcommands() {
		if c.name == args[0] {
			warnOfVariables(ctx, p)
			return c.run(ctx, p, args[1:])
		}
		names = append(names, c.name)
	}
	printUsage(p.stderr)
	if meant := document.Closest(args[0], names); meant != "" {
		return usagef("got subcommand %q, did you mean %s?", args[0], meant)
	}
	return usagef("got subcommand %q, want one of the above", args[0])
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, "floodgate throttles callers of web servers by reading their request logs through Kafka.\n\nUsage: floodgate SUBCOMMAND [flags]\n\n")
	for _, c := range subcommands() {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nEach subcommand explains its flags: floodgate help SUBCOMMAND. A flag --some-name can also be given as FLOODGATE_SOME_NAME.\n")
}
