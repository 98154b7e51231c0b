package deploy

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// documents returns the Markdown files of the repository, by their path from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			texts[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))] = readFile(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"README.md", ".github/ARCHITECTURE.md", ".github/COMMANDS.md", ".github/CONTRIBUTING.md", ".github/MEASURED.md", ".github/OPERATING.md",
		".github/SECURITY.md", "analyzer/rules/README.md", "deploy/README.md", "deploy/GROWTH.md", "gate/peerbench/RESULTS.md", "schemas/FRAME.md",
	} {
		if texts[name] == "" {
			t.Errorf("got no %s, want it", name)
		}
	}
	return texts
}

// TestDocumentsAreShort keeps pages to a size that is read, in lines and in characters, and the tables of people in a hurry to
// four columns. (.ci/budget measures the README.)
func TestDocumentsAreShort(t *testing.T) {
	texts := documents(t)
	if n := strings.Count(texts[".github/ARCHITECTURE.md"], "\n"); n > 350 {
		t.Errorf("ARCHITECTURE.md: got %d lines, want at most 350", n)
	}
	for name, text := range texts {
		if name == "gate/peerbench/RESULTS.md" {
			continue // a program writes that page
		}
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > 130 && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d: got %d characters outside a table, want at most 130", name, i+1, n)
			}
		}
	}
	code := regexp.MustCompile("(?s)```.*?```")
	for line := range strings.Lines(code.ReplaceAllString(texts[".github/OPERATING.md"], "")) {
		if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") - 1; strings.HasPrefix(line, "|") && n > 4 {
			t.Errorf("OPERATING.md: got %d columns, want at most 4:\n%s", n, line)
		}
	}
}

// TestDocumentsRules loads every rules file that a document shows, and every file of settings for notify.
func TestDocumentsRules(t *testing.T) {
	found := 0
	for name, text := range documents(t) {
		for _, b := range regexp.MustCompile("(?s)```yaml\n(version: .*?)```").FindAllStringSubmatch(text, -1) {
			if strings.Contains(b[1], "\nendpoints:") {
				if _, err := endpoint.Parse(name, []byte(b[1]), "../testdata/notify"); err != nil {
					t.Errorf("%v\n%s", err, b[1])
				}
				continue
			}
			found++
			set, err := rules.Parse(name, []byte(b[1]))
			if err != nil {
				t.Errorf("%v\n%s", err, b[1])
				continue
			}
			for _, w := range set.Warnings {
				t.Errorf("got warning %v, want none in an example", w)
			}
		}
	}
	if found < 2 {
		t.Errorf("got %d rules files in the documents, want those of README.md and analyzer/rules/README.md", found)
	}
}

// TestDocumentsLinks follows every link that stays in the repository, to the file and to the heading in it.
func TestDocumentsLinks(t *testing.T) {
	texts := documents(t)
	for name, text := range texts {
		for _, link := range regexp.MustCompile(`\]\(([^):\s]+)\)`).FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(link[1], "#")
			target := name
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if anchor != "" && !slices.Contains(anchors(texts[target]), anchor) {
				t.Errorf("%s: got a link to %s, want one of its headings: %q", name, link[1], anchors(texts[target]))
			}
		}
	}
}

// TestDocumentsNamePaths looks for every file and directory that a document names between backquotes.
func TestDocumentsNamePaths(t *testing.T) {
	path := regexp.MustCompile("`((?:cmd|analyzer|gate|store|schemas|deploy|testdata|\\.ci|\\.github)/[\\w./-]+)`")
	found := 0
	for name, text := range documents(t) {
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "NAME") {
				continue // whatever it will be called
			}
			found++
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s: got %s, want a file or directory that there is: %v", name, m[1], err)
			}
		}
	}
	if found < 50 {
		t.Errorf("got %d paths in the documents, want 50 or more", found)
	}
}

