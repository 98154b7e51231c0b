package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // whoever asks twice does not want to wait for a clean end
	code := exitCode(realMain(ctx, os.Args[1:], process{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookup: os.LookupEnv,
	}), os.Stderr)
	stop()
	os.Exit(code)
}

// process is what a subcommand may touch of the process it runs in, so that tests can run one beside others.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookup         func(string) (string, bool) // of the environment
}

// logger returns the structured log of long-running subcommands.
func (p process) logger() *slog.Logger { return slog.New(slog.NewTextHandler(p.stderr, nil)) }

// subcommand is one word of the command line.
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
		{"rejects", "print what could not be read", runRejects},
		{"replay", "say what rules would have closed, from access logs", runReplay},
		{"rules", "check a rules file", runRules},
		{"topics", "print, create and check the Kafka topics", runTopics},
		{"audit", "count the log once more and compare it with a stopped analyzer's counts", runAudit},
		{"mirror", "write requests to another topic with more partitions, to grow", runMirror},
		{"store", "print the counts that a stopped analyzer holds", runStore},
		{"broker", "run the embedded Kafka broker, for trials and tests", runBroker},
		{"probe", "ask a URL such as /readyz, for health checks", runProbe},
		{"version", "print the version", runVersion},
	}
}

// usageError is a mistake in how the command was called; the process exits 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode prints err, if it is one, and maps it to the exit code.
func exitCode(err error, stderr io.Writer) int {
	var usage usageError
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "floodgate: %v\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "floodgate: %v\n", err)
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
		printUsage(p.stdout)
		return nil
	case "--version":
		return runVersion(ctx, p, nil)
	}
	for _, c := range subcommands() {
		if c.name == args[0] {
			return c.run(ctx, p, args[1:])
		}
	}
	printUsage(p.stderr)
	return usagef("got subcommand %q, want one of the above", args[0])
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, "floodgate throttles callers of web servers by reading their request logs through Kafka.\n\nUsage: floodgate SUBCOMMAND [flags]\n\n")
	for _, c := range subcommands() {
		fmt.Fprintf(w, "  %-9s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nEach subcommand explains its flags with --help. A flag --some-name can also be given as FLOODGATE_SOME_NAME.\n")
}
