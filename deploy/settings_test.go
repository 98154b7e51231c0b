package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/rules"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRules loads the rules to start from.
func TestRules(t *testing.T) {
	set, err := rules.Load("rules/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range set.Warnings {
		t.Errorf("got warning %v, want none in an example", w)
	}
}

// testSettings compares the settings and commands of all files here and of the documents with what the binary has.
func testSettings(t *testing.T, floodgate *image) {
	help := func(words ...string) string {
		out, err := floodgate.command(t.Context(), nil, append(words, "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q --help: %v\n%s", words, err, out)
		}
		return string(out)
	}
	kafka := help("kafka") // what the help of each subcommand that speaks to Kafka leaves out
	has := func(help, flag string) bool { return regexp.MustCompile(`(^|\s)` + flag + `\b`).MatchString(help) }
	for command, names := range map[string][]string{
		"analyze": {"Dockerfile", "compose.yaml", "systemd/floodgate.service", "systemd/floodgate.env"},
		"ingest":  {"systemd/floodgate-ingest.service", "systemd/floodgate-ingest.env"},
		"serve":   {"compose-serve.yaml", "systemd/floodgate-serve.service", "systemd/floodgate-serve.env"},
		"notify":  {"systemd/floodgate-notify.service", "systemd/floodgate-notify.env"},
		"sidecar": {"systemd/floodgate-sidecar.service", "systemd/floodgate-sidecar.env"},
	} {
		flags := help(command) + kafka
		for _, name := range names {
			for _, v := range regexp.MustCompile(`FLOODGATE_(\w+)`).FindAllStringSubmatch(readFile(t, name), -1) {
				flag := "--" + strings.ToLower(strings.ReplaceAll(v[1], "_", "-"))
				if v[1] != "SOME_NAME" && !has(flags, flag) {
					t.Errorf("%s: got %s, want a flag of %s", name, v[0], command)
				}
			}
		}
	}
	testSubcommands(t, help("help"))
	found := 0
	for name, text := range documents(t) {
		shell := strings.Join(regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllString(text, -1), "\n")
		commands := regexp.MustCompile(`(?m)^(?:go run \./cmd/)?floodgate +(\w+)(.*)$`).FindAllStringSubmatch(shell, -1)
		commands = append(commands, regexp.MustCompile("`(?:go run \\./cmd/)?floodgate +([a-z]+)([^`]*)`").FindAllStringSubmatch(text, -1)...)
		for _, c := range commands {
			if c[1] == "partition" {
				continue // a text that FRAME.md hashes
			}
			found++
			text := help(c[1]) + kafka
			line, _, _ := strings.Cut(c[2], "#")
			for _, flag := range regexp.MustCompile(`--[a-z][a-z-]*[a-z]`).FindAllString(line, -1) {
				if flag != "--help" && !has(text, flag) {
					t.Errorf("%s: floodgate %s: got flag %s, want one that it has", name, c[1], flag)
				}
			}
		}
	}
	if found == 0 {
		t.Fatal("got no commands in the documents, want some")
	}
}

// testSubcommands compares the page of subcommands with what the binary says of itself: each once, and no other.
func testSubcommands(t *testing.T, usage string) {
	t.Helper()
	usage = regexp.MustCompile(`\n {10,}`).ReplaceAllString(usage, " ") // each summary on one line
	printed := map[string]string{}
	for _, c := range regexp.MustCompile(`(?m)^  ([a-z]+) +(\S.*)$`).FindAllStringSubmatch(usage, -1) {
		printed[c[1]] = c[2]
	}
	if len(printed) < 10 {
		t.Fatalf("got %d subcommands in\n%s\nwant all of them", len(printed), usage)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (.*) \\|$").FindAllStringSubmatch(readFile(t, "../.github/COMMANDS.md"), -1) {
		if printed[row[1]] != row[2] {
			t.Errorf("COMMANDS.md: got %s: %q, want %q, once", row[1], row[2], printed[row[1]])
		}
		delete(printed, row[1])
	}
	if len(printed) > 0 {
		t.Errorf("COMMANDS.md: got no rows for %v, want one for each subcommand", printed)
	}
}
