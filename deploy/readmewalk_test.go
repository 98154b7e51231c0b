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

// readmeCommands returns the commands of the README, without their comments.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readFile(t, "../README.md"), -1) {
		for line := range strings.Lines(block[1]) {
			command, _, _ := strings.Cut(line, " #")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// TestReadmeCommandsCanBePasted: a reader who pastes the README's commands in a clone, one after the other, has each program and
// file that they name. Only the access logs are the reader's own.
func TestReadmeCommandsCanBePasted(t *testing.T) {
	installed, files := false, 0
	for _, command := range readmeCommands(t) {
		installed = installed || strings.HasPrefix(command, "go install ./cmd/floodgate")
		words := strings.Fields(command)
		if words[0] == "floodgate" && !installed {
			t.Errorf("got %q before floodgate is installed", command)
		}
		for i, word := range words[1:] {
			if !slices.Contains([]string{"--rules", "--mapping", "cp"}, words[i]) {
				continue
			}
			files++
			if _, err := os.Stat(filepath.Join("..", word)); err != nil {
				t.Errorf("%s: %v, want a file of this repository", command, err)
			}
		}
	}
	if !installed || files < 6 {
		t.Errorf("got installed %v and %d files, want the program and 6 files or more", installed, files)
	}
}

// TestReadmeStartsAKafka: a reader without Kafka is shown how to start one where all commands look for it.
func TestReadmeStartsAKafka(t *testing.T) {
	readme := readFile(t, "../README.md")
	before, _, _ := strings.Cut(readme, "floodgate topics  --brokers kafka:9092")
	for _, want := range []string{"`KAFKA_PORT=9092 deploy/kafka/kafka.sh start`", "`127.0.0.1 kafka`"} {
		if !strings.Contains(before, want) {
			t.Errorf("got no %s before the first command that needs Kafka", want)
		}
	}
	if !strings.Contains(readFile(t, "kafka/kafka.sh"), "${KAFKA_PORT:-") {
		t.Error("got a kafka.sh that knows no KAFKA_PORT")
	}
	for _, name := range []string{"nginx/rsyslog.conf", "nginx/floodgate.conf", "nginx/mapping.yaml", "caddy/Caddyfile", "traefik/floodgate.yaml"} {
		if !strings.Contains(readFile(t, name), "kafka:9092") {
			t.Errorf("%s: got no kafka:9092, want the broker that the README names", name)
		}
	}
	if !strings.Contains(readFile(t, "nginx/rsyslog.conf"), `broker=["kafka:9092"]`) {
		t.Error("got rsyslog.conf with another broker than the README's")
	}
}

// TestRulesCloseANoisyCallerOfEachKind: the README says that a noisy address or API key is refused, by the rules that it names. A
// limit over a month does not show that to a reader who tries.
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
