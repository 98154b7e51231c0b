// Command testlog reads "go test -json" and prints what go test prints for people, then the skips, the seed of every
// package that failed, and one closing line. In CI no test may be skipped: a skip that the allow list does not name with a
// reason fails the run, and so does an entry of the list that no test took, so that the list cannot rot.
//
//	go test -json ./... | go run ./.ci/testlog .ci/skips.txt
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := realMain(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

func realMain(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: go test -json ./... | testlog skips.txt")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("read allowed skips: %w", err)
	}
	allowed, err := parseAllowed(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	l := newLog(out)
	if err := l.read(in); err != nil {
		return err
	}
	return l.finish(allowed)
}

// parseAllowed reads lines of "package-suffix TestName: reason". Empty lines and those that start with # are comments.
func parseAllowed(text string) (map[string]string, error) {
	allowed := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, reason, found := strings.Cut(line, ": ")
		if !found || strings.Count(name, " ") != 1 {
			return nil, fmt.Errorf("got %q, want \"package TestName: reason\"", line)
		}
		allowed[name] = reason
	}
	return allowed, nil
}

// event is a line of test2json. Action is one of start, run, pause, cont, pass, bench, fail, output, skip,
// build-output and build-fail.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

// log gathers what happened. One goroutine may use it.
type log struct {
	out                     io.Writer
	output                  map[string][]string // lines of tests that still run, and then of those that did not pass
	skipped                 map[string]string   // "package Test" → what it printed last
	seeds                   map[string]string   // package → the seed that its tests were shuffled with
	passed, failed, skips   int
	packages, packageFailed int
}

func newLog(out io.Writer) *log {
	return &log{out: out, output: map[string][]string{}, skipped: map[string]string{}, seeds: map[string]string{}}
}

func (l *log) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(l.out, lines.Text()) // go's own words, as when a package does not build
			continue
		}
		l.event(e)
	}
	return lines.Err()
}

// event handles one line. Output of a test is kept until its verdict is known.
func (l *log) event(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(l.out, e.Output)
	case "output":
		if e.Test != "" {
			l.output[key] = append(l.output[key], e.Output)
		} else if strings.HasPrefix(e.Output, "-test.shuffle ") {
			l.seeds[e.Package] = e.Output
		} else if worthPrinting(e.Output) {
			fmt.Fprint(l.out, e.Output)
		}
	case "pass", "fail", "skip":
		l.verdict(e, key)
	}
}

// worthPrinting drops the lines of a package that only frame its tests. "no test files" matters to nobody here.
func worthPrinting(line string) bool {
	return line != "PASS\n" && line != "FAIL\n" && !strings.HasSuffix(line, "[no test files]\n")
}

func (l *log) verdict(e event, key string) {
	switch {
	case e.Test == "" && e.Action == "fail":
		fmt.Fprint(l.out, l.seeds[e.Package])
		l.packages++
		l.packageFailed++
	case e.Test == "":
		l.packages++
	case e.Action == "pass":
		l.passed++
	case e.Action == "skip":
		l.skips++
		l.skipped[key] = lastWords(l.output[key])
	default:
		l.failed++
		fmt.Fprint(l.out, strings.Join(l.output[key], ""))
	}
	delete(l.output, key)
}

// lastWords returns why a test says it skipped: its last line that is not the framework's.
func lastWords(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line
		}
	}
	return ""
}

// finish prints skips and the closing line, and returns an error if the run must not pass.
func (l *log) finish(allowed map[string]string) error {
	for key, lines := range l.output { // a package that died took these with it
		fmt.Fprintf(l.out, "no verdict: %s\n%s", key, strings.Join(lines, ""))
		l.failed++
	}
	var refused []string
	taken := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(l.skipped)) {
		entry, reason := lookup(allowed, key)
		taken[entry] = true
		if reason == "" {
			refused = append(refused, key)
			reason = "NOT ALLOWED"
		}
		fmt.Fprintf(l.out, "skipped: %s (%s): %s\n", key, l.skipped[key], reason)
	}
	for _, entry := range slices.Sorted(maps.Keys(allowed)) {
		if !taken[entry] {
			refused = append(refused, entry+" (allowed, but not skipped: take it off the list)")
		}
	}
	fmt.Fprintf(l.out, "%d passed, %d failed, %d skipped\n", l.passed, l.failed, l.skips)
	switch {
	case l.failed > 0 || l.packageFailed > 0:
		return fmt.Errorf("%d tests and %d of %d packages failed", l.failed, l.packageFailed, l.packages)
	case l.passed == 0:
		return errors.New("no test ran")
	case len(refused) > 0:
		return fmt.Errorf("skips: %s", strings.Join(refused, "; "))
	}
	return nil
}

// lookup finds the entry whose package is a suffix of the test's and whose name is the test or a parent of it.
func lookup(allowed map[string]string, key string) (entry, reason string) {
	pkg, test, _ := strings.Cut(key, " ")
	for entry, reason := range allowed {
		p, name, _ := strings.Cut(entry, " ")
		if (pkg == p || strings.HasSuffix(pkg, "/"+p)) && (test == name || strings.HasPrefix(test, name+"/")) {
			return entry, reason
		}
	}
	return "", ""
}
