package endpoint

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/document/documenttest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// choices are values for a field of an endpoint, good and bad ones.
func choices() map[string][]any {
	object := func(pairs ...any) map[string]any {
		m := make(map[string]any)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	}
	list := func(v ...any) []any { return v }
	return map[string][]any{
		"name": {"ops", "a-1_b", "9", strings.Repeat("n", 64), strings.Repeat("n", 65), "", "-a", "_a", "A", "ä", "a b", "a.b", 5, nil, list("a")},
		"url": {
			"https://a.example.com", "https://a.example.com:8443/x?y=z", "https://a.example.com?y", "http://127.0.0.1/", "ftp://a.example.com", "https://", "https://u@a.example.com/",
			"https://a.example.com/#f", "a.example.com", "https://" + strings.Repeat("x", 2100), "", 7, nil, list("https://a.example.com"),
		},
		"url_file":        {"chat.url", "missing.url", "loopback.url", "large.url", "", 7, nil, list("chat.url")},
		"secret_files":    {"ops.secret", list("ops.secret"), list("ops.secret", "ops.new.secret"), list("ops.secret", "ops.secret", "ops.secret"), list(), "", list(""), "short.secret", "missing", 1, nil},
		"allow_addresses": {"10.0.0.0/8", list("10.0.0.0/8", "::1"), "127.0.0.1", list(), "", "localhost", "10.1.2.3/8", 10, nil, object()},
		"timeout":         {"5s", "100ms", "1m", "1m1s", "1ms", "1h", "", "5", 5, nil, "-1s"},
		"template": {
			`{"text": {{json .Text}}}`, "{{json .Text}}", `{{json .}}`, "{{.Text}}", `"{{.Event.Caller}}"`, "{{", "{{.None}}", "", strings.Repeat("1", 16<<10), strings.Repeat("1", 16<<10+1), 7, nil,
		},
		"content_type": {"application/json", "text/plain", "text/plain; charset=utf-8", "text", "", "a/\n", "ä/b", strings.Repeat("a/", 51), 7, nil},
		"digest": {
			"off", object(), object("over", 1), object("over", 10_000, "every", "1h"), object("every", "100ms"), object("over", 0), object("over", 10_001), object("every", "2h"),
			object("after", 1), "on", false, nil, 3, list(),
		},
		"routes": {
			list(object()), list(object("types", "closed")), list(object("types", list("closed", "gap"), "rules", list("a", "b*"), "kinds", "ip", "modes", list("shadow"))),
			list(object("types", "close")), list(object("types", list())), list(object("rules", "")), list(object("kinds", "IP")), list(object("kinds", strings.Repeat("k", 33))),
			list(object("modes", "off")), list(object("callers", "ip")), list(), "closed", object("types", "closed"), nil, list("closed"),
		},
		"retries": {1},
	}
}

// onlyTheLoader matches what a schema can't see: the lengths of durations, addresses, other files, and templates.
var onlyTheLoader = regexp.MustCompile(strings.Join([]string{
	`^(timeout|every): got \S+, want \S+ to \S+$`, `^url(_file)?: address is not public`, `^url_file: `, `^secret_files: (stat|\w+\.secret:|.*no such file)`,
	`^allow_addresses: got `, `^template: (line|cannot be filled|got no JSON)`, `^url: got no URL`,
}, "|"))

// TestSchemaAndLoaderAgreeOnWhatNobodyWrote puts fields of an endpoint together.
func TestSchemaAndLoaderAgreeOnWhatNobodyWrote(t *testing.T) {
	reader().Combinations(t, documenttest.Form{
		Pairs:   testenv.IsLong(),
		Good:    map[string]any{"name": "ops", "url": "https://a.example.com", "secret_files": "ops.secret"},
		Choices: choices(),
		Within:  func(endpoint any) any { return map[string]any{"version": 1, "endpoints": []any{endpoint}} },
		Loader:  onlyTheLoader,
	})
}

// Every example of the schema loads where it stands, so that an editor offers nothing wrong.
func TestExamplesOfTheSchemaLoad(t *testing.T) {
	var schema struct {
		Defs struct {
			Endpoint struct {
				Properties map[string]struct{ Examples []any }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(contents(t, schemaFile), &schema); err != nil {
		t.Fatal(err)
	}
	n := 0
	for field, property := range schema.Defs.Endpoint.Properties {
		for _, example := range property.Examples {
			e := map[string]any{"name": "ops", "url": "https://a.example.com", "secret_files": "ops.secret"}
			if field == "url_file" {
				delete(e, "url")
			}
			e[field] = example
			text, err := json.Marshal(map[string]any{"version": 1, "endpoints": []any{e}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Parse("example", text, caseFolder); err != nil {
				t.Errorf("%s: %v", field, err)
			}
			n++
		}
	}
	if n < 10 {
		t.Errorf("got %d examples, want more", n)
	}
}
