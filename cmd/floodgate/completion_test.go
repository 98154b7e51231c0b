package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// completed returns the words that floodgate offers for a command line whose last word is to be completed.
func completed(t *testing.T, words ...string) (list []string) {
	t.Helper()
	out, err := runCommand(append([]string{completeCommand}, words...)...)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		word, text, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !found || strings.ContainsAny(text, "\t\x1b") {
			t.Errorf("got %q, want a word, a tabulator and a text that is safe to print", line)
		}
		list = append(list, word)
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
		{[]string{"callers", "--sort=b"}, "--sort=blocked"},
		{[]string{"callers", "--output", ""}, "table json"},
		{[]string{"sidecar", "--stale", ""}, "hold open closed local"},
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
		{[]string{"open", api, "key:noisy-1", ""}, "per-key"},
		{[]string{"mode", ""}, "shadow"},
		{[]string{"mode", api, "shadow", ""}, "per-key"},
		{[]string{"callers", api, "--rule", ""}, "per-key"},
		{[]string{"undo", api, "0"}, "00112233445566778899aabbccddeeff"},
		{[]string{"undo", api, "1"}, ""}, // it was undone
		{[]string{"explain", "--api", "http://127.0.0.1:1", ""}, ""},
		{[]string{"explain", "--api", "nonsense", ""}, ""},
		{[]string{"explain", api, "--token-file", "no-such-file", ""}, ""},
		{[]string{"explain", "--"}, "--sidecar --api --token-file --api-ca --api-client-cert --api-client-key --output"},
	} {
		if got := strings.Join(completed(t, test.words...), " "); got != test.want {
			t.Errorf("%q: got %q, want %q", test.words, got, test.want)
		}
	}
	if list := completed(t, ""); len(list) != len(subcommands())+1 {
		t.Errorf("got %d words, want each subcommand and help", len(list))
	}
	if list := completed(t); len(list) != len(subcommands())+1 {
		t.Errorf("without a word: got %d, want each subcommand and help", len(list))
	}
}

func TestHarmlessWords(t *testing.T) {
	for word, want := range map[string]bool{
		"key:noisy-1": true, "ip:203.0.113.9": true, "ip:2001:db8::": true, "--sort=b": true, "user:a@b.example": true,
		"": false, "a b": false, "$(reboot)": false, "`reboot`": false, "a;b": false, "a|b": false, "a&b": false, "~root": false, "a\nb": false,
		"a'b": false, `a"b`: false, `a\b`: false, "*": false, "a?": false, "[a]": false, "{a,b}": false, "<a": false, "#a": false, "!1": false, "é": false,
	} {
		if got := harmless(word); got != want {
			t.Errorf("%q: got %t, want %t", word, got, want)
		}
	}
}

// TestScriptsOfShells: each is there, and another shell is a usage error.
func TestScriptsOfShells(t *testing.T) {
	for _, shell := range shells() {
		if out, err := runCommand("completion", shell); err != nil || !strings.Contains(out, "floodgate "+completeCommand) {
			t.Errorf("%s: got %v and %q", shell, err, out)
		}
	}
	for _, args := range [][]string{{}, {"tcsh"}, {"bash", "zsh"}} {
		if _, err := runCommand(append([]string{"completion"}, args...)...); !isUsage(err) {
			t.Errorf("%q: got %v, want a usage error", args, err)
		}
	}
}

// shellRun runs a script in a real shell, where floodgate is this program, and returns what it prints.
func shellRun(t *testing.T, shell, script string) string {
	t.Helper()
	program, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("%s is not installed: %v", shell, err)
	}
	dir := t.TempDir()
	self := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s \"$@\"\n", beMain, os.Args[0])
	if err := os.WriteFile(filepath.Join(dir, "floodgate"), []byte(self), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file-a", "file-b"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := map[string][]string{"bash": {"--norc", "-c"}, "zsh": {"-f", "-c"}, "fish": {"--no-config", "-c"}}[shell]
	cmd := exec.CommandContext(ctx, program, append(args, script)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TERM=dumb", "LC_ALL=C", "API=" + serveAPI(t).URL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell, err, out)
	}
	return string(out)
}

// TestBashCompletes in a bash that splits words at colons, as it does by default. What comes back replaces what stands behind
// the last colon.
func TestBashCompletes(t *testing.T) {
	const script = `
source <(floodgate completion bash)
try() { # the words as bash splits them
  COMP_LINE="$1"; shift
  COMP_POINT=${#COMP_LINE} COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
  _floodgate; echo "$COMP_LINE -> ${COMPREPLY[*]}"
}
try 'floodgate expl' floodgate expl
try 'floodgate callers --sort b' floodgate callers --sort b
try 'floodgate callers --sort=b' floodgate callers --sort = b
try 'floodgate callers --sort=' floodgate callers --sort =
try "floodgate open --api $API key:noisy-1 p" floodgate open --api http : "${API#http:}" key : noisy-1 p
try "floodgate undo  --api=$API 001" floodgate undo --api = http : "${API#http:}" 001
try 'floodgate rules check ' floodgate rules check ''
complete -p floodgate`
	out := shellRun(t, "bash", script)
	for _, want := range []string{
		"expl -> explain\n", "--sort b -> blocked\n", "--sort=b -> blocked\n", "--sort= -> share count rate blocked\n",
		"key:noisy-1 p -> per-key\n", "001 -> 00112233445566778899aabbccddeeff\n", "rules check  -> \n", "complete -o default -F _floodgate floodgate\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q", out, want)
		}
	}
}

// TestFishCompletes by fish's own engine.
func TestFishCompletes(t *testing.T) {
	out := shellRun(t, "fish", `
floodgate completion fish | source
complete -C 'floodgate expl'
complete -C 'floodgate callers --sort b'
complete -C "floodgate open --api $API key:noisy-1 p"
complete -C "floodgate undo --api=$API 001"
complete -C 'floodgate rules check fil'`)
	var words []string
	for line := range strings.Lines(out) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		words = append(words, word)
	}
	if want := []string{"explain", "blocked", "per-key", "00112233445566778899aabbccddeeff", "file-a", "file-b"}; !slices.Equal(words, want) {
		t.Errorf("got %q, want %q", words, want)
	}
}

// TestZshCompletes in an interactive zsh behind a terminal of its own: a person types and presses the tabulator key.
func TestZshCompletes(t *testing.T) {
	const script = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1= RPS1= ; autoload -U compinit; compinit -u -D; source <(floodgate completion zsh); print rea''dy'
while zpty -r shell line && [[ $line != *ready* ]]; do :; done
ask() {
  zpty -w -n shell "print -r -- got:"$'\x15'"$1"$'\t\x01print -r -- got: \x05\n'
  while zpty -r shell line; do
    [[ $line == *got:\ floodgate* && $line != *print* ]] && { print -r -- "$line"; return }
  done
}
ask 'floodgate expl'
ask 'floodgate callers --sort b'
ask "floodgate open --api $API key:noisy-1 p"
ask "floodgate undo --api=$API 001"
ask 'floodgate rules check file-a file-b'
zpty -d shell`
	out := shellRun(t, "zsh", script)
	for _, want := range []string{"got: floodgate explain", "--sort blocked", "key:noisy-1 per-key", "00112233445566778899aabbccddeeff", "file-a file-b"} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s\nwant %q", out, want)
		}
	}
}
