package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/printable"
	"github.com/509da70d/floodgate/store/rows"
)

// usageError is a mistake in how the command was called; the process exits 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Usage returns an error which says that the command was called wrongly.
func Usage(err error) error { return usageError{err} }

// Usagef is Usage of a text.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// IsUsage reports whether err says that the command was called wrongly.
func IsUsage(err error) bool {
	_, usage := errors.AsType[usageError](err)
	return usage
}

// ExitCode prints err, unless it is nil or was logged, and returns its exit code.
func ExitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if _, logged := errors.AsType[loggedError](err); !logged {
		fmt.Fprintf(stderr, "floodgate: %s\n", printable.Error(err))
	}
	switch {
	case IsUsage(err):
		return 2
	case errors.Is(err, rows.ErrNewer):
		return 3
	}
	return 1
}

// FlagsOnly refuses arguments that are no flags.
func FlagsOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Usagef("%s: got %q, want flags only", path(cmd), args)
}

// Arguments accepts from least to most arguments. want describes them in the error for another number.
func Arguments(least, most int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usagef("%s: got %q, want %s", path(cmd), args, want)
		}
		return nil
	}
}

// Unbounded is for Arguments that take any number.
const Unbounded = int(^uint(0) >> 1)

// path returns the name of a subcommand as a person types it, behind the word floodgate.
func path(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// WantSubcommand is for a command that does nothing by itself: it says which of its subcommands was probably meant.
func WantSubcommand(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	what := "want one of " + strings.Join(names, ", ")
	switch {
	case len(args) == 0 && !cmd.HasParent():
		return Usagef("want a subcommand")
	case len(args) == 0:
		return Usagef("%s: %s", path(cmd), what)
	}
	if meant := document.Closest(args[0], names); meant != "" {
		what = "did you mean " + meant + "?"
	} else if !cmd.HasParent() {
		what = "want one of the above"
	}
	if cmd.HasParent() {
		return Usagef("%s: got %q, %s", path(cmd), args[0], what)
	}
	return Usagef("got subcommand %q, %s", args[0], what)
}
