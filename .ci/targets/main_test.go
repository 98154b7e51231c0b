package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAMistakeOfOneTarget is found for that target, in the file that it alone has, and for no other.
func TestAMistakeOfOneTarget(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.com/m\n\ngo 1.26\n",
		"main.go":            "package main\n\nimport \"example.com/m/sub\"\n\nfunc main() { println(sub.Name()) }\n",
		"sub/sub_unix.go":    "//go:build unix\n\npackage sub\n\nimport \"syscall\"\n\nfunc Name() string { return syscall.SIGHUP.String() }\n",
		"sub/sub_windows.go": "package sub\n\nimport \"syscall\"\n\nfunc Name() int { return syscall.Flock(0, 0) }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{
		"linux/arm64": "", "darwin/amd64": "", "windows/amd64": "sub_windows.go:5:34: undefined: syscall.Flock", "plan9/amd64": "build constraints exclude all Go files",
	} {
		n, err := check(dir, ".", target)
		switch {
		case want == "" && (err != nil || n < 10):
			t.Errorf("%s: got %d packages, %v, want 10 or more and no error", target, n, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want an error with %q", target, err, want)
		}
	}
}
