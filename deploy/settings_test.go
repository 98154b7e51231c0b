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

// TestReadmeRules loads every rules file that the README shows.
func TestReadmeRules(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(version: .*?)```").FindAllStringSubmatch(readFile(t, "../README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("got no rules in the README, want some")
	}
	for _, b := range blocks {
		set, err := rules.Parse("README.md", []byte(b[1]))
		if err != nil {
			t.Errorf("%v\n%s", err, b[1])
			continue
		}
		for _, w := range set.Warnings {
			t.Errorf("got warning %v, want none in an example", w)
		}
	}
}

// TestReadmeLinks follows every link of the README that stays in the repository.
func TestReadmeLinks(t *testing.T) {
	for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readFile(t, "../README.md"), -1) {
		if _, err := os.Stat("../" + link[1]); err != nil {
			t.Errorf("README: %v", err)
		}
	}
}

// testSettings compares the settings and commands of all files here and of the README with what the binary has.
func testSettings(t *testing.T, floodgate *image) {
	help := func(words ...string) string {
		out, err := floodgate.command(t.Context(), nil, append(words, "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q --help: %v\n%s", words, err, out)
		}
		return string(out)
	}
	has := func(help, flag string) bool { return regexp.MustCompile(`(^|\s)` + flag + `\b`).MatchString(help) }
	analyze := help("analyze")
	if !strings.Contains(readFile(t, "../README.md"), "```text\n"+strings.TrimSpace(analyze)+"\n```") {
		t.Errorf("README: the flags of analyze are not what they are:\n%s", analyze)
	}
	for command, names := range map[string][]string{
		"analyze": {"Dockerfile", "compose.yaml", "systemd/floodgate.service", "systemd/floodgate.env"},
		"ingest":  {"systemd/floodgate-ingest.service", "systemd/floodgate-ingest.env"},
		"sidecar": {"systemd/floodgate-sidecar.service", "systemd/floodgate-sidecar.env"},
	} {
		flags := help(command)
		for _, name := range names {
			for _, v := range regexp.MustCompile(`FLOODGATE_(\w+)`).FindAllStringSubmatch(readFile(t, name), -1) {
				flag := "--" + strings.ToLower(strings.ReplaceAll(v[1], "_", "-"))
				if v[1] != "SOME_NAME" && !has(flags, flag) {
					t.Errorf("%s: got %s, want a flag of %s", name, v[0], command)
				}
			}
		}
	}
	shell := strings.Join(regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllString(readFile(t, "../README.md"), -1), "\n")
	commands := regexp.MustCompile(`(?m)^(?:go run \./cmd/)?floodgate +(\w+)(.*)$`).FindAllStringSubmatch(shell, -1)
	if len(commands) == 0 {
		t.Fatal("got no commands in the README, want some")
	}
	for _, c := range commands {
		text := help(c[1])
		line, _, _ := strings.Cut(c[2], "#")
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1) {
			if !has(text, flag) {
				t.Errorf("README: floodgate %s: got flag %s, want one that it has", c[1], flag)
			}
		}
	}
}
