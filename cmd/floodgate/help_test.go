package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestHelpHasAnExampleThatWorks: each subcommand has one, and it parses: no flag in it was renamed or taken away.
func TestHelpHasAnExampleThatWorks(t *testing.T) {
	var names []string
	for _, c := range subcommands() {
		names = append(names, c.name)
		example := examples()[c.name]
		args := strings.Fields(example)
		if len(args) < 2 || args[0] != "floodgate" || args[1] != c.name {
			t.Errorf("%s: got example %q, want a command line of it", c.name, example)
			continue
		}
		p, parsed := inside(&strings.Builder{}, nil), false
		p.describe = func(flags *pflag.FlagSet) {
			parsed = true
			if err := flags.Parse(args[2:]); err != nil {
				t.Errorf("%s: %v", example, err)
			}
		}
		if err := c.run(t.Context(), p, nil); !errors.Is(err, pflag.ErrHelp) || !parsed {
			t.Errorf("%s: got %v, want its flags described and nothing run", c.name, err)
		}
		out, err := runCommand(c.name, "--help")
		if !errors.Is(err, pflag.ErrHelp) || strings.Count(out, "\nExample:\n  "+example+"\n") != 1 {
			t.Errorf("%s: got %v and\n%s\nwant one example", c.name, err, out)
		}
	}
	for name := range examples() {
		if !slices.Contains(names, name) {
			t.Errorf("got an example of %s, which is no subcommand", name)
		}
	}
}

// TestHelpHasTheFlagsOfKafkaLast, under a heading, where a subcommand has some; each flag once.
func TestHelpHasTheFlagsOfKafkaLast(t *testing.T) {
	for _, c := range subcommands() {
		out, _ := runCommand(c.name, "--help")
		own, kafka, found := strings.Cut(out, "\nKafka:\n")
		speaks := slices.Contains([]string{"analyze", "sidecar", "ingest", "notify", "rejects", "decisions", "topics", "audit", "repartition"}, c.name)
		if found != speaks {
			t.Errorf("%s: got a heading for Kafka %t, want %t", c.name, found, speaks)
			continue
		}
		var all int
		p := inside(&strings.Builder{}, nil)
		p.describe = func(flags *pflag.FlagSet) {
			flags.VisitAll(func(f *pflag.Flag) {
				all++
				_, ofKafka := f.Annotations[kafkaGroup]
				want := own
				if ofKafka {
					want = kafka
				}
				if strings.Count(out, "\n      --"+f.Name+" ") != 1 || !strings.Contains("\n"+want, "\n      --"+f.Name+" ") {
					t.Errorf("%s: --%s stands in the wrong place in\n%s", c.name, f.Name, out)
				}
			})
		}
		_ = c.run(t.Context(), p, nil) // it describes itself, and no more
		if all == 0 && c.name != "formats" && c.name != "completion" {
			t.Errorf("%s: got no flags", c.name)
		}
		if speaks && (!strings.HasPrefix(kafka, "      --brokers ") || strings.Contains(own, "--tls") || strings.Contains(kafka, "--output")) {
			t.Errorf("%s: got\n%s\nwant --brokers first of those of Kafka, which are last", c.name, out)
		}
	}
}

// TestHelpOfASubcommand: floodgate help NAME is floodgate NAME --help, also where more words stand behind it.
func TestHelpOfASubcommand(t *testing.T) {
	for _, c := range subcommands() {
		want, _ := runCommand(c.name, "--help")
		for _, args := range [][]string{{"help", c.name}, {"help", c.name, "more"}} {
			if got, err := runCommand(args...); !errors.Is(err, pflag.ErrHelp) || got != want {
				t.Errorf("%q: got %v and\n%s\nwant\n%s", args, err, got, want)
			}
		}
	}
	if _, err := runCommand("help", "analyse"); !isUsage(err) || err.Error() != `got subcommand "analyse", did you mean analyze?` {
		t.Errorf("help analyse: got %v", err)
	}
}

