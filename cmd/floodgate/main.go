package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/daemon"
	"github.com/509da70d/floodgate/cmd/floodgate/offline"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/cmd/floodgate/remote"
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
	root := command.New(p, subcommands(p)...)
	root.AddPage(option.KafkaTopic())
	return root.Run(ctx, args)
}

// subcommands returns all subcommands of floodgate, as its help lists them.
func subcommands(p command.Process) []command.Group {
	return []command.Group{
		{Title: "To try it", Commands: []*cobra.Command{daemon.Demo(p), offline.Replay(p), offline.Simulate(p), offline.Formats(p), daemon.Broker(p)}},
		{Title: "To run it", Commands: []*cobra.Command{
			daemon.Serve(p), daemon.Migrate(p), daemon.Analyze(p), daemon.Sidecar(p), daemon.Ingest(p), daemon.Notify(p), remote.Rules(p), offline.Topics(p), offline.Repartition(p), offline.Audit(p), offline.Store(p), offline.Rejects(p), offline.Token(p), offline.Probe(p),
		}},
		{Title: "To ask it", Commands: []*cobra.Command{remote.Status(p), remote.Top(p), remote.Callers(p), remote.Explain(p), remote.Decisions(p), remote.Try(p), remote.Actions(p)}},
		{Title: "To decide about callers", Commands: []*cobra.Command{remote.Close(p), remote.Open(p), remote.Limit(p), remote.Reset(p), remote.Mode(p), remote.Undo(p)}},
		{Title: "For your shell", Commands: []*cobra.Command{offline.Version(p)}},
	}
}
