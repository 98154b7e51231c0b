// Command testlog reads "go test -json" and prints what go test prints for people, then the skips, the seed of every
// package that failed, and one closing line. In CI no test may be skipped: a skip that the allow list does not name with a
// reason fails the run, and so does an entry of the list that no test took, so that the list cannot rot. Without -skips, tests may skip.
//
// A check of the race detector's own that fails ends the run of a package, and says nothing about the package. With -again, a package
// that ended so, and in which neither a test failed nor a race was found before, does not fail the run: its name is written to that
// file, for a second run that is judged without -again.
//
//	go test -json ./... | go run ./.ci/testlog -skips .ci/skips.txt -again packages
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
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
	flags := flag.NewFlagSet("testlog", flag.ContinueOnError)
	flags.SetOutput(out)
	skips := flags.String("skips", "", "`file` of the tests that may skip, and why; empty: all may")
	again := flags.String("again", "", "`file` for the packages that the race detector ended by its own mistake")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errors.New("usage: go test -json ./... | testlog [-skips file] [-again file]")
	}
	l := newLog(out)
	if *skips != "" {
		text, err := os.ReadFile(*skips)
		if err != nil {
			return fmt.Errorf("read allowed skips: %w", err)
		}
		if l.allowed, err = parseAllowed(string(text)); err != nil {
			return fmt.Errorf("%s: %w", *skips, err)
		}
	}
	if err := l.read(in); err != nil {
		return err
	}
	if *again != "" {
		if err := os.WriteFile(*again, []byte(l.excuse()), 0o600); err != nil {
			return fmt.Errorf("write packages to be run again: %w", err)
		}
	}
	return l.finish()
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
	detector                map[string]string   // package → the race detector's words about itself
	guilty                  map[string]bool     // packages with a test that failed, or a race
	allowed                 map[string]string   // "package Test" → why it may skip; nil: any may
	passed, failed, skips   int
	packages, packageFailed int
}

// What the race detector prints, of its own failed check and of a race.
const (
	detectorFailed = "ThreadSanitizer: CHECK failed: tsan_rtl.cpp"
	raceFound      = "WARNING: DATA RACE"
)

func newLog(out io.Writer) *log {
	return &log{
		out: out, output: map[string][]string{}, skipped: map[string]string{}, seeds: map[string]string{},
		detector: map[string]string{}, guilty: map[string]bool{},
	}
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
		if strings.Contains(e.Output, detectorFailed) {
			l.detector[e.Package] = strings.TrimSpace(e.Output)
		}
		l.guilty[e.Package] = l.guilty[e.Package] || strings.Contains(e.Output, raceFound)
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
		l.guilty[e.Package] = true
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

// excuse takes back the failures of packages that the race detector ended by its own mistake, and returns their names by line.
func (l *log) excuse() string {
	var names strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(l.detector)) {
		if l.guilty[pkg] {
			continue
		}
		l.packageFailed--
		maps.DeleteFunc(l.output, func(key string, _ []string) bool { return strings.HasPrefix(key, pkg+" ") })
		fmt.Fprintf(l.out, "no verdict: %s: the race detector ended it: %s\n", pkg, l.detector[pkg])
		names.WriteString(pkg + "\n")
	}
	return names.String()
}

// finish prints skips and the closing line, and returns an error if the run must not pass.
func (l *log) finish() error {
	for key, lines := range l.output { // a package that died took these with it
		fmt.Fprintf(l.out, "no verdict: %s\n%s", key, strings.Join(lines, ""))
		l.failed++
	}
	var refused []string
	taken := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(l.skipped)) {
		entry, reason := lookup(l.allowed, key)
		taken[entry] = true
		if l.allowed == nil {
			continue
		}
		if reason == "" {
			refused = append(refused, key)
			reason = "NOT ALLOWED"
		}
		fmt.Fprintf(l.out, "skipped: %s (%s): %s\n", key, l.skipped[key], reason)
	}
	for _, entry := range slices.Sorted(maps.Keys(l.allowed)) {
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
