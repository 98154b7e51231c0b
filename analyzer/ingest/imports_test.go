package ingest_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestIngestNeedsNoRules: reading logs knows nothing of rules, folding or storage. It shares with rules the reader of files
// and the patterns. What a package imports through others counts too.
func TestIngestNeedsNoRules(t *testing.T) {
	const module = "github.com/509da70d/floodgate/"
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"analyzer/document": true, "analyzer/pattern": true, "analyzer/ingest": true, "schemas": true}
	for pkg := range strings.FieldsSeq(string(out)) {
		if own, ok := strings.CutPrefix(pkg, module); ok && !want[own] {
			t.Errorf("ingest needs %s", pkg)
		}
		if strings.Contains(pkg, "kafka") || strings.Contains(pkg, "badger") {
			t.Errorf("ingest needs %s", pkg)
		}
		delete(want, strings.TrimPrefix(pkg, module))
	}
	if len(want) > 0 {
		t.Errorf("ingest does not need %v any more: take them from this list", want)
	}
}
