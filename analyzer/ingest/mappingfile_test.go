package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/509da70d/floodgate/analyzer/rules"
)

const mappingSchema = "../../schemas/mapping.schema.json"

// unknowable lists the files that the schema accepts and the loader does not: a schema knows no fields of formats, no
// networks, and not how YAML wrote a value.
func unknowable() []string {
	return []string{
		"rejects_anchor", "rejects_field_of_another_format", "rejects_drop_unknown_field",
		"rejects_no_callers_in_json", "rejects_templates_that_say_the_same", "rejects_time_of_combined",
		"rejects_two_documents",
	}
}

// mappings returns the mapping files, by name.
func mappings(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/mappings/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatalf("got %d mapping files, %v", len(paths), err)
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

// Each file's name says its verdict, and its comments say every error, in order.
func TestEachMappingGetsTheVerdictOfItsName(t *testing.T) {
	for name, data := range mappings(t) {
		_, err := ParseMapping("m", data, "")
		if accepted := err == nil; accepted != strings.HasPrefix(name, "accepts_") {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		var want, got []string
		for line := range strings.Lines(string(data)) {
			if text, ok := strings.CutPrefix(line, "# want: "); ok {
				want = append(want, "m:"+strings.TrimSpace(text))
			}
		}
		var errs rules.Errors
		if err != nil && !errors.As(err, &errs) {
			t.Errorf("%s: got %T, want rules.Errors", name, err)
		}
		for _, e := range errs {
			got = append(got, e.Error())
		}
		if len(data) > 0 && !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The schema, which editors use, gives each file the same verdict as the loader, but for the listed ones.
func TestMappingSchemaAndLoaderAgree(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(mappingSchema)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range mappings(t) {
		accepted := schemaAccepts(t, schema, data)
		want := strings.HasPrefix(name, "accepts_") || slices.Contains(unknowable(), name)
		if accepted != want {
			t.Errorf("%s: the schema accepts it: %v", name, accepted)
		}
	}
}

func schemaAccepts(t testing.TB, schema *jsonschema.Schema, data []byte) bool {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return false
	}
	text, err := json.Marshal(v)
	if err != nil {
		return false
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	return err == nil && schema.Validate(value) == nil
}

// TestAMappingFileDoesWhatItSays reads lines with the file that has everything.
func TestAMappingFileDoesWhatItSays(t *testing.T) {
	f, err := LoadMapping("../../testdata/mappings/accepts_everything.yaml", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.Name(), f.Kinds(), f.Responses(), f.Headed()); got != "nginx[ip tenant_route key who] false false" {
		t.Errorf("got %s", got)
	}
	const base = `"time_iso8601":"2015-05-17T10:05:03Z","tenant":"acme","http_x_api_key":"","arg_key":"k1","remote_user":"bob","status":"200","request_time":"0.123"`
	for fields, want := range map[string]string{
		`"remote_addr":"203.0.113.9","request_uri":"/users/123?a=b"`:                                                                  "203.0.113.9 acme|/users/{id} k1 user-bob 123",
		`"remote_addr":"203.0.113.9","http_x_forwarded_for":"6.6.6.6","request_uri":"/users/1/orders/2"`:                              "203.0.113.9 acme|/users/{id}/orders/{order} k1 user-bob 123",
		`"remote_addr":"10.1.2.3","http_x_forwarded_for":"6.6.6.6, 203.0.113.9, 192.0.2.1","request_uri":"/x"`:                        "203.0.113.9 acme|(other) k1 user-bob 123",
		`"remote_addr":"10.1.2.3","http_x_forwarded_for":"2001:db8:1:2:3:4:5:6, 2001:DB9:1:2:3:4:5:6","request_uri":"/users/"`:        "2001:db9:1:2:: acme|(other) k1 user-bob 123",
		`"remote_addr":"::ffff:10.1.2.3","http_x_forwarded_for":"nonsense, ::ffff:203.0.113.9","request_uri":"GET /users/9 HTTP/1.1"`: "203.0.113.9 acme|/users/{id} k1 user-bob 123",
		`"remote_addr":"203.0.113.9","request_uri":"/healthz"`:                                                                        "dropped",
		`"remote_addr":"203.0.113.9","request_uri":"/users/1","request_method":"HEAD"`:                                                "dropped",
		`"remote_addr":"10.9.9.9","request_uri":"/users/1","status":"301"`:                                                            "dropped",
		`"remote_addr":"10.9.9.9","request_uri":"/users/1","status":"503"`:                                                            "10.9.9.9 acme|/users/{id} k1 user-bob 123 blocked",
		`"remote_addr":"203.0.113.9","request_uri":"/users/1","tenant":"a|b"`:                                                         "203.0.113.9  k1 user-bob 123",
	} {
		l := new(Line)
		got := Scan(f.Scanner(), []byte("{"+base+","+fields+"}"), l).String()
		if got == "ok" {
			got = fmt.Sprint(strings.Join(l.IDs, " "), " ", l.Cost)
			if l.Blocked {
				got += " blocked"
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
	}
}

// TestAFlagGoesBeforeTheFile: --format with a mapping file.
func TestAFlagGoesBeforeTheFile(t *testing.T) {
	f, err := ParseMapping("m", []byte("version: 1\nformat: nginx\n"), "common")
	if err != nil || f.Name() != "common" {
		t.Errorf("got %v, %v", f, err)
	}
	if _, err := LoadMapping(filepath.Join(t.TempDir(), "none.yaml"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func FuzzParseMapping(f *testing.F) {
	for _, data := range mappings(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		format, err := ParseMapping("m", data, "")
		var errs rules.Errors
		if err != nil && (!errors.As(err, &errs) || len(errs) == 0) {
			t.Errorf("got %T, want rules.Errors", err)
		}
		if err == nil && len(format.Kinds()) == 0 {
			t.Error("accepted without a caller")
		}
	})
}
