package testenv

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew, instead of comparing them") //nolint:gochecknoglobals // a flag must be declared before flags are read

// Update reports whether tests write their golden files anew, instead of comparing them. A test that asks names UpdateCommand in its failure.
func Update() bool { return *update }

// UpdateCommand returns the command that writes the golden files of a test anew. It runs from the root of the module.
func UpdateCommand(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd() // go test runs a package's tests in its directory
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	for root := dir; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			path, err := filepath.Rel(root, dir)
			if err != nil {
				t.Fatal(err)
			}
			return "go test ./" + filepath.ToSlash(path) + " -run '^" + name + "$' -update"
		}
	}
	t.Fatalf("got no go.mod above %s", dir)
	return ""
}
