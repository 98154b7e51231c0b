package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module is a package with five changes: two are noticed, one is not, one is in a line that no test runs, and one does not compile.
var module = map[string]string{
	"go.mod": "module example.test/m\n\ngo 1.26\n",
	"limit.go": `package m

const limit = 3

func Reached(n int) bool { return n >= limit }

func Unused(n int) bool {
	return !(n == limit)
}

var names [2]string
var _ = [2]string(names)
`,
	"limit_test.go": `package m

import "testing"

func TestReached(t *testing.T) {
	if !Reached(4) || Reached(2) {
		t.Fail()
	}
}
`,
}

func writeModule(t *testing.T, explained string) {
	t.Helper()
	dir := t.TempDir()
	module["explained.txt"] = explained
	for name, text := range module {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func mutate(t *testing.T, r *run) (string, error) {
	t.Helper()
	var out strings.Builder
	r.out = &out
	if err := r.explain("explained.txt"); err != nil {
		return "", err
	}
	err := r.all(t.Context(), []string{"."})
	return out.String(), err
}

func TestEachChangeGetsItsVerdict(t *testing.T) {
	writeModule(t, "")
	out, err := mutate(t, &run{})
	if err == nil || !strings.Contains(err.Error(), "neither noticed nor explained") {
		t.Errorf("got %v, want an error about the changes that stay", err)
	}
	for _, want := range []string{
		"limit.go:5: limit.go | func Reached(n int) bool { return n >= limit } | >= -> >\n",
		"limit.go:3: limit.go | const limit = 3 | 3 -> 4\n",
		"no test runs limit.go:8: limit.go | return !(n == limit) | == -> !=\n",
		": 5 changes, 1 noticed, 2 not noticed, 2 in lines that no test runs, 0 of these explained\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %s", out, want)
		}
	}
}

func TestExplainedChangesMayStay(t *testing.T) {
	writeModule(t, `# why
./limit.go | const limit = 3 | 3 -> 4 | one
./limit.go | func Reached(n int) bool { return n >= limit } | >= -> > | two
./limit.go | return !(n == limit) | == -> != | three
./limit.go | return !(n == limit) | ! ->  | four
`)
	if out, err := mutate(t, &run{}); err != nil || !strings.Contains(out, "4 of these explained") {
		t.Errorf("got %s and %v, want 4 explained changes", out, err)
	}
}

func TestASampleIsDrawnBySeed(t *testing.T) {
	writeModule(t, "")
	first, _ := mutate(t, &run{sample: 1, seed: 7})
	second, _ := mutate(t, &run{sample: 1, seed: 7})
	if first != second || !strings.HasPrefix(first, "1 of 7 changes, seed 7\n") {
		t.Errorf("got %s, and then %s", first, second)
	}
}

func TestTestsThatFailAreNoJudge(t *testing.T) {
	writeModule(t, "")
	if err := os.WriteFile("fails_test.go", []byte("package m\n\nimport \"testing\"\n\nfunc TestFails(t *testing.T) { t.Fail() }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mutate(t, &run{}); err == nil || !strings.Contains(err.Error(), "fail without a change") {
		t.Errorf("got %v, want an error", err)
	}
}

func TestAnExplanationWithoutAReasonIsRefused(t *testing.T) {
	writeModule(t, "limit.go | >= -> >\n")
	if _, err := mutate(t, &run{}); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("got %v, want an error", err)
	}
}
