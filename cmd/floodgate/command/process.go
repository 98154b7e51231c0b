package command

import (
	"fmt"
	"io"
	"log/slog"
	"os"
)

// Process is the part of the process that a subcommand may use, so that tests can run several subcommands in one process.
type Process struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(string) (string, bool) // of the environment
	Environ        func() []string             // all of it, as os.Environ; nil: empty
}

// Logger returns the structured log of subcommands that have no flags for it.
func (p Process) Logger() *slog.Logger { return Log{}.Logger(p) }

// Name is the name under which this process claims partitions: host name and process id.
func Name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
