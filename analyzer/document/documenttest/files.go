// Package documenttest tests a reader of configuration files and the JSON Schema of them, which editors use. The reader must
// give each file of a folder the verdict of the file's name. The schema must agree with the reader about each file, and about
// each combination of values.
package documenttest

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/document"
)

// Reader is what is tested.
type Reader struct {
	Folder string // with the files: accepts_….yaml and rejects_….yaml
	Least  int    // how many files there are at least
	Schema string // file of the JSON Schema

	// Parse reads a file. Its errors begin with "file:" and the position. They name the folder as DIR.
	Parse func(data []byte) (warnings []*document.Error, err error)

	// Semantic lists the files that the schema accepts and Parse does not, and why a schema can't tell.
	Semantic map[string]string
}

// Files returns the files' contents by name, without the extension.
func (r *Reader) Files(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.Folder, "*.yaml"))
	if err != nil || len(paths) < r.Least {
		t.Fatalf("got %d files and %v, want at least %d", len(paths), err, r.Least)
	}
	files := make(map[string][]byte)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".yaml")] = data
	}
	return files
}

// Verdicts parses each file. Its name says whether it is accepted. Its comments "# want: 4:7: text" say every error, in
// order, or "# warning: 4:7: text" every warning of an accepted one.
func (r *Reader) Verdicts(t *testing.T) {
	t.Helper()
	for name, data := range r.Files(t) {
		t.Run(name, func(t *testing.T) {
			if wrong := r.verdict(name, data); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// verdict says how the verdict of a file differs from what its name and its comments say.
func (r *Reader) verdict(name string, data []byte) string {
	warnings, err := r.Parse(data)
	if accepted := err == nil; accepted != strings.HasPrefix(name, "accepts_") {
		return "got " + text(err)
	}
	if err == nil {
		return r.compare("warning", warnings, data)
	}
	var errs document.Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		return "got an error that is no document.Errors: " + text(err)
	}
	if len(data) == 0 {
		return "" // no room for a comment
	}
	return r.compare("want", errs, data)
}

// compare says how errs differ from the comments that begin with word.
func (r *Reader) compare(word string, errs []*document.Error, data []byte) string {
	var want, got []string
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# "+word+": "); ok {
			want = append(want, "file:"+text)
		}
	}
	for _, e := range errs {
		got = append(got, strings.ReplaceAll(e.Error(), r.Folder, "DIR"))
	}
	if slices.Equal(got, want) {
		return ""
	}
	return "got\n" + strings.Join(got, "\n") + "\nwant\n" + strings.Join(want, "\n")
}

// SchemaAgrees holds the schema against each file: it gives the verdict of the file's name, but for those in Semantic.
func (r *Reader) SchemaAgrees(t *testing.T) {
	t.Helper()
	for _, wrong := range r.disagreements(compile(t, r.Schema), r.Files(t)) {
		t.Error(wrong)
	}
}

// disagreements says where the schema's verdicts are not those of the files' names, in the order of the names.
func (r *Reader) disagreements(s schema, files map[string][]byte) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		verdict := s.validate(files[name])
		why, listed := r.Semantic[name]
		switch accepted := verdict == nil; {
		case listed && !accepted:
			all = append(all, name+": listed as \""+why+"\", but the schema refuses it too: "+text(verdict))
		case !listed && accepted != strings.HasPrefix(name, "accepts_"):
			all = append(all, name+": got "+text(verdict)+" from the schema")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Semantic)) {
		if _, found := files[name]; !found {
			all = append(all, name+": listed, and there is no such file")
		}
	}
	return all
}

func text(err error) string {
	if err == nil {
		return "it accepted"
	}
	return err.Error()
}
