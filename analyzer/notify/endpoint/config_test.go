package endpoint

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/schemas/event"
)

// parsed returns the settings of a file of testdata/notify.
func parsed(t *testing.T, name string) *Config {
	t.Helper()
	c, err := Load(filepath.Join(caseFolder, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEverythingIsUnderstood(t *testing.T) {
	c := parsed(t, "accepts_everything")
	ops, chat, audit := c.Named("ops"), c.Named("chat"), c.Named("audit-1")
	if len(c.Endpoints) != 3 || ops == nil || chat == nil || audit == nil || c.Named("none") != nil {
		t.Fatalf("got %+v", c.Endpoints)
	}
	if w := ops.Webhook; w.URL != "https://ops.example.com/floodgate" || len(w.Secrets) != 2 || w.Timeout != 5*time.Second || ops.Digest != (Digest{20, 30 * time.Second}) || len(ops.Routes) != 0 {
		t.Errorf("got %+v", ops)
	}
	if w := chat.Webhook; w.URL != "https://chat.example.com/services/T0/B0/x" || len(w.Secrets) != 0 || w.ContentType != "application/json; charset=utf-8" ||
		w.Timeout != webhook.DefaultTimeout || chat.Digest != (Digest{DefaultOver, DefaultEvery}) || len(chat.Routes) != 2 {
		t.Errorf("got %+v", chat)
	}
	if w := audit.Webhook; w.Allowed.Check(netip.MustParseAddr("10.1.9.9")) != nil || w.Allowed.Check(netip.MustParseAddr("fd00::1")) != nil ||
		w.Allowed.Check(netip.MustParseAddr("10.2.0.1")) == nil || audit.Digest != (Digest{}) {
		t.Errorf("got %+v", audit)
	}
	if len(c.Files) != 4 || len(c.Warnings) != 0 {
		t.Errorf("got files %v and warnings %v", c.Files, c.Warnings)
	}
}

// TestRoutesSayWhichEventsFit: every list of one route, or all of another.
func TestRoutesSayWhichEventsFit(t *testing.T) {
	c := parsed(t, "accepts_everything")
	change := func(f func(e *event.Event)) *event.Event {
		e := made(event.Closed)
		e.Rule = "login"
		f(e)
		return e
	}
	for name, test := range map[string]struct {
		event *event.Event
		want  bool
	}{
		"all of the first":         {change(func(*event.Event) {}), true},
		"a pattern":                {change(func(e *event.Event) { e.Rule = "api-search" }), true},
		"another rule":             {change(func(e *event.Event) { e.Rule = "logins" }), false},
		"no rule":                  {change(func(e *event.Event) { e.Rule = "" }), false},
		"another kind":             {change(func(e *event.Event) { e.Caller.Kind = "tenant" }), false},
		"another mode":             {change(func(e *event.Event) { e.Mode = "shadow" }), false},
		"another type":             {change(func(e *event.Event) { e.Type = event.Ended }), false},
		"the second, with no kind": {&event.Event{Type: event.Gap}, true},
		"a later version's":        {change(func(e *event.Event) { e.Type = "forecast" }), false},
	} {
		if got := c.Named("chat").Wants(test.event); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
	for _, e := range event.Types() {
		if !c.Named("ops").Wants(made(e)) {
			t.Errorf("got %s unwanted, want all events without routes", e)
		}
	}
	if c.Named("ops").Wants(&event.Event{Type: "forecast"}) {
		t.Error("got an event of a later version wanted")
	}
}

// TestSameIsAboutContents, also those of the files that are named.
func TestSameIsAboutContents(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func() *Config {
		t.Helper()
		c, err := Load(filepath.Join(dir, "notify.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const text = "version: 1\nendpoints: [{name: ops, url: https://ops.example.com, secret_files: s}]\n"
	write("notify.yaml", text)
	write("s", webhook.NewSecret())
	first := load()
	if !first.Same(load()) || first.Same(nil) || (*Config)(nil).Same(first) {
		t.Error("got other settings for the same files")
	}
	write("s", webhook.NewSecret())
	second := load()
	if first.Same(second) {
		t.Error("got the same settings with another secret")
	}
	write("notify.yaml", text+"\n")
	if second.Same(load()) {
		t.Error("got the same settings with another file")
	}
}

func TestLoadWantsAFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is none", err)
	}
	for _, path := range []string{t.TempDir(), os.DevNull} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "want a regular file") {
			t.Errorf("%s: got %v, want a regular file asked for", path, err)
		}
	}
}

// TestNoMoreEndpointsThanThereMayBe.
func TestNoMoreEndpointsThanThereMayBe(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nendpoints:\n")
	for n := range maxEndpoints + 1 {
		b.WriteString("  - {name: e" + string(rune('a'+n%26)) + strings.Repeat("x", n) + ", url: https://ops.example.com, secret_files: ops.secret}\n")
	}
	if _, err := Parse("n", []byte(b.String()), caseFolder); err == nil || err.Error() != "n:3:3: endpoints: got 33, want 1 to 32" {
		t.Errorf("got %v", err)
	}
}

// TestTemplatesEscape: whatever a caller's id is, a chat gets the JSON that its template means.
func TestTemplatesEscape(t *testing.T) {
	e := parsed(t, "accepts_everything").Named("chat")
	for _, n := range samples() {
		body, err := e.Body(n)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(body), `{"text": "`) || strings.ContainsAny(string(body), "\n\x00<>") {
			t.Errorf("got %q", body)
		}
	}
}

// TestABodyIsBounded: a template that repeats itself is an error, and no memory.
func TestABodyIsBounded(t *testing.T) {
	c, err := Parse("n", []byte("version: 1\nendpoints: [{name: a, url: https://a.example.com, content_type: text/plain, template: '{{if eq .Event.Rule \"bad\"}}{{range 100000}}{{$.Text}}{{end}}{{end}}'}]\n"), caseFolder)
	if err != nil {
		t.Fatal(err)
	}
	bad := made(event.Closed)
	bad.Rule = "bad"
	if body, err := c.Endpoints[0].Body(NewNotice(bad)); !errors.Is(err, ErrBody) {
		t.Errorf("got %d bytes and %v, want ErrBody", len(body), err)
	}
}

// TestTheFunctionJSONTakesAnything that a template may give to it.
func TestTheFunctionJSONTakesAnything(t *testing.T) {
	for value, want := range map[any]string{"a\"b": `"a\"b"`, 7: "7", true: "true", "\xff<": `"\ufffd\u003c"`} {
		if got, err := toJSON(value); err != nil || got != want {
			t.Errorf("%v: got %s, %v, want %s", value, got, err, want)
		}
	}
	if _, err := toJSON(func() {}); err == nil {
		t.Error("got JSON of a function, want an error")
	}
}

// TestTemplateErrorsSayWhichLine of the template, because it is one value of the file.
func TestTemplateErrorsSayWhichLine(t *testing.T) {
	text := "version: 1\nendpoints:\n  - name: a\n    url: https://a.example.com\n    template: |\n      {\"text\":\n      {{json .Txt}}}\n"
	_, err := Parse("n", []byte(text), caseFolder)
	if err == nil || !strings.Contains(err.Error(), "line 2 of it") || !strings.Contains(err.Error(), ".Txt") {
		t.Errorf("got %v, want the line", err)
	}
}
