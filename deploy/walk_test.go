package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// walkPages are the pages that a newcomer follows command by command.
var walkPages = []string{"../README.md", "nginx/README.md", "../.github/OPERATING.md", "SERVE.md"}

// shellCommands returns the commands that a page shows in blocks, without their comments.
func shellCommands(t *testing.T, page string) []string {
	t.Helper()
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readFile(t, page), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", "")) {
			command, _, _ := strings.Cut(line, " #")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// TestCommandsCanBePasted: a reader who pastes a page's commands in a clone, one after the other, has each program and file that
// they name, and each command ends or runs in the background.
func TestCommandsCanBePasted(t *testing.T) {
	files := 0
	for _, page := range walkPages {
		installed := false
		for _, command := range shellCommands(t, page) {
			words := strings.Fields(command)
			installed = installed || strings.HasPrefix(command, "go install ./cmd/floodgate") || strings.HasPrefix(command, "go build -o /usr/local/bin/floodgate")
			if words[0] == "floodgate" {
				if !installed {
					t.Errorf("%s: got %q before floodgate is installed", page, command)
				}
				daemon := slices.Contains([]string{"migrate", "analyze", "ingest", "sidecar", "broker"}, words[1]) || words[1] == "notify" && words[2] == "--brokers"
				if (daemon || slices.Contains(words, "--watch")) && !strings.HasSuffix(command, "&") {
					t.Errorf("%s: got %q, which never ends, want it in the background", page, command)
				}
			}
			for i, word := range words[1:] {
				inClone := slices.Contains([]string{"--rules", "--mapping", "cp"}, words[i]) || strings.HasPrefix(word, "testdata/")
				if !inClone || filepath.IsAbs(word) {
					continue
				}
				files++
				if _, err := os.Stat(filepath.Join("..", word)); err != nil {
					t.Errorf("%s: %s: %v, want a file of this repository", page, command, err)
				}
			}
		}
	}
	if files < 5 {
		t.Errorf("got %d files, want 5 or more", files)
	}
}

// TestNginxPageStartsAKafka: a reader without Kafka is shown how to start a broker where all commands look for it.
func TestNginxPageStartsAKafka(t *testing.T) {
	before, _, _ := strings.Cut(readFile(t, "nginx/README.md"), "floodgate topics --brokers kafka:9092")
	for _, want := range []string{"floodgate broker --data", "127.0.0.1 kafka"} {
		if !strings.Contains(before, want) {
			t.Errorf("got no %s before the first command that needs Kafka", want)
		}
	}
	for _, name := range []string{"nginx/rsyslog.conf", "nginx/floodgate.conf", "nginx/floodgate-lua.conf", "nginx/mapping.yaml", "caddy/Caddyfile", "traefik/floodgate.yaml"} {
		if !strings.Contains(readFile(t, name), "kafka:9092") {
			t.Errorf("%s: got no kafka:9092, want the broker of nginx/README.md", name)
		}
	}
	if !strings.Contains(readFile(t, "nginx/rsyslog.conf"), `broker=["kafka:9092"]`) {
		t.Error("got rsyslog.conf with another broker than nginx/README.md's")
	}
}

// TestRulesCloseANoisyCallerOfEachKind: nginx/README.md says that a noisy address or API key is refused, by the rules that it names.
// A limit over a month does not show that to a reader who tries.
func TestRulesCloseANoisyCallerOfEachKind(t *testing.T) {
	set, err := rules.Load("rules/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ip", "key"} {
		if !slices.ContainsFunc(set.Rules, func(r *rules.Rule) bool {
			return r.Kind == kind && r.Mode == schemas.ModeEnforce && r.Limit <= 1000 && r.WindowText() == "1m sliding"
		}) {
			t.Errorf("got no rule for callers of kind %s over a minute, want one", kind)
		}
	}
}
