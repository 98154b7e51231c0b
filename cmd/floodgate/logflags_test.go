package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// logLine is a line of a log in JSON.
type logLine struct {
	Time       time.Time
	Level, Msg string
	Error      string
}

// logLines reads a log of which each line must be an object. Lines that are for people, of a subcommand that prints some, begin with a
// prefix.
func logLines(t *testing.T, output []string, people string) (lines []logLine) {
	t.Helper()
	for _, text := range output {
		if people != "" && strings.HasPrefix(text, people) {
			continue
		}
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Time.IsZero() || line.Level == "" || line.Msg == "" {
			t.Errorf("got line %q, %v, want an object with time, level and msg", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestDaemonsLogJSON: from the first line to the last, each is one object, also when a file has a hostile name.
func TestDaemonsLogJSON(t *testing.T) {
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	dir := t.TempDir()
	log := filepath.Join(dir, "\"},{\x1b[31m\xff.log")
	if err := os.WriteFile(log, []byte("not a line \x00\xff\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"analyze": {"--brokers", b.Addr(), "--rules", rulesFile(t), "--data", filepath.Join(dir, "counts"), "--session-timeout", "2s"},
		"sidecar": {"--brokers", b.Addr()},
		"ingest":  {"--brokers", b.Addr(), "--file", log, "--data", filepath.Join(dir, "positions"), "--format", "combined"},
		"notify":  {"--brokers", b.Addr(), "--config", "../../testdata/notify/accepts_everything.yaml", "--session-timeout", "2s"},
		"broker":  nil,
	} {
		s := begin(t, append([]string{name, "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"}, args...)...)
		s.WaitFor(`"msg":"listening"(.*)`, 10*time.Second)
		if name == "ingest" {
			s.WaitFor(`"msg":"(could not read|unreadable|rejected|line)?[^"]*".*not a line`, 10*time.Second)
		}
		if _, err := s.End(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		lines := logLines(t, s.Lines(), "serving Kafka on ")
		if len(lines) < 2 || lines[0].Msg != "starting "+name {
			t.Errorf("%s: got %+v, want the start first", name, lines)
		}
	}
}

// TestAnErrorThatEndsADaemonIsInItsLog: the last line of JSON says it, nothing follows, and the exit code is the same.
func TestAnErrorThatEndsADaemonIsInItsLog(t *testing.T) {
	t.Parallel()
	taken := serveKafka(t, embedded.Options{}).Addr()
	for name, args := range map[string][]string{
		"analyze": {"--brokers", taken, "--rules", rulesFile(t), "--data", t.TempDir()},
		"sidecar": {"--brokers", taken},
		"ingest":  {"--brokers", taken, "--file", "/dev/null", "--data", t.TempDir()},
		"notify":  {"--brokers", taken, "--config", "../../testdata/notify/accepts_everything.yaml"},
		"broker":  nil,
	} {
		s := begin(t, append([]string{name, "--listen", taken, "--log-format", "json"}, args...)...)
		err := s.Wait(10 * time.Second)
		lines := logLines(t, s.Lines(), "")
		if err == nil || len(lines) == 0 || lines[len(lines)-1].Level != "ERROR" || !strings.Contains(lines[len(lines)-1].Error, "address already in use") {
			t.Errorf("%s: got %v and %+v, want the error last", name, err, lines)
		}
		var more strings.Builder
		if code := command.ExitCode(err, &more); code != 1 || more.String() != "" {
			t.Errorf("%s: got code %d and %q, want 1 and nothing more", name, code, more.String())
		}
	}
}

// TestALevelHidesWhatIsBelow in both formats.
func TestALevelHidesWhatIsBelow(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		s := begin(t, "broker", "--listen", "127.0.0.1:0", "--log-level", "warn", "--log-format", format)
		s.WaitFor(`(serving Kafka) on`, 10*time.Second)
		if _, err := s.End(); err != nil {
			t.Error(err)
		}
		if lines := s.Lines(); len(lines) != 1 {
			t.Errorf("%s: got %q, want no line of level info", format, lines)
		}
	}
}

// TestLogFlags: what they take, and what they say of anything else.
func TestLogFlags(t *testing.T) {
	for _, args := range [][]string{{"--log-format", "xml"}, {"--log-format", "JSON"}, {"--log-level", "trace"}, {"--log-level", ""}, {"--log-level", "INFO+1"}} {
		_, err := runCommand(append([]string{"broker"}, args...)...)
		if !command.IsUsage(err) || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%v: got %v, want a usage error that says what is wanted", args, err)
		}
	}
}
