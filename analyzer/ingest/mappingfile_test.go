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

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/schemas"
)

const mappingSchema = "../../schemas/mapping.schema.json"

// unknowable lists the files that the schema accepts and the loader does not: a schema knows no fields of formats, no
// networks, not how YAML wrote a value, and compiles no text of a configuration.
func unknowable() []string {
	return []string{
		"rejects_anchor", "rejects_field_of_another_format", "rejects_drop_unknown_field",
		"rejects_no_callers_in_json", "rejects_templates_that_say_the_same", "rejects_time_of_combined",
		"rejects_two_documents", "rejects_nginx_text_escape_none", "rejects_nginx_text_without_a_client",
		"rejects_apache_text_cut", "rejects_apache_text_without_the_field", "rejects_drop_method",
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
		_, err := ParseMapping("m", data, "", schemas.IDs{})
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
		var errs document.Errors
		if err != nil && !errors.As(err, &errs) {
			t.Errorf("%s: got %T, want document.Errors", name, err)
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

// TestEachMappingReadsItsLog: the log beside a mapping is read as its .want says. Those of unwrap and of compiled formats have one.
// -update writes what is read.
func TestEachMappingReadsItsLog(t *testing.T) {
	var with []string
	for name, data := range mappings(t) {
		path := filepath.Join("../../testdata/mappings", name)
		log, err := os.ReadFile(path + ".log")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		with = append(with, name)
		f, err := ParseMapping(name, data, "", schemas.IDs{})
		if err != nil {
			t.Fatal(err)
		}
		compareGolden(t, path+".want", read(f.Scanner(), f.Kinds(), log))
	}
	slices.Sort(with)
	want := []string{
		"accepts_apache_text", "accepts_nginx_text", "accepts_nginx_text_in_journald", "accepts_unwrap", "accepts_unwrap_syslog",
	}
	if !slices.Equal(with, want) {
		t.Errorf("got logs of %q, want of %q", with, want)
	}
}

// TestAMappingFileDoesWhatItSays reads lines with the file that has everything.
func TestAMappingFileDoesWhatItSays(t *testing.T) {
	f, err := LoadMapping("../../testdata/mappings/accepts_everything.yaml", "", schemas.IDs{})
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
		`"remote_addr":"::ffff:10.1.2.3","http_x_forwarded_for":"nonsense, ::ffff:203.0.113.9","request_uri":"GET /users/9 HTTP/1.1"`: "203.0.113.9 acme|GET /users/{id} k1 user-bob 123",
		`"remote_addr":"203.0.113.9","request_uri":"/healthz"`:                                                                        "dropped",
		`"remote_addr":"203.0.113.9","request_uri":"/users/1","request_method":"HEAD"`:                                                "dropped",
		`"remote_addr":"10.9.9.9","request_uri":"/users/1","status":"301"`:                                                            "dropped",
		`"remote_addr":"10.9.9.9","request_uri":"/users/1","status":"503"`:                                                            "10.9.9.9 acme|/users/{id} k1 user-bob 123 blocked",
		`"remote_addr":"203.0.113.9","request_uri":"/users/1","tenant":"a|b"`:                                                         "203.0.113.9 ~0eab8a0a3380abf4c7d1fb0b43b66aaf|/users/{id} k1 user-bob 123",
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

// TestFlagAndFileAgreeOnThePrefix: a file may say what no flag says, and must not say another prefix.
func TestFlagAndFileAgreeOnThePrefix(t *testing.T) {
	for _, c := range []struct {
		flag       int
		file, want string
	}{
		{0, "{}", "2001:db8:1:2::"},
		{0, "{ipv6_prefix: 56}", "2001:db8:1::"},
		{48, "{}", "2001:db8:1::"},
		{128, "{ipv6_prefix: 128}", "2001:db8:1:2:3:4:5:6"},
		{64, "{ipv6_prefix: 56}", "m:3:23: ipv6_prefix: got 56, want 64, which --ipv6-prefix says"},
	} {
		f, err := ParseMapping("m", []byte("version: 1\nformat: common\nclient: "+c.file+"\n"), "", schemas.IDs{IPv6Prefix: c.flag})
		if err != nil {
			if err.Error() != c.want {
				t.Errorf("%d and %s: got %v, want %s", c.flag, c.file, err, c.want)
			}
			continue
		}
		l := roomy()
		if r := Scan(f.Scanner(), []byte(`2001:db8:1:2:3:4:5:6 - - `+clfTime+` "GET / HTTP/1.1" 200 1`), l); r != OK || l.IDs[0] != c.want {
			t.Errorf("%d and %s: got %v, %q, want %s", c.flag, c.file, r, l.IDs, c.want)
		}
	}
}

// TestAFlagGoesBeforeTheFile: --format with a mapping file.
func TestAFlagGoesBeforeTheFile(t *testing.T) {
	f, err := ParseMapping("m", []byte("version: 1\nformat: nginx\n"), "common", schemas.IDs{})
	if err != nil || f.Name() != "common" {
		t.Errorf("got %v, %v", f, err)
	}
	if _, err := LoadMapping(filepath.Join(t.TempDir(), "none.yaml"), "", schemas.IDs{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func FuzzParseMapping(f *testing.F) {
	for _, data := range mappings(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		format, err := ParseMapping("m", data, "", schemas.IDs{})
		var errs document.Errors
		if err != nil && (!errors.As(err, &errs) || len(errs) == 0) {
			t.Errorf("got %T, want document.Errors", err)
		}
		if err == nil && len(format.Kinds()) == 0 {
			t.Error("accepted without a caller")
		}
	})
}
