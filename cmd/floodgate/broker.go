package main

import (
	"context"
	"fmt"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// runBroker serves the embedded broker until it is stopped.
func runBroker(ctx context.Context, p process, args []string) (err error) {
	flags := newFlags("broker [flags]")
	var o embedded.Options
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:9092", "`host:port` to serve Kafka clients on")
	flags.StringVar(&o.Dir, "data", "", "`directory` to keep records in (default: memory only)")
	flags.BoolVar(&o.SyncWrites, "sync", false, "fsync each batch before it is acknowledged; needs --data")
	flags.DurationVar(&o.MinSession, "min-session-timeout", 0, "shortest session timeout that group members may ask for (default 6s)")
	var log logFlags
	log.add(flags)
	if err := parseFlags(p, flags, args); err != nil {
		return err
	}
	if err := flagsOnly(flags); err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return usagef("broker: %w", err)
	}
	defer log.report(p, &err)
	logger := log.logger(p)
	logStart(logger, "broker")
	b, err := embedded.Start(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "serving Kafka on %s\n", b.Addr())
	logger.Info("listening", "address", b.Addr())
	<-ctx.Done()
	logger.Info("stopped")
	return b.Close()
}
