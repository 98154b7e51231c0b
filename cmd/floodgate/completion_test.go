package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// completed returns the words that floodgate offers for a command line whose last word is to be completed.
func completed(t *testing.T, words ...string) (list []string) {
	t.Helper()
	out, err := runCommand(append([]string{cobra.ShellCompRequestCmd}, words...)...)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, ":") { // what is to be done with the words
			break
		}
		word, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if strings.ContainsAny(text, "\t\x1b") {
			t.Errorf("got %q, want a word, a tabulator and a text that is safe to print", line)
		}
		if last := words[len(words)-1]; strings.HasPrefix(word, last[strings.LastIndex(last, "=")+1:]) { // as shells do
			list = append(list, word)
		}
	}
	return list
}

// TestWordsThatFit: subcommands, flags, their values, and what an analyzer knows. No word of a client does anything in a shell: one
// whose id is a command is not offered.
func TestWordsThatFit(t *testing.T) {
	f := serveAPI(t)
	api := "--api=" + f.URL
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"expl"}, "explain"},
		{[]string{"help", "comp"}, "completion"},
		{[]string{"no-such", ""}, ""},
		{[]string{"completion", ""}, "bash zsh fish"},
		{[]string{"completion", "bash", ""}, ""},
		{[]string{"callers", "--so"}, "--sort"},
		{[]string{"callers", "--sort", "b"}, "blocked"},
		{[]string{"callers", "--sort=b"}, "blocked"},
		{[]string{"callers", "--output", ""}, "table json"},
		{[]string{"sidecar", "--stale", ""}, "hold open closed"},
		{[]string{"token", "alice", "o"}, "operate"},
		{[]string{"rules", "v"}, "versions"},
		{[]string{"rules", "show", api, ""}, "00000000000000bb 00000000000000aa"},
		{[]string{"rules", "check", ""}, ""},
		{[]string{"explain", api, ""}, "key:noisy-1"},
		{[]string{"explain", "--api", f.URL, "key:noisy"}, "key:noisy-1"},
		{[]string{"explain", "--output", "json", api, "key:noisy"}, "key:noisy-1"},
		{[]string{"explain", api, "key:noisy-1", ""}, ""},
		{[]string{"try", api, "key:noisy-1", "k"}, "key:noisy-1"},
		{[]string{"actions", api, "--caller", "key"}, "key:noisy-1"},
		{[]string{"actions", "--state", "in"}, "in_force"},
		{[]string{"actions", "--action", "u"}, "undo"},
		{[]string{"open", api, "key:noisy-1", ""}, "per-key per-ip"},
		{[]string{"mode", ""}, "shadow"},
		{[]string{"mode", api, "shadow", ""}, "per-key per-ip"},
		{[]string{"callers", api, "--rule", ""}, "per-key per-ip"},
		{[]string{"undo", api, "0"}, "00112233445566778899aabbccddeeff"},
		{[]string{"undo", api, "1"}, ""}, // it was undone
		{[]string{"explain", "--api", "http://127.0.0.1:1", ""}, ""},
		{[]string{"explain", "--api", "nonsense", ""}, ""},
		{[]string{"explain", api, "--token-file", "no-such-file", ""}, ""},
		{[]string{"explain", "--api-c"}, "--api-ca --api-client-cert --api-client-key"},
	} {
		if got := strings.Join(completed(t, test.words...), " "); got != test.want {
			t.Errorf("%q: got %q, want %q", test.words, got, test.want)
		}
	}
	if list := completed(t, ""); !slices.Contains(list, "analyze") || !slices.Contains(list, "rules") {
		t.Errorf("got %q, want each subcommand", list)
	}
}

// TestScriptsOfShells: each is there, and another shell is a usage error.
func TestScriptsOfShells(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, err := runCommand("completion", shell); err != nil || !strings.Contains(out, cobra.ShellCompRequestCmd) {
			t.Errorf("%s: got %v and %q", shell, err, out)
		}
	}
	for _, args := range [][]string{{}, {"tcsh"}, {"bash", "zsh"}} {
		if _, err := runCommand(append([]string{"completion"}, args...)...); !command.IsUsage(err) {
			t.Errorf("%q: got %v, want a usage error", args, err)
		}
	}
}
