// Command mutate changes one operator or constant of a package at a time, runs tests, and prints each change that no test notices.
//
//	go run ./.ci/mutate ./analyzer/window                         every change, judged by the package's own tests
//	go run ./.ci/mutate -sample 150 ./analyzer/predict ./analyzer/fold   150 of them, judged by the tests of both packages
//
// A change that does not compile is none. One that makes the tests fail, or run four times as long as usual, is noticed. One in a line
// that no test runs is not. survivors.txt beside this file explains those that stay: because the program does the same with them, or
// because only its speed differs. If more than 5 % of the changes are neither noticed nor explained, the exit code is 1.
//
// It exists because the Go tools of mutation testing that are kept (gremlins) test each mutant of a package by itself, without a sample
// and without changes of constants: the packages here have thousands.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	sample := flag.Int("sample", 0, "how many changes to try, drawn at random (0: all)")
	seed := flag.Uint64("seed", uint64(time.Now().Unix()), "seed of the sample")
	list := flag.String("explained", ".ci/mutate/survivors.txt", "file that explains changes which no test can notice")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: mutate [-sample N] [-seed S] PACKAGE [PACKAGE WITH TESTS ...]")
		os.Exit(2)
	}
	r := run{out: os.Stdout, sample: *sample, seed: *seed}
	err := r.explain(*list)
	if err == nil {
		err = r.all(context.Background(), flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// maxSurvivors is how many of a hundred changes may stay without an explanation.
const maxSurvivors = 5

// run is one run of the command.
type run struct {
	out       io.Writer
	sample    int
	seed      uint64
	explained map[string]string // reasons, by the package's folder and the name of the mutant
	scratch   string
	pkg       goPackage
	tests     []goPackage
}

// goPackage is what go list says of a package.
type goPackage struct {
	Dir, ImportPath string
	GoFiles         []string

	usual time.Duration // how long its tests take without a change
}

// explain reads lines of "FOLDER/FILE | LINE | OLD -> NEW | REASON". Empty lines and those that start with # are comments.
func (r *run) explain(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read explanations: %w", err)
	}
	r.explained = map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndex(line, " | ")
		if at < 0 || strings.Count(line, " | ") < 3 {
			return fmt.Errorf("%s: got %q, want \"folder/file.go | line of source | old -> new | reason\"", file, line)
		}
		r.explained[line[:at]] = line[at+3:]
	}
	return nil
}

// all tries the changes of the first package, with the tests of all.
func (r *run) all(ctx context.Context, names []string) error {
	var err error
	if r.scratch, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.scratch) }() // it is a temporary folder
	if err := r.list(ctx, names); err != nil {
		return err
	}
	covered, err := r.cover(ctx)
	if err != nil {
		return err
	}
	var found []mutant
	for _, file := range r.pkg.GoFiles {
		of, err := mutants(r.pkg.Dir, file)
		if err != nil {
			return err
		}
		found = append(found, of...)
	}
	if r.sample > 0 && r.sample < len(found) {
		rng := rand.New(rand.NewPCG(r.seed, 0)) //nolint:gosec // a sample is no secret
		rng.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
		fmt.Fprintf(r.out, "%d of %d changes, seed %d\n", r.sample, len(found), r.seed)
		found = found[:r.sample]
	}
	return r.report(r.try(ctx, found, covered))
}

// list finds the packages, whose tests may take as long as they take without a change.
func (r *run) list(ctx context.Context, names []string) error {
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,GoFiles", "--"}, names...)...).Output() //nolint:gosec // names are what was asked for
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		r.tests = append(r.tests, p)
	}
	for i, p := range r.tests { // go list sorts
		if own, err := filepath.Abs(names[0]); err == nil && (own == p.Dir || names[0] == p.ImportPath) {
			r.pkg, r.tests[0], r.tests[i] = p, p, r.tests[0]
		}
	}
	if r.pkg.Dir == "" {
		return fmt.Errorf("go list found %d packages, but not %s", len(r.tests), names[0])
	}
	return nil
}

// cover runs the tests without a change, and notes how long they take. It returns the lines that belong to a statement, and whether the tests
// run them. Lines of constants and of cases belong to none.
func (r *run) cover(ctx context.Context) (map[string]bool, error) {
	covered := map[string]bool{}
	for i := range r.tests {
		p := &r.tests[i]
		profile := filepath.Join(r.scratch, "profile")
		began := time.Now()
		cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-coverpkg", r.pkg.ImportPath, "-coverprofile", profile, p.ImportPath) //nolint:gosec // our own packages
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("tests of %s fail without a change: %w\n%s", p.ImportPath, err, out)
		}
		p.usual = time.Since(began)
		text, err := os.ReadFile(profile)
		if err != nil {
			return nil, err
		}
		addCovered(covered, string(text))
	}
	return covered, nil
}

