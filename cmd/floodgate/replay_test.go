package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// TestReplayReadsTheSampleLogs as a stranger would at once: plain, gzip, from standard input, in two halves.
func TestReplayReadsTheSampleLogs(t *testing.T) {
	dir := t.TempDir()
	log, err := os.ReadFile(filepath.Join("..", "..", "testdata", "logs", "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(log); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	rules := write("rules.yaml", []byte("version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 30, window: 1m}\n"))
	half := bytes.IndexByte(log[len(log)/2:], '\n') + len(log)/2 + 1
	plain := write("access.log", log)
	var want string
	for name, c := range map[string]struct {
		stdin []byte
		args  []string
	}{
		"plain": {nil, []string{plain}},
		"gzip":  {nil, []string{write("access.log.gz", zipped.Bytes())}},
		"stdin": {log, nil},
		"dash":  {zipped.Bytes(), []string{"-"}},
		"split": {log[half:], []string{write("access.log.1", log[:half]), "-"}},
	} {
		var out, logs bytes.Buffer
		args := append([]string{"replay", "--output", "json", "--rules", rules}, c.args...)
		err := realMain(context.Background(), args, command.Process{
			Stdin: bytes.NewReader(c.stdin), Stdout: &out, Stderr: &logs, Lookup: func(string) (string, bool) { return "", false },
		})
		if err != nil || !strings.HasPrefix(logs.String(), "auto took format combined") || strings.Count(logs.String(), "\n") != 1 {
			t.Errorf("%s: got %v, %s", name, err, &logs)
		}
		if want == "" {
			want = out.String()
		}
		if out.String() != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, &out, want)
		}
	}
	lines := strings.Split(strings.TrimSpace(want), "\n")
	var sum replay.Summary
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
		t.Fatal(err)
	}
	if sum.Lines != 2000 || sum.Callers != 127 || sum.Closes != int64(len(lines)-1) || sum.Closes == 0 {
		t.Errorf("got %+v, %d lines", sum, len(lines))
	}
}

func TestReplayStopsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupt signal received")
	cancel(interrupted)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 30, window: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := realMain(ctx, []string{"replay", "--rules", rules, "--output", "json"}, command.Process{
		Stdin: strings.NewReader("x\n"), Stdout: &out, Stderr: &out, Lookup: func(string) (string, bool) { return "", false },
	})
	if !errors.Is(err, interrupted) || out.Len() > 0 {
		t.Errorf("got %v, and a summary of half a run: %s", err, &out)
	}
}

func TestReplayOfNothing(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 30, window: 1m}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := runCommand("replay", "--rules", rules)
	if err != nil || !strings.Contains(out, "lines                 0 ") || strings.Contains(out, "NaN") || strings.Contains(out, "│") {
		t.Errorf("got %v and\n%s\nwant totals of nothing, and no table", err, out)
	}
	out, err = runCommand("replay", "--rules", rules, "--output", "json", os.DevNull)
	if err != nil || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, `{"type":"summary","lines":0,`) {
		t.Errorf("got %v and %s, want one summary", err, out)
	}
}

