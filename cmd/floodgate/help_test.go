package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// inside returns a process that exists only in the test: its output, and an environment.
func inside(out io.Writer, env map[string]string) command.Process {
	return command.Process{Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Lookup: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok || name+"=" == processtest.NoAPI
	}}
}

// all returns each subcommand, and the subcommands of these, by its name as a person types it.
func all() map[string]*cobra.Command {
	list := make(map[string]*cobra.Command)
	p := inside(io.Discard, nil)
	command.New(p, subcommands(p)...).Each(func(c *cobra.Command) { list[strings.TrimPrefix(c.CommandPath(), "floodgate ")] = c })
	delete(list, "help")
	return list
}

func TestFlagsOnly(t *testing.T) {
	for _, name := range []string{"analyze", "broker", "demo", "sidecar", "store", "topics", "version", "rules versions"} {
		_, err := runCommand(append(strings.Fields(name), "surprise")...)
		if want := name + `: got ["surprise"], want flags only`; !command.IsUsage(err) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestHelp: each subcommand explains itself, to whoever asks, with an example that parses: no flag in it was renamed or taken away. Each
// flag stands there once, unless it is hidden, in lines that a terminal of 80 columns does not break.
func TestHelp(t *testing.T) {
	for name, c := range all() {
		for _, ask := range []string{"--help", "-h"} {
			out, err := runCommand(append(strings.Fields(name), ask)...)
			if err != nil {
				t.Fatalf("%s %s: got %v, want help and no failure", name, ask, err)
			}
			if !strings.HasPrefix(out, "Usage: floodgate "+name) || c.Short == "" {
				t.Errorf("%s %s: got %q and %q, want its usage, and a summary", name, ask, out, c.Short)
			}
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				want := 1
				if f.Hidden || f.Name == "help" {
					want = 0
				}
				if got := strings.Count(out, "\n      --"+f.Name+" "); got != want {
					t.Errorf("%s: got --%s %d times in\n%s\nwant it %d times", name, f.Name, got, out, want)
				}
			})
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(line); n > 81 {
					t.Errorf("%s: got a line of %d characters: %s", name, n-1, line)
				}
			}
		}
		printed, _ := runCommand(append(strings.Fields(name), "--help")...)
		if _, printed, _ = strings.Cut(printed, "\nExample:\n"); c.Example != "" {
			printed, _, _ = strings.Cut(printed, "\n\n")
			if got := strings.Join(strings.Fields(strings.ReplaceAll(printed, "\\\n", "")), " "); got != c.Example {
				t.Errorf("%s: got example %q, want %q in lines that a shell joins", name, got, c.Example)
			}
		}
		args := strings.Fields(c.Example)
		if words := strings.Fields("floodgate " + name); len(args) < len(words) || !slices.Equal(args[:len(words)], words) && c.Runnable() && !c.HasSubCommands() {
			t.Errorf("%s: got example %q, want a command line of it", name, c.Example)
		} else if err := c.ParseFlags(args[len(words):]); err != nil {
			t.Errorf("%s: %v", c.Example, err)
		}
	}
}

// TestHelpHasTheFlagsThatAreNeededFirst: those of the usage line.
func TestHelpHasTheFlagsThatAreNeededFirst(t *testing.T) {
	for name, c := range all() {
		out, _ := runCommand(append(strings.Fields(name), "--help")...)
		_, flags, _ := strings.Cut(out, "\nFlags:\n")
		needed := regexp.MustCompile(`--(\S+) `).FindAllString(c.Use, -1)
		listed := regexp.MustCompile(`(?m)^      --(\S+) `).FindAllString(flags, len(needed))
		for i := range listed {
			listed[i] = strings.TrimLeft(listed[i], " ")
		}
		slices.Sort(listed)
		slices.Sort(needed)
		if !slices.Equal(listed, needed) {
			t.Errorf("%s: got %q first, want %q", name, listed, needed)
		}
	}
}

// TestHelpHasTheFlagsOfKafkaLast, under a heading, where a subcommand has some. But the brokers, which everybody gives, come first.
func TestHelpHasTheFlagsOfKafkaLast(t *testing.T) {
	for name := range all() {
		out, _ := runCommand(append(strings.Fields(name), "--help")...)
		own, kafka, found := strings.Cut(out, "\nKafka:\n")
		speaks := slices.Contains([]string{"analyze", "sidecar", "ingest", "notify", "migrate", "rejects", "decisions", "topics", "audit", "repartition"}, name)
		if found != speaks || speaks != strings.Contains(own, "\n      --brokers ") {
			t.Errorf("%s: got a heading for Kafka %t, want %t, and --brokers above it:\n%s", name, found, speaks, out)
		}
		if speaks && (strings.Contains(own, "--topic-") || strings.Contains(kafka, "--output") || strings.Contains(kafka, "--log-level")) {
			t.Errorf("%s: got\n%s\nwant the flags of Kafka last", name, out)
		}
	}
}

