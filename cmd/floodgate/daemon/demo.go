package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/demo"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
)

// demoFlags is the flags of demo.
type demoFlags struct {
	demo.Config

	predict option.Predict
	out     command.Output
	verbose bool
}

// maxDemo is the longest demo.
const maxDemo = 24 * time.Hour

// Demo starts a broker, an analyzer and servers, sends load, shows what happens, and audits itself.
func Demo(p command.Process) *cobra.Command {
	var c demoFlags
	cmd := &cobra.Command{
		Use:     "demo [flags]",
		Short:   "run everything in one process: broker, analyzer, three servers, load",
		Example: "floodgate demo --duration 30s --noisy 3",
		Args:    command.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(cmd.Flags().Changed("duration")); err != nil {
				return err
			}
			return c.run(cmd.Context(), p)
		},
	}
	c.add(cmd)
	return cmd
}

func (c *demoFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&c.Duration, "duration", 10*time.Second, "how long to send requests")
	flags.IntVar(&c.Quiet, "quiet", 50, "callers that keep to the limit")
	flags.IntVar(&c.Noisy, "noisy", 1, "callers that don't")
	flags.Float64Var(&c.QuietRate, "quiet-rate", 5, "requests per second of a quiet caller")
	flags.Float64Var(&c.NoisyRate, "noisy-rate", 500, "requests per second of a noisy caller")
	flags.Int64Var(&c.Limit, "limit", 100, "requests that a caller has in each window")
	flags.DurationVar(&c.Window, "window", 2*time.Second, "length of the window")
	flags.BoolVar(&c.Fair, "fair", false, "give no caller a limit: all share a capacity, half as much again as the quiet ones ask for")
	flags.IntVar(&c.Servers, "servers", 3, "web servers with a gate")
	flags.IntVar(&c.Partitions, "partitions", 4, "partitions of the topics")
	c.predict.Add(cmd)
	flags.StringVar(&c.API, "api-listen", "", "`host:port` on loopback of the API, where this machine may do everything without a token (default: none)")
	flags.BoolVar(&c.Dashboard, "dashboard", false, "print a link to the dashboard, which works once, and go on until interrupted, or for --duration if that is set")
	flags.StringVar(&c.Data, "data", "", "`directory` to keep the log and the counts in (default: a temporary one)")
	c.out.Add(cmd)
	flags.BoolVar(&c.verbose, "verbose", false, "log what all parts do")
}

// check returns a usage error if the flags are invalid. timed is whether somebody says how long it is to be.
func (c *demoFlags) check(timed bool) error {
	if c.Dashboard && !timed {
		c.Duration = maxDemo
	}
	switch {
	case c.Duration <= 0 || c.Duration > maxDemo:
		return command.Usagef("--duration: got %v, want up to 24h", c.Duration)
	case c.Quiet < 0 || c.Noisy < 0 || c.Quiet+c.Noisy == 0 || c.Quiet+c.Noisy > 10_000:
		return command.Usagef("--quiet, --noisy: got %d and %d callers, want 1 to 10000 in all", c.Quiet, c.Noisy)
	case !(c.QuietRate > 0 && c.NoisyRate > 0 && c.QuietRate <= 1e5 && c.NoisyRate <= 1e5):
		return command.Usagef("--quiet-rate, --noisy-rate: got %v and %v, want more than 0, up to 100000", c.QuietRate, c.NoisyRate)
	case c.Servers < 1 || c.Servers > 100:
		return command.Usagef("--servers: got %d, want 1 to 100", c.Servers)
	case c.Partitions < 1 || c.Partitions > 100:
		return command.Usagef("--partitions: got %d, want 1 to 100", c.Partitions)
	}
	if err := c.checkAPI(); err != nil {
		return err
	}
	if _, err := c.Rules(); err != nil {
		return command.Usagef("--limit, --window: %w", err)
	}
	if entries, err := os.ReadDir(c.Data); c.Data != "" && err == nil && len(entries) > 0 {
		return command.Usagef("--data: %s is not empty; the audit counts from nothing", c.Data)
	}
	return nil
}

// checkAPI returns a usage error unless only this machine reaches the API, where nobody needs a token.
func (c *demoFlags) checkAPI() error {
	if c.API == "" {
		return nil
	}
	at, err := netip.ParseAddrPort(c.API)
	if err != nil || !at.Addr().IsLoopback() {
		return command.Usagef("--api-listen: got %q, want an address of loopback such as 127.0.0.1:9096: this API asks for no token", c.API)
	}
	return nil
}

func (c *demoFlags) run(ctx context.Context, p command.Process) error {
	c.Predict = c.predict.MaxWay()
	c.Out, c.JSON, c.Logger = p.Stdout, c.out.JSON, slog.New(slog.DiscardHandler)
	if c.verbose {
		c.Logger = p.Logger()
	}
	signal.Ignore(syscall.SIGPIPE) // if the reader of the output ends, the demo still ends normally and removes its directory
	sum, err := demo.Run(ctx, c.Config)
	if err != nil {
		return err
	}
	return errors.Join(sum.Print(p.Stdout, c.JSON), sum.Verdict())
}
