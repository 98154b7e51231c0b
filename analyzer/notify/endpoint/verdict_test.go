package endpoint

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/509da70d/floodgate/analyzer/document"
)

const (
	schemaFile = "../../../schemas/notify.schema.json"
	caseFolder = "../../../testdata/notify"
)

// semantic lists the files that the schema accepts and the loader does not, and why a schema can't tell.
func semantic() map[string]string {
	const (
		length  = "a pattern knows the form of a duration, not its length"
		address = "a schema knows no addresses"
		file    = "a schema reads no other file"
		text    = "a schema knows no templates"
		values  = "a schema sees values, not how YAML wrote them"
	)
	return map[string]string{
		"rejects_allow_host":              address,
		"rejects_allow_host_bits":         address,
		"rejects_anchor":                  values,
		"rejects_digest_every_long":       length,
		"rejects_duplicate_field":         values,
		"rejects_name_twice":              "a schema compares no fields of different objects",
		"rejects_secret_directory":        file,
		"rejects_secret_missing":          file,
		"rejects_secret_plain":            file,
		"rejects_secret_short":            file,
		"rejects_template_field":          text,
		"rejects_template_function":       text,
		"rejects_template_long":           text,
		"rejects_template_not_json":       text,
		"rejects_template_open":           text,
		"rejects_timeout_short":           length,
		"rejects_two_documents":           "an editor checks each document by itself",
		"rejects_url_file_large":          file,
		"rejects_url_file_loopback":       file,
		"rejects_url_file_missing":        file,
		"rejects_url_loopback":            address,
		"rejects_url_mapped":              address,
		"rejects_url_metadata":            address,
		"rejects_url_private_not_allowed": address,
	}
}

// cases returns the files of testdata/notify, by name.
func cases(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(caseFolder, "*.yaml"))
	if err != nil || len(paths) < 60 {
		t.Fatalf("got %d files and %v, want sixty", len(paths), err)
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

// Each file's name says its verdict, and its comments say every error or warning that it gives, in order.
func TestEachFileGetsTheVerdictOfItsName(t *testing.T) {
	for name, data := range cases(t) {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("notify.yaml", data, caseFolder)
			if accepted := err == nil; accepted != strings.HasPrefix(name, "accepts_") {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				compare(t, "warning", c.Warnings, data)
				return
			}
			var errs document.Errors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("got %T, want Errors", err)
			}
			if len(data) > 0 {
				compare(t, "want", errs, data)
			}
			for _, secret := range []string{"hunter2", "services", "c3Nz", "xxxxx"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("got %v, want nothing of a file of a secret or a URL in it", err)
				}
			}
		})
	}
}

// compare checks errs against the comments that begin with word.
func compare(t *testing.T, word string, errs []*document.Error, data []byte) {
	t.Helper()
	var want, got []string
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "# "+word+": "); ok {
			want = append(want, "notify.yaml:"+text)
		}
	}
	for _, e := range errs {
		got = append(got, strings.ReplaceAll(e.Error(), caseFolder, "DIR"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The schema gives each file the same verdict as the loader, but for the listed ones.
func TestSchemaAndLoaderAgree(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	unused := semantic()
	for name, data := range cases(t) {
		why, listed := unused[name]
		delete(unused, name)
		t.Run(name, func(t *testing.T) {
			verdict := validate(schema, data)
			want := strings.HasPrefix(name, "accepts_")
			switch accepted := verdict == nil; {
			case listed && !accepted:
				t.Errorf("listed as %q, but the schema refuses it too: %v", why, verdict)
			case !listed && accepted != want:
				t.Errorf("got %v from the schema", verdict)
			}
		})
	}
	if len(unused) > 0 {
		t.Errorf("no such files: %v", slices.Sorted(maps.Keys(unused)))
	}
}

// validate says what an editor with the schema would say to a file.
func validate(schema *jsonschema.Schema, data []byte) error {
	// An editor takes a key twice, and reports it itself.
	var value any
	if err := yaml.UnmarshalWithOptions(data, &value, yaml.AllowDuplicateMapKey()); err != nil {
		return err
	}
	text, err := yaml.MarshalWithOptions(value, yaml.JSON())
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return schema.Validate(instance)
}

func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join(caseFolder, "*.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("range")) {
			return // a template that counts to a billion takes its time
		}
		c, err := Parse("notify.yaml", data, caseFolder)
		if (err == nil) != (c != nil) {
			t.Fatalf("got %v and %v", c, err)
		}
	})
}
