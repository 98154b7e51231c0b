package command

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestValuesOfLogFlags: what they take is what they print.
func TestValuesOfLogFlags(t *testing.T) {
	for name := range logLevels() {
		var l logLevel
		if err := l.Set(name); err != nil || l.String() != name {
			t.Errorf("%s: got %s, %v", name, l.String(), err)
		}
	}
	var f logFormat
	for _, name := range []string{"json", "text"} {
		if err := f.Set(name); err != nil || f.String() != name {
			t.Errorf("%s: got %s, %v", name, f.String(), err)
		}
	}
}

// TestRepeatsStayShortInJSON: while Kafka is away, the log says so once a minute, whatever its format.
func TestRepeatsStayShortInJSON(t *testing.T) {
	var out strings.Builder
	l := Log{json: true}.Logger(Process{Stderr: &out})
	for i := range 100 {
		l.Warn("cannot reach Kafka, trying again", "error", fmt.Errorf("dial %d: %w", i, io.ErrUnexpectedEOF))
	}
	l.Log(t.Context(), slog.LevelDebug, "not shown")
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "dial 0") {
		t.Errorf("got %s, want the first only", text)
	}
}

// TestTheTextOfAnErrorStays: without --log-format json, an error that ends a daemon is printed as before.
func TestTheTextOfAnErrorStays(t *testing.T) {
	err := io.ErrUnexpectedEOF
	Log{}.Report(Process{Stderr: io.Discard}, &err)
	var out strings.Builder
	if code := ExitCode(err, &out); code != 1 || out.String() != "floodgate: unexpected EOF\n" {
		t.Errorf("got %d and %q", code, out.String())
	}
	if code := ExitCode(errors.Join(Usagef("no"), loggedError{io.EOF}), &out); code != 2 {
		t.Errorf("got %d, want 2 of a usage error that was logged", code)
	}
}

// TestALevelThatIsNamedStays, also if it is the one that a log has without a flag.
func TestALevelThatIsNamedStays(t *testing.T) {
	for level, want := range map[string]slog.Level{"": slog.LevelWarn, "info": slog.LevelInfo, "error": slog.LevelError} {
		var l Log
		cmd := &cobra.Command{}
		l.Add(cmd)
		if level != "" {
			if err := cmd.Flags().Set("log-level", level); err != nil {
				t.Fatal(err)
			}
		}
		if l.Quiet(); slog.Level(l.level) != want {
			t.Errorf("--log-level %q: got %v, want %v", level, slog.Level(l.level), want)
		}
	}
}
