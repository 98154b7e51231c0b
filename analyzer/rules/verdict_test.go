package rules

import (
	"bytes"
	"encoding/json"
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
	schemaFile = "../../schemas/rules.schema.json"
	ruleFiles  = "../../testdata/rules/*.yaml"
)

// semantic lists the files that the schema accepts and the loader does not, and why a schema can't tell.
func semantic() map[string]string {
	const (
		length  = "a pattern knows the form of a duration, not its length"
		address = "a schema knows no addresses"
		names   = "a schema compares no fields of different objects"
		numbers = "a schema does not calculate"
		values  = "a schema sees values, not how YAML wrote them"
		zones   = "a schema has no time zone database"
	)
	return map[string]string{
		"rejects_anchor_and_alias":                  values,
		"rejects_close_for_zero":                    length,
		"rejects_duplicate_field":                   values,
		"rejects_duplicate_name":                    names,
		"rejects_escalate_max_under_close_for":      length,
		"rejects_gcra_burst_over_a_year":            numbers,
		"rejects_gcra_override_under_a_microsecond": numbers,
		"rejects_gcra_under_a_microsecond":          numbers,
		"rejects_limit_float":                       "100.0 is an integer to JSON Schema",
		"rejects_limit_octal":                       values,
		"rejects_merge_key":                         values,
		"rejects_override_address_as_network":       address,
		"rejects_override_bad_address":              address,
		"rejects_override_host_bits":                address,
		"rejects_override_mapped_network":           address,
		"rejects_override_network_of_keys":          address,
		"rejects_override_same_address_twice":       address,
		"rejects_override_same_id_twice":            values,
		"rejects_tag":                               values,
		"rejects_timezone_path":                     zones,
		"rejects_timezone_unknown":                  zones,
		"rejects_two_documents":                     "an editor checks each document by itself",
		"rejects_warn_falling":                      "a schema knows no order",
		"rejects_warn_percentages":                  "a schema knows no order",
		"rejects_window_over_a_year":                length,
		"rejects_window_overflow":                   length,
		"rejects_window_zero":                       length,
	}
}

// Each file's name says its verdict, and its comments say every error or warning that it gives, in order.
func TestEachFileGetsTheVerdictOfItsName(t *testing.T) {
	for _, path := range files(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			data := contents(t, path)
			set, err := Parse("rules.yaml", data)
			if accepted := err == nil; accepted != strings.HasPrefix(name, "accepts_") {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				compare(t, "warning", set.Warnings, data)
				return
			}
			var errs document.Errors
			if !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatalf("got %T, want Errors", err)
			}
			if len(data) > 0 {
				compare(t, "want", errs, data)
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
			want = append(want, "rules.yaml:"+text)
		}
	}
	for _, e := range errs {
		got = append(got, e.Error())
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
	for _, path := range files(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		why, listed := unused[name]
		delete(unused, name)
		t.Run(name, func(t *testing.T) {
			verdict := validate(schema, contents(t, path))
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

// Every example of the schema loads where it stands, so that an editor offers nothing wrong.
func TestExamplesOfTheSchemaLoad(t *testing.T) {
	var schema struct {
		Defs struct {
			Rule struct {
				Properties map[string]struct {
					Examples   []any
					Properties map[string]struct{ Examples []any }
				}
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(contents(t, schemaFile), &schema); err != nil {
		t.Fatal(err)
	}
	loads := func(field string, value any) {
		t.Helper()
		rule := map[string]any{"name": "r", "callers": "ip", "limit": 5, "window": "1m"}
		switch field {
		case "timezone":
			rule["window"] = "month"
		case "escalate":
			rule["close_for"] = "30s"
		}
		rule[field] = value
		text, err := json.Marshal(map[string]any{"version": 1, "rules": []any{rule}}) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("example", text); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
	n := 0
	for field, property := range schema.Defs.Rule.Properties {
		for _, example := range property.Examples {
			loads(field, example)
			n++
		}
		for inner, property := range property.Properties {
			for _, example := range property.Examples {
				loads(field, map[string]any{inner: example})
				n++
			}
		}
	}
	if n < 15 {
		t.Errorf("got %d examples, want more", n)
	}
}

func files(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(ruleFiles)
	if err != nil || len(paths) < 100 {
		t.Fatalf("got %d files and %v, want a hundred", len(paths), err)
	}
	return paths
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
