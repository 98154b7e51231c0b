package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestAPersonActs is the night that the command line is for: a caller is closed, a person asks why, lets it through, closes another,
// looks what was done, and undoes it. Everything goes over the API of a real analyzer, with real tokens.
func TestAPersonActs(t *testing.T) {
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	dir := t.TempDir()
	tokens, lines := map[string]string{}, ""
	for _, role := range []string{"read", "operate"} {
		tokens[role] = filepath.Join(dir, role)
		out, err := runCommand("token", "alice-"+role, role, "--write", tokens[role])
		if err != nil {
			t.Fatal(err)
		}
		lines += regexp.MustCompile(`(?m)^alice-.*$`).FindString(out) + "\n"
	}
	file := filepath.Join(dir, "tokens")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	a, url := beginAnalyze(t, b.Addr(), t.TempDir(), "--api-listen", "127.0.0.1:0", "--api-tokens", file)
	api := a.WaitFor(`listening for the API.* address=(\S+)`, 10*time.Second)
	processtest.AwaitReady(t, url, 200, "ok")
	as := func(role string, args ...string) (string, error) {
		return runCommand(append(args, "--api", api, "--token-file", tokens[role])...)
	}
	want := func(what, role, pattern string, args ...string) (match string) {
		t.Helper()
		processtest.Eventually(t, 30*time.Second, what, func() bool {
			out, err := as(role, args...)
			found := regexp.MustCompile(pattern).FindStringSubmatch(out)
			if err != nil || found == nil {
				return false
			}
			match = found[len(found)-1]
			return true
		})
		return match
	}
	for seq := range uint64(6) {
		sendTo(t, b.Addr(), "noisy", 2, seq+1)
	}
	want("closed", "read", `\| key:noisy +\| r +\| enforce`, "decisions")
	want("explained", "read", `key:noisy is closed until .*, by rule r`, "explain", "key:noisy")
	want("tried", "read", `\| key:noisy +\| r `, "try", "key:noisy")
	want("owned", "read", `\| running +\| .*this one`, "status")
	want("near its limit", "read", `\| key:noisy +\| r +\| enforce \|`, "callers", "--min-share", "0.8")
	want("busy", "read", `\| key:noisy +\| `, "callers", "--sort", "rate")
	if out, err := runCommand("top", "--once", "--api", api, "--token-file", tokens["read"]); err != nil || !strings.Contains(out, "2 of 2 partitions counted") {
		t.Errorf("got %v and %q, want a screen", err, out)
	}
	if _, err := as("read", "open", "key:noisy", "--for", "1m", "--reason", "ticket"); err == nil || !strings.Contains(err.Error(), "operate") {
		t.Errorf("got %v, want that a token of role read may not act", err)
	}
	if _, err := as("operate", "mode", "shadow", "--for", "1m", "--reason", "ticket"); err == nil || !strings.Contains(err.Error(), "admin") {
		t.Errorf("got %v, want that a token of role operate may not pull the brake", err)
	}
	if _, err := runCommand("open", "key:noisy", "--for", "1m", "--reason", "ticket", "--api", api); err == nil || !strings.Contains(err.Error(), "--token-file names the file with your token") {
		t.Errorf("without a token: got %v, want that it names the flag", err)
	}
	out, err := as("operate", "open", "key:noisy", "--for", "10m", "--reason", "ticket 4711")
	id := regexp.MustCompile(`floodgate undo ([0-9a-f]{32})`).FindStringSubmatch(out)
	if err != nil || id == nil || !strings.Contains(out, "key:noisy has no limit until") {
		t.Fatalf("got %v and %q, want it opened", err, out)
	}
	want("open", "read", `^0 closures in force`, "decisions")
	want("listed", "read", `\| alice-operate +\| key:noisy has no limit until .* \| in force +\| ticket 4711 +\| `+id[1], "actions")
	want("explained", "read", `alice-operate`, "explain", "key:noisy")
	const unknownKind = "no rule counts callers of kind kye (did you mean key?); rules count key"
	for _, args := range [][]string{
		{"explain", "kye:noisy"}, {"close", "kye:noisy", "--for", "10m", "--reason", "abuse"}, {"open", "kye:noisy", "--for", "10m", "--reason", "abuse"},
		{"limit", "kye:noisy", "r", "9", "--for", "10m", "--reason", "abuse"}, {"reset", "kye:noisy", "--reason", "abuse"},
	} {
		if out, err := as("operate", args...); command.ExitCode(err, io.Discard) != 1 || !strings.Contains(err.Error(), unknownKind) {
			t.Errorf("%q: got %v and %q, want exit code 1 and %q", args, err, out, unknownKind)
		}
	}
	if out, err := as("read", "explain", "kye:noisy", "--force"); err != nil || !strings.Contains(out, "kye:noisy is open: no rule counts callers of kind kye") {
		t.Errorf("got %v and %q, want the kind taken", err, out)
	}
	if out, err := as("operate", "close", "user:anybody", "--for", "10m", "--reason", "abuse", "--force"); err != nil || !strings.Contains(out, "user:anybody is closed until") {
		t.Errorf("got %v and %q", err, out)
	}
	want("said of a kind that no rule counts", "read", `user:anybody is closed until .*: alice-operate closed it by hand`, "explain", "user:anybody")
	want("closed by hand", "read", `\| user:anybody +\| by hand +\| enforce`, "decisions")
	want("undone", "operate", `done: `+id[1]+` is undone`, "undo", id[1], "--reason", "it was another")
	want("said so", "read", `undone by alice-operate at .*: it was another`, "actions")
	for seq := range uint64(7) {
		sendTo(t, b.Addr(), "noisy", 2, seq+100)
	}
	want("closed again", "read", `\| key:noisy +\| r +\| enforce`, "decisions")
	if words := completed(t, "explain", "--api", api, "--token-file", tokens["read"], "key:"); len(words) != 1 || words[0] != "key:noisy" {
		t.Errorf("got %q, want the closed caller offered", words)
	}
	if _, err := a.End(); err != nil {
		t.Error(err)
	}
}
