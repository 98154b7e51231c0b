// Command budget holds the repository to its sizes: no Go file over 300 lines but tests and generated code, and in each
// package at least as many lines of test as of source. It also refuses tracked text that names a machine or a registry.
//
//	go run ./.ci/budget      in the root of the repository; prints what is over, exits 1
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxLines is what a reader can hold in mind: a longer file is split by its nouns.
const maxLines = 300

// untested reports whether a package need not have a line of test per line of source: where most of it is generated, and
// the tools of the check itself.
func untested(dir string) bool { return dir == "schemas/pb" || strings.HasPrefix(dir, ".ci/") }

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

	// Written so that this file does not match itself.
	foreign = regexp.MustCompile(`/(wor[k]|roo[t]/go|home/[a-z]+)/|proxy\.golan[g]\.org|sum\.golan[g]\.org|` +
		`registry\.npmj[s]|repo1\.mave[n]|pypi\.or[g]|deb\.debia[n]\.org`)

	// layout is the fixed top level.
	layout = regexp.MustCompile(`^(\.|(cmd|analyzer|gate|store|schemas|deploy|testdata)/|go\.(mod|sum)$|README\.md$|LICENSE$)`)
)

func main() {
	found, err := run(os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	case found > 0:
		os.Exit(1)
	}
}

// run checks the repository in the working directory and returns how many findings it printed.
func run(out io.Writer) (int, error) {
	list, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		return 0, fmt.Errorf("list files: %w", err)
	}
	sums, found := map[string]*lines{}, 0
	report := func(format string, args ...any) {
		found++
		fmt.Fprintf(out, format+"\n", args...)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if err != nil {
			return found, fmt.Errorf("read: %w", err)
		}
		check(name, text, sums, report)
	}
	for _, dir := range slices.Sorted(maps.Keys(sums)) {
		if s := sums[dir]; s.test < s.source && !untested(dir) {
			report("%s: %d lines of test for %d of source", dir, s.test, s.source)
		}
	}
	return found, nil
}

// lines of one package.
type lines struct{ source, test int }

// check reports what is wrong with one file, and adds its lines to its package.
func check(name string, text []byte, sums map[string]*lines, report func(string, ...any)) {
	if !layout.MatchString(name) {
		report("%s: outside the layout of the top level", name)
	}
	if !bytes.ContainsRune(text, 0) {
		if at := foreign.FindIndex(text); at != nil {
			report("%s:%d: names a machine or a registry: %s", name, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
		}
	}
	n := bytes.Count(text, []byte("\n"))
	dir, isTest := path.Dir(name), strings.HasSuffix(name, "_test.go")
	if script := strings.Index(name, "/testdata/"); script > 0 && path.Ext(name) == ".txtar" {
		dir, isTest = name[:script], true
	} else if path.Ext(name) != ".go" || generated.Match(text) {
		return
	}
	s := cmp.Or(sums[dir], &lines{})
	sums[dir] = s
	if isTest {
		s.test += n
		return
	}
	if path.Base(name) != "doc.go" {
		s.source += n
	}
	if n > maxLines {
		report("%s: %d lines, at most %d: split it by its nouns", name, n, maxLines)
	}
}