// addCovered adds the lines of a profile, as "file.go:12".
func addCovered(covered map[string]bool, profile string) {
	for line := range strings.Lines(profile) {
		var from, to, statements, count int
		name, rest, found := strings.Cut(line, ":")
		if !found || name == "mode" {
			continue
		}
		if _, err := fmt.Sscanf(strings.NewReplacer(".", " ", ",", " ").Replace(rest), "%d %d %d %d %d %d", &from, new(int), &to, new(int), &statements, &count); err != nil {
			continue
		}
		for n := from; n <= to; n++ {
			line := filepath.Base(name) + ":" + strconv.Itoa(n)
			covered[line] = covered[line] || count > 0
		}
	}
}

// verdict is what became of a change.
type verdict int

const (
	noticed verdict = iota
	survived
	notRun // no test runs the line
	invalid
)

// outcome is a change and what became of it.
type outcome struct {
	mutant
	verdict verdict
}

// try tries all changes, as many at once as there are processors.
func (r *run) try(ctx context.Context, found []mutant, covered map[string]bool) []outcome {
	outcomes := make([]outcome, len(found))
	next := make(chan int)
	var workers sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				m := found[i]
				outcomes[i] = outcome{m, r.one(ctx, w, &m, covered)}
				if v := outcomes[i].verdict; v == survived || v == notRun {
					fmt.Fprintf(r.out, "%s%s:%d: %s\n", map[verdict]string{survived: "", notRun: "no test runs "}[v], m.file, m.line, m.name())
				}
			}
		})
	}
	for i := range found {
		next <- i
	}
	close(next)
	workers.Wait()
	return outcomes
}

// one tries a change.
func (r *run) one(ctx context.Context, worker int, m *mutant, covered map[string]bool) verdict {
	dir := filepath.Join(r.scratch, strconv.Itoa(worker))
	overlay, err := r.overlay(dir, m)
	if err != nil {
		return invalid
	}
	for _, p := range r.tests {
		binary := filepath.Join(dir, "tests")
		if err := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", binary, p.ImportPath).Run(); err != nil { //nolint:gosec // our own packages
			return invalid
		}
		if run, ok := covered[m.file+":"+strconv.Itoa(m.line)]; ok && !run {
			return notRun
		}
		limit := 4*p.usual + 10*time.Second
		timed, cancel := context.WithTimeout(ctx, limit)
		cmd := exec.CommandContext(timed, binary, "-test.failfast", "-test.timeout", limit.String()) //nolint:gosec // the tests that were just built
		cmd.Dir = p.Dir
		err := cmd.Run()
		cancel()
		if err != nil {
			return noticed
		}
	}
	return survived
}

// overlay writes the changed file, and the file that makes go read it in place of the other.
func (r *run) overlay(dir string, m *mutant) (string, error) {
	path := filepath.Join(r.pkg.Dir, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	changed, list := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(os.WriteFile(changed, m.apply(text), 0o600), os.WriteFile(list, replace, 0o600))
}

// report prints the sums, and returns an error if too many changes survived.
func (r *run) report(outcomes []outcome) error {
	var n [invalid + 1]int
	explained := 0
	for i := range outcomes {
		o := &outcomes[i]
		n[o.verdict]++
		if o.verdict == survived || o.verdict == notRun {
			if reason, ok := r.explained[r.folder()+"/"+o.name()]; ok {
				explained++
				fmt.Fprintf(r.out, "explained %s:%d: %s\n", o.file, o.line, reason)
			}
		}
	}
	tried := len(outcomes) - n[invalid]
	left := n[survived] + n[notRun] - explained
	fmt.Fprintf(r.out, "%s: %d changes, %d noticed, %d not noticed, %d in lines that no test runs, %d of these explained\n",
		r.pkg.ImportPath, tried, n[noticed], n[survived], n[notRun], explained)
	if 100*left > maxSurvivors*tried {
		return fmt.Errorf("%d of %d changes are neither noticed nor explained: want at most %d %%", left, tried, maxSurvivors)
	}
	return nil
}

// folder returns the package's folder in the repository, as explanations name it.
func (r *run) folder() string {
	wd, err := os.Getwd()
	if err != nil {
		return r.pkg.Dir
	}
	folder, err := filepath.Rel(wd, r.pkg.Dir)
	if err != nil {
		return r.pkg.Dir
	}
	return filepath.ToSlash(folder)
}
