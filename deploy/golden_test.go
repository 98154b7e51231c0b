package deploy

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGoldenFilesHaveOneFlag: what a test compares with a file is written anew by -update, whichever package it is of, and the test that
// fails says by which command. Captures of what others wrote are no golden files: -update leaves them.
func TestGoldenFilesHaveOneFlag(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || path == filepath.Join("..", "deploy", "golden_test.go") {
			return err
		}
		text := readFile(t, path)
		for _, flag := range regexp.MustCompile(`flag\.(?:Bool|String|Int)\("([\w.-]*update[\w.-]*)"`).FindAllStringSubmatch(text, -1) {
			t.Errorf("%s: got a flag -%s, want testenv.Update", path, flag[1])
		}
		if strings.Contains(text, "if testenv.Update() {") {
			if found++; !strings.Contains(text, "testenv.UpdateCommand(t)") {
				t.Errorf("%s: got no command in a failure, want testenv.UpdateCommand", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("got %d files of tests with golden files, want all of them", found)
	}
	contributing := readFile(t, "../.github/CONTRIBUTING.md")
	for _, other := range regexp.MustCompile(`-[\w.]+\.update`).FindAllString(contributing, -1) {
		t.Errorf("CONTRIBUTING.md: got %s, want -update", other)
	}
}

// TestContributingNamesWhatThereIs: where CONTRIBUTING.md says in which file a table is that grows, the file has it.
func TestContributingNamesWhatThereIs(t *testing.T) {
	found := regexp.MustCompile("`(\\w+)(?:\\(\\))?`\\s+(?:in|\\()\\s*`([\\w/]+\\.go)`").FindAllStringSubmatch(readFile(t, "../.github/CONTRIBUTING.md"), -1)
	if len(found) < 5 {
		t.Errorf("got %d tables in %q, want those of routes, types, requests and subcommands", len(found), found)
	}
	for _, m := range found {
		has := false
		err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(filepath.ToSlash(path), "/"+m[2]) {
				has = has || regexp.MustCompile(`func (?:\(\w+ \*?\w+\) )?`+m[1]+`\(`).MatchString(readFile(t, path))
			}
			return err
		})
		if err != nil || !has {
			t.Errorf("got %s in %s (%v), want a function there", m[1], m[2], err)
		}
	}
}
