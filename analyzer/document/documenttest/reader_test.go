package documenttest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/document"
)

// shop reads files of two fields: amount, which is 1 to 9, and name, which is not "bob". A schema could know the second only.
func shop(data []byte) ([]*document.Error, error) {
	d := document.Parse("file", data, "a shop")
	top, ok := d.Top("amount", "name")
	if !ok {
		return nil, d.Err()
	}
	if top.Lacks("amount") {
		top.Fail("amount", "missing")
	}
	if top.Integer("amount", 1, 9, 0) == 7 {
		top.Warn("amount", "got 7")
	}
	switch name, _ := top.Text("name", "a name"); {
	case name == "bob":
		top.Fail("name", "got bob")
	case name == "" && top.Has("name"):
		top.Fail("name", "got nothing")
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return d.Warnings(), nil
}

// reader writes files, and a schema in which an amount is at most maximum.
func reader(t *testing.T, maximum int, files map[string]string) *Reader {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name+".yaml"), text)
	}
	schema := filepath.Join(dir, "schema.json")
	write(t, schema, fmt.Sprintf(`{"type": "object", "required": ["amount"], "additionalProperties": false, "properties": {
		"amount": {"type": "integer", "minimum": 1, "maximum": %d}, "name": {"type": "string", "minLength": 1}}}`, maximum))
	return &Reader{Folder: dir, Least: len(files), Schema: schema, Parse: shop, Semantic: map[string]string{"rejects_bob": "a schema knows no people"}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func good() map[string]string {
	return map[string]string{
		"accepts_one":    "amount: 1\n",
		"accepts_seven":  "# warning: 2:9: amount: got 7\namount: 7\n",
		"rejects_bob":    "# want: 2:19: name: got bob\n{amount: 1, name: bob}\n",
		"rejects_amount": "# want: 2:9: amount: got 10, want a whole number from 1 to 9\namount: 10\n",
		"rejects_empty":  "",
	}
}

func TestAReaderThatIsRight(t *testing.T) {
	r := reader(t, 9, good())
	r.Verdicts(t)
	r.SchemaAgrees(t)
	r.Combinations(t, form())
}

func form() Form {
	return Form{
		Good:    map[string]any{"amount": 1},
		Choices: map[string][]any{"amount": {1, 5, 9, 0, 10, "1", nil, 1.5}, "name": {"ann", "bob", "", 5, nil}, "more": {1}},
		Within:  func(entry any) any { return entry },
		Loader:  regexp.MustCompile(`^name: got bob$`),
	}
}

func TestAVerdictThatIsNotTheNames(t *testing.T) {
	r := reader(t, 9, good())
	for name, c := range map[string]struct{ data, want string }{
		"accepts_wrong":    {"amount: 10\n", "got file:1:9: amount: got 10"},
		"rejects_right":    {"amount: 1\n", "got it accepted"},
		"rejects_other":    {"# want: 2:9: amount: got 11, want a whole number from 1 to 9\namount: 10\n", "got 11, want"},
		"rejects_silently": {"amount: 10\n", "got\nfile:1:9: amount"},
		"accepts_warned":   {"amount: 7\n", "got\nfile:1:9: amount: got 7\nwant\n"},
	} {
		if got := r.verdict(name, []byte(c.data)); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q in it", name, got, c.want)
		}
	}
	r.Parse = func([]byte) ([]*document.Error, error) { return nil, errors.New("plain") }
	if got := r.verdict("rejects_plain", nil); !strings.Contains(got, "no document.Errors: plain") {
		t.Errorf("got %q, want that the error has no position", got)
	}
}

// TestEachDisagreementAboutAFileIsSaid: a schema that is too wide, one that is too narrow, and lists that are out of date.
func TestEachDisagreementAboutAFileIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		maximum  int
		semantic map[string]string
		want     []string
	}{
		"right":             {9, map[string]string{"rejects_bob": "people"}, nil},
		"not listed":        {9, nil, []string{"rejects_bob: got it accepted from the schema"}},
		"too wide":          {10, map[string]string{"rejects_bob": "people"}, []string{"rejects_amount: got it accepted"}},
		"too narrow":        {6, map[string]string{"rejects_bob": "people"}, []string{"accepts_seven: got jsonschema validation failed"}},
		"listed for naught": {9, map[string]string{"rejects_bob": "people", "rejects_amount": "numbers"}, []string{`rejects_amount: listed as "numbers", but the schema refuses it too`}},
		"no such file":      {9, map[string]string{"rejects_bob": "people", "rejects_tom": "people"}, []string{"rejects_tom: listed, and there is no such file"}},
	} {
		r := reader(t, c.maximum, good())
		r.Semantic = c.semantic
		got := r.disagreements(compile(t, r.Schema), r.Files(t))
		if len(got) != len(c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], c.want[i]) {
				t.Errorf("%s: got %q, want %q", name, got[i], c.want[i])
			}
		}
	}
}
