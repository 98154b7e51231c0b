package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
)

// axe returns the code of axe-core, after a look at its checksum.
func axe(t *testing.T) string {
	t.Helper()
	sums, err := os.ReadFile("testdata/axe/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile("testdata/axe/axe.min.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(packed); !strings.Contains(string(sums), hex.EncodeToString(sum[:])+"  axe.min.js.gz\n") {
		t.Fatalf("axe.min.js.gz: got %x, want what SHA256SUMS says", sum)
	}
	r, err := gzip.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// finding is what axe-core has against a page.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// TestEverybodyCanUseIt: axe-core finds nothing serious, on any page, in both themes, on a large and on a small screen; and no page is
// wider than the screen.
func TestEverybodyCanUseIt(t *testing.T) {
	b := newBrowser(t)
	code := axe(t)
	c := newCluster(t, 1)
	c.send("Key", "quiet", 2)
	c.flood("Key", "noisy")
	c.send("User", "watched", 9)
	c.closeByHand("abuser")
	c.rules(6)
	pages := []struct{ route, ready string }{
		{"#/", row("key:noisy") + ` && document.querySelector("[data-panel=busiest] tbody tr")`},
		{"#/caller/key:noisy", `document.querySelector(".slot, .empty-window")`},
		{"#/rules", `document.querySelector("tr[data-rule=per-key]")`},
		{"#/actions", `document.querySelector("tr[data-record]")`},
	}
	for _, look := range []view{{}, {dark: true}, {width: 360, height: 740}, {width: 360, height: 740, dark: true}} {
		v := visit(t, b, c.page("admin", "/"), look)
		v.live()
		for _, page := range pages {
			v.goes(page.route)
			v.sees(page.ready)
			v.judge(code, page.route, look)
			v.is(`document.documentElement.scrollWidth <= innerWidth`, page.route+" no wider than the screen")
			v.is(`[...document.querySelectorAll(".wide")].every((e) => e.scrollWidth <= e.clientWidth)`, page.route+" with each table whole on the screen")
		}
		v.goes("#/caller/key:noisy")
		v.clicks("[data-action=limit]")
		v.sees(`document.querySelector("dialog[open]")`)
		v.judge(code, "the dialog", look)
		v.close() // and gives its stream to the next one
	}
	v := visit(t, b, c.analyzers[0].url+"/ui/", view{})
	v.reads("#token-why", "token")
	v.judge(code, "the form for a token", view{})
}

// judge fails the test for each serious finding.
func (v *visitor) judge(code, page string, look view) {
	v.t.Helper()
	v.check(v.rest())
	_, err := value[bool](v.tab, code+";true")
	v.check(err)
	text, err := value[string](v.tab, `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`)
	v.check(err)
	var findings []finding
	if err := json.Unmarshal([]byte(text), &findings); err != nil {
		v.t.Fatal(err)
	}
	for _, f := range findings {
		if f.Impact == "serious" || f.Impact == "critical" {
			v.t.Errorf("%s, %+v: %s: %s: %.600v", page, look, f.ID, f.Help, f.Nodes)
		} else {
			v.t.Logf("%s: %s (%s): %.200v", page, f.ID, f.Impact, f.Nodes)
		}
	}
}
