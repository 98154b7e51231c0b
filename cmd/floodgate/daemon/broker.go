package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/version"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// Broker serves the embedded broker until it is stopped.
func Broker(p command.Process) *cobra.Command {
	var o embedded.Options
	var log command.Log
	cmd := &cobra.Command{
		Use:     "broker [flags]",
		Short:   "run the embedded Kafka broker, for trials and tests",
		Example: "floodgate broker --listen 127.0.0.1:9092 --data /tmp/kafka",
		Args:    command.FlagsOnly,
		RunE:    func(cmd *cobra.Command, _ []string) error { return broker(cmd.Context(), p, o, log) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:9092", "`host:port` to serve Kafka clients on")
	flags.StringVar(&o.Dir, "data", "", "`directory` to keep records in (default: memory only)")
	flags.BoolVar(&o.SyncWrites, "sync", false, "fsync each batch before it is acknowledged; needs --data")
	flags.DurationVar(&o.MinSession, "min-session-timeout", 0, "shortest session timeout that group members may ask for (default 6s)")
	command.Hide(flags, "min-session-timeout")
	log.Add(cmd)
	return cmd
}

func broker(ctx context.Context, p command.Process, o embedded.Options, log command.Log) (err error) {
	if err := o.Check(); err != nil {
		return command.Usagef("broker: %w", err)
	}
	defer log.Report(p, &err)
	logger := log.Logger(p)
	version.LogStart(logger, "broker")
	b, err := embedded.Start(o)
	if _, busy := errors.AsType[*net.OpError](err); busy {
		return fmt.Errorf("--listen: %w", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "serving Kafka on %s\n", b.Addr())
	logger.Info("listening", "address", b.Addr())
	<-ctx.Done()
	logger.Info("stopped")
	return b.Close()
}
