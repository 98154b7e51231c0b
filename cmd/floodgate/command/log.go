package command

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/cmd/floodgate/repeats"
)

// Log is how a daemon writes its log. The zero value is text from level info on.
type Log struct {
	json  bool
	level logLevel
	named *pflag.Flag // --log-level; nil before Add
}

// Add adds the flags to a subcommand, under a heading.
func (l *Log) Add(cmd *cobra.Command) {
	Section(cmd, "Log", func(flags *pflag.FlagSet) {
		flags.Var((*logFormat)(&l.json), "log-format", "how the log is written: text, or json with one object in each line")
		flags.Var(&l.level, "log-level", "the least `level` that is logged: debug, info, warn or error")
		l.named = flags.Lookup("log-level")
	})
	Words(cmd, "log-format", "text", "json")
	Words(cmd, "log-level", "debug", "info", "warn", "error")
}

// Quiet makes warn the least level, unless --log-level names one.
func (l *Log) Quiet() {
	if l.named == nil || !l.named.Changed {
		l.level = logLevel(slog.LevelWarn)
	}
}

// Logger returns the log of a daemon. It does not repeat that Kafka is away: see package repeats.
func (l Log) Logger(p Process) *slog.Logger {
	handler := printable.TextHandler
	if l.json {
		handler = printable.JSONHandler
	}
	return slog.New(repeats.New(handler(p.Stderr, slog.Level(l.level))))
}

// Report is to be deferred by a daemon that logs JSON: the error that ends it is the last line of the log, in place of a line of text.
func (l Log) Report(p Process, err *error) {
	if l.json && *err != nil {
		l.Logger(p).Error("failed", "error", *err)
		*err = loggedError{*err}
	}
}

// loggedError is an error that was logged, so that ExitCode prints nothing.
type loggedError struct{ err error }

func (e loggedError) Error() string { return e.err.Error() }
func (e loggedError) Unwrap() error { return e.err }

// logFormat is --log-format: whether it is json.
type logFormat bool

func (f *logFormat) String() string {
	if *f {
		return "json"
	}
	return "text"
}

// Set reads a value of the flag.
func (f *logFormat) Set(s string) error {
	switch s {
	case "text", "json":
		*f = s == "json"
		return nil
	}
	return fmt.Errorf("got %q, want text or json", s)
}

// Type names the values in the help.
func (*logFormat) Type() string { return "format" }

// logLevel is --log-level.
type logLevel slog.Level

func logLevels() map[string]slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
}

func (l *logLevel) String() string {
	for name, level := range logLevels() {
		if level == slog.Level(*l) {
			return name
		}
	}
	return slog.Level(*l).String()
}

// Set reads a value of the flag.
func (l *logLevel) Set(s string) error {
	level, ok := logLevels()[s]
	if !ok {
		return fmt.Errorf("got %q, want debug, info, warn or error", s)
	}
	*l = logLevel(level)
	return nil
}

// Type names the values in the help.
func (*logLevel) Type() string { return "level" }