// TestSubcommandsAreListed for whoever asks, and on standard error for whoever asks for none that there is.
func TestSubcommandsAreListed(t *testing.T) {
	for _, ask := range []string{"help", "-h", "--help", "help --help"} {
		out, err := runCommand(strings.Fields(ask)...)
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(line); n > 81 {
				t.Errorf("%s: got a line of %d characters: %s", ask, n-1, line)
			}
		}
		if err != nil {
			t.Errorf("%s: got %v, want none", ask, err)
		}
		for name := range all() {
			if !strings.Contains(name, " ") && !strings.Contains(out, "\n  "+name+" ") {
				t.Errorf("%s: got no line about %s", ask, name)
			}
		}
	}
	for _, args := range [][]string{nil, {""}, {"Demo"}, {"--demo"}, {"nonsense"}, {"help", "nonsense"}} {
		var out, logs strings.Builder
		p := inside(&out, nil)
		p.Stderr = &logs
		if err := realMain(t.Context(), args, p); !command.IsUsage(err) || out.Len() > 0 || !strings.Contains(logs.String(), "analyze") {
			t.Errorf("%q: got %v, %q and %q, want a usage error and what there is, on standard error", args, err, out.String(), logs.String())
		}
	}
}

// TestHelpOfASubcommand: floodgate help NAME is floodgate NAME --help, also where more words stand behind it.
func TestHelpOfASubcommand(t *testing.T) {
	for name := range all() {
		words := strings.Fields(name)
		want, _ := runCommand(append(words, "--help")...)
		for _, args := range [][]string{append([]string{"help"}, words...), append(append([]string{"help"}, words...), "more")} {
			if got, err := runCommand(args...); err != nil || got != want {
				t.Errorf("%q: got %v and\n%s\nwant\n%s", args, err, got, want)
			}
		}
	}
	if _, err := runCommand("help", "analyse"); !command.IsUsage(err) || err.Error() != `got subcommand "analyse", did you mean analyze?` {
		t.Errorf("help analyse: got %v", err)
	}
}

// TestMisspeltNamesAreGuessed, and only those that are close to one that there is.
func TestMisspeltNamesAreGuessed(t *testing.T) {
	for line, want := range map[string]string{
		"analyse":                     `got subcommand "analyse", did you mean analyze?`,
		"Demo":                        `got subcommand "Demo", did you mean demo?`,
		"rule check":                  `got subcommand "rule", did you mean rules?`,
		"rules chek":                  `rules: got "chek", did you mean check?`,
		"rules":                       `rules: want one of check, diff, show, versions`,
		"notify tset":                 `notify: got ["tset"], want no arguments, check FILE, secret, or test ENDPOINT`,
		"limits":                      `got subcommand "limits", did you mean limit?`,
		"throttle":                    `got subcommand "throttle", want one of the above`,
		"topics --broker a:1":         "unknown flag: --broker (did you mean --brokers?); see floodgate topics --help",
		"topics --broker=a:1":         "unknown flag: --broker (did you mean --brokers?); see floodgate topics --help",
		"topics --partition_key-file": "unknown flag: --partition_key-file (did you mean --partition-key-file?); see floodgate topics --help",
		"topics -brokers a:1":         "unknown shorthand flag: 'b' in -brokers (did you mean --brokers?); see floodgate topics --help",
		"topics -brokers=a:1":         "unknown shorthand flag: 'b' in -brokers=a:1 (did you mean --brokers?); see floodgate topics --help",
		"topics -v":                   "unknown shorthand flag: 'v' in -v; see floodgate topics --help",
		"version --brokers a:1":       "unknown flag: --brokers; see floodgate version --help",
	} {
		if _, err := runCommand(strings.Fields(line)...); !command.IsUsage(err) || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", line, err, want)
		}
	}
}

// TestDaemonsSayWhatTheyAre: the first line of a log has the version, and the rules of an analyzer; metrics have the build.
func TestDaemonsSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	dir, rules := t.TempDir(), rulesFile(t)
	log := filepath.Join(dir, "access.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	checked, err := runCommand("rules", "check", "--output", "json", rules)
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ ID string }
	if err := json.Unmarshal([]byte(checked), &set); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		line string
	}{
		"analyze": {[]string{"--rules", rules, "--data", filepath.Join(dir, "counts"), "--session-timeout", "2s"}, `rules=` + set.ID + ` rule_count=1 file=\S+rules.yaml`},
		"sidecar": {nil, ""},
		"ingest":  {[]string{"--file", log, "--data", filepath.Join(dir, "positions")}, ""},
	} {
		p := begin(t, append([]string{name, "--brokers", b.Addr(), "--listen", "127.0.0.1:0"}, test.args...)...)
		p.WaitFor(`msg="(starting `+name+` ?)" version=\S+ revision=\S+`+strings.TrimSuffix(" "+test.line, " "), 10*time.Second)
		url := "http://" + p.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		if !matches(`(?m)^floodgate_build_info\{go="go1\.\S+",revision="\w*",version="\S+"\} 1$`, metrics) {
			t.Errorf("%s: got\n%s\nwant floodgate_build_info", name, metrics)
		}
		if _, err := p.End(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version"} {
		out, err := runCommand(word)
		if fields := strings.Fields(out); err != nil || len(fields) != 4 || fields[0] != "floodgate" || !strings.HasPrefix(fields[2], "go1.") {
			t.Errorf("%s: got %q and %v, want floodgate, its version, Go's and the platform", word, out, err)
		}
	}
}
