package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/demo"
)

// TestTheReadmePrintsWhatItSays: each command of the README, pasted as it stands, ends, and prints the lines that the README shows behind
// it. The demo prints figures of the machine, and here only its summary.
func TestTheReadmePrintsWhatItSays(t *testing.T) {
	t.Chdir("../..")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```.*?```text\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	commands := strings.Count(string(readme), "```sh\n")
	if len(blocks) != 2 || commands != len(blocks) {
		t.Fatalf("got %d blocks of commands, and %d with what they print, want 2", commands, len(blocks))
	}
	numbers := regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, " #")
			args, found := strings.CutPrefix(strings.TrimSpace(line), "go run ./cmd/floodgate ")
			if !found {
				t.Fatalf("got %q, want floodgate itself", line)
			}
			shown := func(text string) string { return text }
			out, err := "", error(nil)
			switch words := strings.Fields(args); words[0] {
			case "demo": // which ends after ten seconds
				shown = func(text string) string { return numbers.ReplaceAllString(text, "N") }
				out = demoSummary(t)
			case "serve": // which never ends; TestTheReadmeShowsALineOfServe has what it prints
				if out, err = runCommand(append(words, "--check")...); command.IsUsage(err) && !strings.Contains(err.Error(), "would not work") {
					t.Errorf("%s: got %v, want flags that are right", args, err)
				}
				continue
			default:
				out, err = runCommand(words...)
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", args, err, out)
			}
			for want := range strings.Lines(block[2]) {
				if !strings.Contains(shown(out), shown(want)) {
					t.Errorf("%s: got\n%s\nwant the line %s", args, out, want)
				}
			}
		}
	}
}

// demoSummary returns what a demo prints at its end, if all was counted, in both halves.
func demoSummary(t *testing.T) string {
	t.Helper()
	sum := demo.Summary{
		Accuracy: []demo.Accuracy{{Predict: rules.PredictOff.String(), Closes: 7, Mean: 0.024}, {Predict: rules.PredictShares.String(), Closes: 6}},
		Audit:    demo.Audit{Generator: 7480, Log: 7480, Store: 7480},
	}
	var out strings.Builder
	if err := sum.Print(&out, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
