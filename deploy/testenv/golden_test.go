package testenv

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTheCommandIsThatOfTheTest: it names the package and the top-level test, and go test runs that one.
func TestTheCommandIsThatOfTheTest(t *testing.T) {
	const want = "go test ./deploy/testenv -run '^TestTheCommandIsThatOfTheTest$' -update"
	t.Run("a case", func(t *testing.T) {
		if got := UpdateCommand(t); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if Update() {
		return // by the command below
	}
	out, err := exec.CommandContext(t.Context(), program, "-test.run", "^TestTheCommandIsThatOfTheTest$", "-test.v", "-update").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestTheCommandIsThatOfTheTest") {
		t.Errorf("got %v and\n%s, want the test run", err, out)
	}
}
