package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	p := command.Process{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Lookup: os.LookupEnv, Environ: os.Environ}
	code := command.ExitCode(realMain(ctx, os.Args[1:], p), os.Stderr)
	stop()
	os.Exit(code)
}

// realMain finds the subcommand and runs it.
func realMain(ctx context.Context, args []string, p command.Process) error {
	return command.New(p, subcommands(p)...).Run(ctx, args)
}

// subcommands returns all subcommands of floodgate, as its help lists them.
func subcommands(p command.Process) []command.Group {
	return []command.Group{
		{Title: "To try it", Commands: []*cobra.Command{Demo(p), Replay(p), Simulate(p), Formats(p), Broker(p)}},
		{Title: "To run it", Commands: []*cobra.Command{
			Analyze(p), Sidecar(p), Ingest(p), Notify(p), Rules(p), Topics(p), Repartition(p), Audit(p), Store(p), Rejects(p), Token(p), Probe(p),
		}},
		{Title: "To ask it", Commands: []*cobra.Command{Status(p), Top(p), Callers(p), Explain(p), Decisions(p), Try(p), Actions(p)}},
		{Title: "To decide about callers", Commands: []*cobra.Command{Close(p), Open(p), Limit(p), Reset(p), Mode(p), Undo(p)}},
		{Title: "For your shell", Commands: []*cobra.Command{Version(p)}},
	}
}