// TestMisspeltNamesAreGuessed, and only those that are close to one that there is.
func TestMisspeltNamesAreGuessed(t *testing.T) {
	for line, want := range map[string]string{
		"analyse":                     `got subcommand "analyse", did you mean analyze?`,
		"Demo":                        `got subcommand "Demo", did you mean demo?`,
		"rule check":                  `got subcommand "rule", did you mean rules?`,
		"serve":                       `got subcommand "serve", want one of the above`,
		"topics --broker a:1":         "unknown flag: --broker (did you mean --brokers?); see floodgate topics --help",
		"topics --broker=a:1":         "unknown flag: --broker (did you mean --brokers?); see floodgate topics --help",
		"topics --partition_key-file": "unknown flag: --partition_key-file (did you mean --partition-key-file?); see floodgate topics --help",
		"topics -brokers a:1":         "unknown shorthand flag: 'b' in -brokers (did you mean --brokers?); see floodgate topics --help",
		"topics -brokers=a:1":         "unknown shorthand flag: 'b' in -brokers=a:1 (did you mean --brokers?); see floodgate topics --help",
		"topics -v":                   "unknown shorthand flag: 'v' in -v; see floodgate topics --help",
		"version --brokers a:1":       "unknown flag: --brokers; see floodgate version --help",
	} {
		if _, err := runCommand(strings.Fields(line)...); !isUsage(err) || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", line, err, want)
		}
	}
}

// TestUnknownVariablesAreWarnedOf: a misspelt one is a flag that silently has its default. What belongs to another
// subcommand, to Kubernetes or to somebody else is no mistake.
func TestUnknownVariablesAreWarnedOf(t *testing.T) {
	for entry, want := range map[string]string{
		"FLOODGATE_BROKRES=a:1":                 "FLOODGATE_BROKRES is in the environment, and there is no such flag, did you mean FLOODGATE_BROKERS?",
		"FLOODGATE_max_rows=1":                  "FLOODGATE_max_rows is in the environment, and there is no such flag, did you mean FLOODGATE_MAX_ROWS?",
		"FLOODGATE_KAFKA_BOOTSTRAP=a:1":         "FLOODGATE_KAFKA_BOOTSTRAP is in the environment, and there is no such flag",
		"FLOODGATE_=1":                          "FLOODGATE_ is in the environment, and there is no such flag",
		"FLOODGATE_\x1b[2J=1":                   `FLOODGATE_\x1b[2J is in the environment, and there is no such flag`,
		"FLOODGATE_MAX_ROWS=9":                  "", // of analyze
		"FLOODGATE_PARTITION_KEY_FILE=f":        "",
		"FLOODGATE_SERVICE_HOST=10.0.0.1":       "", // Kubernetes
		"FLOODGATE_METRICS_SERVICE_PORT=9090":   "",
		"FLOODGATE_PORT=tcp://10.0.0.1:9090":    "",
		"FLOODGATE_PORT_9090_TCP_ADDR=10.0.0.1": "",
		"FLOODGATES=1":                          "",
		"HOME=/root":                            "",
		"no equals sign":                        "",
	} {
		var out, logs strings.Builder
		p := inside(&out, nil)
		p.stderr, p.environ = &logs, func() []string { return []string{"PATH=/bin", entry} }
		if err := realMain(t.Context(), []string{"version"}, p); err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		if want != "" {
			want = "floodgate: warning: " + want + "\n"
		}
		if logs.String() != want || !strings.HasPrefix(out.String(), "floodgate ") {
			t.Errorf("%q\ngot  %q\nwant %q", entry, logs.String(), want)
		}
	}
}

// TestEachFlagIsAVariable: no two flags have one variable, and each is found again by it.
func TestEachFlagIsAVariable(t *testing.T) {
	names := allFlags(t.Context(), inside(&strings.Builder{}, nil))
	if len(names) < 100 {
		t.Fatalf("got %d flags, want those of all subcommands", len(names))
	}
	for _, name := range names {
		if v := variable(name); flagOf(v) != name || foreignVariable(v) {
			t.Errorf("--%s: got variable %s, which is of --%s, foreign %t", name, v, flagOf(v), foreignVariable(v))
		}
	}
}

// TestVersionForMachines: one object with the version that people see too.
func TestVersionForMachines(t *testing.T) {
	defer func(was string) { version = was }(version)
	version = "v1.2.3"
	out, err := runCommand("version", "--output", "json")
	var got build
	if jerr := json.Unmarshal([]byte(out), &got); err != nil || jerr != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("got %q, %v and %v, want one line of JSON", out, err, jerr)
	}
	if got != thisBuild() || got.Type != "version" || got.Version != "v1.2.3" || !strings.HasPrefix(got.Go, "go1.") || got.OS == "" || got.Arch == "" {
		t.Errorf("got %+v, want %+v", got, thisBuild())
	}
	if text, err := runCommand("version"); err != nil || !strings.HasPrefix(text, "floodgate v1.2.3 ") {
		t.Errorf("for people: got %q and %v", text, err)
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
	var set ruleCheck
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
