// Command budget holds the repository to its sizes: no Go file over 500 lines but tests and generated code, and a README of at
// most 130 lines of 130 characters, without a table of more than four columns. It also refuses tracked text that names a machine
// or a registry, and what a merge left.
//
//	go run ./.ci/budget      in the root of the repository; prints what is over, exits 1
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxLines         = 500 // of a Go file: a longer one holds more than one noun
	maxReadmeLines   = 130
	maxReadmeWidth   = 130 // characters
	maxReadmeColumns = 4   // of a table
)

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

	// Written so that this file does not match itself.
	foreign = regexp.MustCompile(`/(wor[k]|roo[t]/go|home/[a-z]+)/|proxy\.golan[g]\.org|sum\.golan[g]\.org|` +
		`registry\.npmj[s]|repo1\.mave[n]|pypi\.or[g]|deb\.debia[n]\.org`)

	// conflict is a line that a merge left.
	conflict = regexp.MustCompile(`(?m)^(<{7}|>{7})( |$)`)

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
	found := 0
	report := func(format string, args ...any) {
		found++
		fmt.Fprintf(out, format+"\n", args...)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if err != nil {
			return found, fmt.Errorf("read: %w", err)
		}
		check(name, text, report)
	}
	return found, nil
}

// check reports what is wrong with one file.
func check(name string, text []byte, report func(string, ...any)) {
	if !layout.MatchString(name) {
		report("%s: outside the layout of the top level", name)
	}
	if bytes.ContainsRune(text, 0) {
		return
	}
	if at := foreign.FindIndex(text); at != nil {
		report("%s:%d: names a machine or a registry: %s", name, lineOf(text, at[0]), text[at[0]:at[1]])
	}
	if at := conflict.FindIndex(text); at != nil {
		report("%s:%d: a merge left %s", name, lineOf(text, at[0]), text[at[0]:at[1]])
	}
	if name == "README.md" {
		checkReadme(string(text), report)
	}
	n := bytes.Count(text, []byte("\n"))
	if path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && !generated.Match(text) && n > maxLines {
		report("%s: %d lines, at most %d: split it by its nouns", name, n, maxLines)
	}
}

// lineOf returns the number of the line that holds a place in a text.
func lineOf(text []byte, at int) int { return 1 + bytes.Count(text[:at], []byte("\n")) }

func checkReadme(text string, report func(string, ...any)) {
	if n := strings.Count(text, "\n"); n > maxReadmeLines {
		report("README.md: %d lines, at most %d", n, maxReadmeLines)
	}
	number, code := 0, false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		number++
		if n := utf8.RuneCountInString(line); n > maxReadmeWidth {
			report("README.md:%d: %d characters, at most %d", number, n, maxReadmeWidth)
		}
		code = code != strings.HasPrefix(line, "```")
		if n := strings.Count(strings.Trim(strings.ReplaceAll(line, `\|`, ""), "| "), "|") + 1; !code && strings.HasPrefix(line, "|") && n > maxReadmeColumns {
			report("README.md:%d: a table of %d columns, at most %d", number, n, maxReadmeColumns)
		}
	}
}
