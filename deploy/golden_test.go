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
		for _, flag := range regexp.MustCompile(`flag\.\w+\("([\w.-]*update[\w.-]*)"`).FindAllStringSubmatch(text, -1) {
			t.Errorf("%s: got a flag -%s, want testenv.Update", path, flag[1])
		}
		if strings.Contains(text, "testenv.Update()") {
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
