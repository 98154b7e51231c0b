package ingest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/document/documenttest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// unknowable lists the files that the schema accepts and the loader does not.
func unknowable() map[string]string {
	const (
		formats  = "a schema knows no fields of formats"
		networks = "a schema knows no networks"
		values   = "a schema sees values, not how YAML wrote them"
		texts    = "a schema compiles no text of a configuration"
	)
	return map[string]string{
		"rejects_anchor":                        values,
		"rejects_caller_twice":                  values,
		"rejects_apache_text_cut":               texts,
		"rejects_apache_text_without_the_field": texts,
		"rejects_drop_method":                   formats,
		"rejects_duration_of_no_known_end":      formats,
		"rejects_drop_unknown_field":            formats,
		"rejects_field_of_another_format":       formats,
		"rejects_unknown_format":                "a schema that listed the formats would be one more file to change for each",
		"rejects_nginx_text_escape_none":        texts,
		"rejects_nginx_text_without_a_client":   texts,
		"rejects_no_callers_in_json":            formats,
		"rejects_templates_that_say_the_same":   "a schema compares no templates",
		"rejects_time_of_combined":              formats,
		"rejects_two_documents":                 "an editor checks each document by itself",
	}
}

// mappingReader is how mapping files are read.
func mappingReader() *documenttest.Reader {
	return &documenttest.Reader{
		Folder: "../../testdata/mappings", Least: 20, Schema: "../../schemas/mapping.schema.json", Semantic: unknowable(),
		Parse: func(data []byte) ([]*document.Error, error) {
			_, err := ParseMapping("file", data, "", schemas.IDs{})
			return nil, err
		},
	}
}

func TestEachMappingGetsTheVerdictOfItsName(t *testing.T) { mappingReader().Verdicts(t) }

func TestMappingSchemaAndLoaderAgree(t *testing.T) { mappingReader().SchemaAgrees(t) }

// TestMappingSchemaAndLoaderAgreeOnWhatNobodyWrote puts the fields of a mapping of JSON together.
func TestMappingSchemaAndLoaderAgreeOnWhatNobodyWrote(t *testing.T) {
	type object = map[string]any
	list := func(v ...any) []any { return v }
	mappingReader().Combinations(t, documenttest.Form{
		Pairs: testenv.IsLong(),
		Good:  object{"version": 1, "format": "json", "callers": object{"ip": "{addr}"}},
		Choices: map[string][]any{
			"version": {1, 2, "1", nil},
			"format":  {"json", "combined", "auto", "csv", "nginx: $remote_addr $status", "nginx:", "apache:%h", "xml", "", 1, nil},
			"callers": {
				object{"ip": "{addr}"}, object{"key": "{who}-{where|site}"}, object{"ip": "{a}{b}"}, object{"ip": "x{a}"}, object{"key": "{}"}, object{"key": "x"}, object{"KEY": "{a}"},
				object{"_canary": "{a}"}, object{"k": 1}, object{}, list(), "ip", nil,
			},
			"client": {
				object{"address": "addr"}, object{"address": "addr", "forwarded": "xff", "trusted": "10.0.0.0/8", "ipv6_prefix": 64}, object{"trusted": list("10.0.0.1", "::1")}, object{"trusted": list()},
				object{"ipv6_prefix": 0}, object{"ipv6_prefix": 129}, object{"address": ""}, object{"more": 1}, object{}, "addr", nil,
			},
			"time":     {object{"field": "ts"}, object{"field": "ts", "layout": "unix"}, object{"at": "end"}, object{"at": "now"}, object{"layout": "clf"}, object{"layout": "Unix"}, object{"field": 1}, object{}, "ts", nil},
			"duration": {object{"field": "ms", "unit": "ms"}, object{"field": "ms"}, object{"unit": "s"}, object{"field": "ms", "unit": "h"}, object{"field": "", "unit": "s"}, object{}, "ms", nil},
			"resource": {object{"field": "path"}, object{"field": "path", "templates": "/a/{id}", "other": "else"}, object{"templates": list("/a", "b")}, object{"templates": list()}, object{"other": strings.Repeat("x", 1025)}, object{}, 1, nil},
			"status":   {"code", "", 200, nil},
			"cost":     {object{"field": "ms"}, object{"field": "s", "scale": 1000}, object{"scale": 7}, object{"scale": "10"}, object{"field": "ms", "declared": "d"}, object{"declared": ""}, object{}, "ms", nil},
			"blocked":  {"none", 429, list(429, "5xx"), list(), 99, "all", nil},
			"drop": {
				object{"status": 200}, list(object{"client": "10.0.0.1"}, object{"resource": list("/health", "*")}), object{"fields": object{"who": "bot-*"}}, object{"fields": object{}},
				object{"status": "7xx"}, object{"path": "/"}, object{}, list(), "all", nil,
			},
			"arrivals":  {"none", object{"type": "start"}, object{"type": list("start", "b*"), "n": "1"}, object{"type": list()}, object{"type": 1}, object{}, list("none"), "all", nil},
			"columns":   {"a", list("a", "b"), list(), "", 1, nil},
			"unwrap":    {"docker", list("syslog", "docker"), list("docker", "docker", "docker", "docker"), "gzip", list(), nil},
			"responses": {true, false, "true", nil},
			"more":      {1},
		},
		Within: func(mapping any) any { return mapping },
		Loader: regexp.MustCompile(`^format: ((.*: )?bad mapping: |got "xml", want auto, )|^\w+: got field "`),
	})
}

// TestEachMappingReadsItsLog: the log beside a mapping is read as its .want says. Those of unwrap and of compiled formats have one.
// -update writes what is read.
func TestEachMappingReadsItsLog(t *testing.T) {
	var with []string
	for name, data := range mappingReader().Files(t) {
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
		"accepts_apache_text", "accepts_arrivals", "accepts_arrivals_none", "accepts_duration", "accepts_duration_at_end", "accepts_nginx_text", "accepts_nginx_text_in_journald", "accepts_unwrap", "accepts_unwrap_syslog",
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
	for _, data := range mappingReader().Files(f) {
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