// TestCommentsCiteDocuments looks for every page that a comment in the source cites. A page is cited by its name, or by
// its path from the root.
func TestCommentsCiteDocuments(t *testing.T) {
	texts := documents(t)
	cited := regexp.MustCompile(`//.*?([\w./-]*\w\.md)(?: §|\b)`)
	found := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		for _, m := range cited.FindAllStringSubmatch(readFile(t, path), -1) {
			found++
			names := func(name string) bool { return name == m[1] || strings.HasSuffix(name, "/"+m[1]) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(texts)), names) {
				t.Errorf("%s: got a comment that cites %s, want a page of this repository", path, m[1])
			}
			if strings.HasSuffix(m[0], "§") {
				t.Errorf("%s: got a comment that cites a § of %s, want the section's name", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 5 {
		t.Errorf("got %d comments that cite pages, want 5 or more", found)
	}
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(text string) []string {
	var names []string
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// TestDocumentsNameTests finds every test that a document names, and runs the pattern of every "go test" in a document over
// the tests of its package: a command that runs nothing proves nothing.
func TestDocumentsNameTests(t *testing.T) {
	all, found := tests(t, "..", true), 0
	for name, text := range documents(t) {
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z]\\w*)`").FindAllStringSubmatch(text, -1) {
			if !slices.Contains(all.names, m[1]) {
				t.Errorf("%s: got %s, want a test that there is", name, m[1])
			}
		}
		for _, m := range regexp.MustCompile("(?m)(?:`|^)(?:[A-Z_]+=\\S+ |FLOODGATE_KAFKA=\\$\\([^)]*\\) )*go test ([^`\n]*)").FindAllStringSubmatch(text, -1) {
			found++
			checkCommand(t, name, strings.ReplaceAll(m[1], `\|`, "|"), all)
		}
	}
	if found < 20 {
		t.Errorf("got %d commands that run tests in the documents, want 20 or more", found)
	}
}

// suite is what the tests of some packages are.
type suite struct {
	names []string // of tests, benchmarks and fuzz targets
	text  string   // of all of their files
}

// tests reads the tests of a directory, and of those below it if deep.
func tests(t *testing.T, dir string, deep bool) (s suite) {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir && !deep {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text.WriteString(readFile(t, path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.text = text.String()
	for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`).FindAllStringSubmatch(s.text, -1) {
		s.names = append(s.names, m[1])
	}
	return s
}

// checkCommand checks the arguments of a "go test": patterns find a test, and flags of the tests' own are declared.
func checkCommand(t *testing.T, document, command string, s suite) {
	t.Helper()
	command, _, _ = strings.Cut(command, "#")
	args := strings.Fields(strings.ReplaceAll(command, "'", ""))
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "./") }); i >= 0 {
		below, deep := strings.CutSuffix(args[i], "...")
		dir := filepath.Join("..", below)
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s: go test %s: %v", document, command, err)
			return
		}
		s = tests(t, dir, deep)
	}
	for i, arg := range args {
		switch {
		case (arg == "-run" || arg == "-bench" || arg == "-fuzz") && i+1 < len(args):
			name, _, _ := strings.Cut(args[i+1], "/") // what follows chooses among its parts
			pattern, err := regexp.Compile(name)
			placeholder := args[i+1] == "NAME" || args[i+1] == "^$"
			if err != nil || !placeholder && !slices.ContainsFunc(s.names, pattern.MatchString) {
				t.Errorf("%s: go test %s: got the pattern %s (%v), want one that finds a test there", document, command, args[i+1], err)
			}
		case arg == "-update" && !strings.Contains(s.text, "testenv.Update()"):
			t.Errorf("%s: go test %s: got -update, want tests there that have golden files", document, command)
		case strings.HasPrefix(arg, "-") && strings.Contains(arg, "."):
			flag, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if !strings.Contains(s.text, `"`+flag+`"`) {
				t.Errorf("%s: go test %s: got the flag -%s, want one that the tests there declare", document, command, flag)
			}
		}
	}
}