// TestReplayShowsHolds: a caller at twice its limit, whose requests take 14 s. The table says what requests in flight have held, and how much
// of the limit was used; without holds, or without predictions, how far the caller went over it.
func TestReplayShowsHolds(t *testing.T) {
	dir := t.TempDir()
	var lines strings.Builder
	random := rand.New(rand.NewPCG(1, 1))
	for at := 0.0; at < 600; at += random.ExpFloat64() * 0.3 {
		cost := random.ExpFloat64()
		fmt.Fprintf(&lines, `{"time":%.6f,"client":"192.0.2.1","took":%.3f,"tokens":%d}`+"\n", 1_773_446_400+at, 14*cost, int(1000*cost))
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := file("log.json", lines.String())
	mapping := file("mapping.yaml", "version: 1\nformat: json\ncallers: {ip: \"{client}\"}\ntime: {at: start}\nduration: {field: took, unit: s}\ncost: {field: tokens}\n")
	const rule = "version: 1\nrules:\n  - {name: tokens, callers: ip, measure: cost, limit: 100000, window: 1m, algorithm: fixed, charge: arrival"
	for _, test := range []struct{ rules, predict, want string }{
		{rule + ", hold: {estimate: 1000}}\n", "shares", `(?m)^in flight +[1-9]\d* +closures of rule tokens because of requests in flight: they refused [1-9][\d,]* requests\nused +9\d\.\d%  of the limit of rule tokens, in the (9|10) windows .* on average \d\.\d % over it`},
		{rule + ", hold: {estimate: 1000}}\n", "off", `(?m)^overshoot .*\nused +100\.0%  .* on average [4-9]\d\.\d % over it`},
		{rule + "}\n", "shares", `(?m)^overshoot .*\nused +100\.0%  .* on average [4-9]\d\.\d % over it`},
		{strings.Replace(rule, ", charge: arrival", "}\n", 1), "shares", `(?m)^overshoot .*\n\z`},
		{"version: 1\nrules:\n  - {name: streams, callers: ip, measure: in_flight, limit: 20}\n", "off", `(?ms)│ until one ends │ ip:192.0.2.1 │ streams .*^in flight +[1-9]\d* +closures of rule streams [^\n]* refused [1-9]`},
	} {
		out, err := runCommand("replay", "--rules", file("rules.yaml", test.rules), "--mapping", mapping, "--predict", test.predict, log)
		if err != nil || !regexp.MustCompile(test.want).MatchString(out) {
			t.Errorf("%s, %s: got %v and\n%s\nwant %s", test.rules, test.predict, err, out, test.want)
		}
	}
}

// TestReplayPrintsShares: a caller at twice its limit, under a lag of a fifth of its window. The table says what shares have done.
// simulate, of one server, gets as many requests of the same log admitted, though its lag varies and canaries measure it.
func TestReplayPrintsShares(t *testing.T) {
	dir := t.TempDir()
	rules, mapping, log := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "mapping.yaml"), filepath.Join(dir, "log.json")
	var lines strings.Builder
	random := rand.New(rand.NewPCG(1, 1))
	for at := 0.0; at < 10; at += random.ExpFloat64() / 800 {
		fmt.Fprintf(&lines, `{"time":%.6f,"client":"192.0.2.1"}`+"\n", 1_773_446_400+at)
	}
	for name, text := range map[string]string{
		rules:   "version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 400, window: 1s, algorithm: fixed}\n",
		mapping: "version: 1\nformat: json\ncallers: {ip: \"{client}\"}\n", log: lines.String(),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(command, predict string, more ...string) string {
		args := []string{command, "--rules", rules, "--mapping", mapping, "--lag", "200ms", "--predict", predict}
		out, err := runCommand(slices.Concat(args, more, []string{log})...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for predict, wants := range map[string][]string{
		"shares": {"while a share held; 0.00 % was expected", "that came ahead of time", `(?m)^shares +[1-9]\d* `},
		"early":  {`(?m)^early +[1-9]`, `(?m)^shares +0 `},
		"off":    {`(?m)^over +1,[5-6]\d\d `},
	} {
		out := run("replay", predict)
		for _, want := range wants {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s: got no %q in\n%s", predict, want, out)
			}
		}
		if got := strings.Contains(out, "shares"); got != (predict != "off") {
			t.Errorf("%s: got shares in the table: %v\n%s", predict, got, out)
		}
		var simulated struct{ Requests, Admitted int64 }
		var sum replay.Summary
		replayed := strings.Split(strings.TrimSpace(run("replay", predict, "--output", "json")), "\n")
		err := errors.Join(json.Unmarshal([]byte(replayed[len(replayed)-1]), &sum),
			json.Unmarshal([]byte(run("simulate", predict, "--servers", "1", "--output", "json")), &simulated))
		if admitted := sum.Requests - sum.Blocked; err != nil || simulated.Requests != sum.Requests || 50*max(admitted-simulated.Admitted, simulated.Admitted-admitted) > admitted {
			t.Errorf("%s: got %v and %+v of simulate, and %d of %d admitted by replay, want the same within 2 %%", predict, err, simulated, admitted, sum.Requests)
		}
	}
}
