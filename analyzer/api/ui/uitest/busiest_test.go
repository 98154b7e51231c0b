package main

import (
	"fmt"
	"testing"
	"time"
)

// TestTheBusiestHaveErrors: the page says how far off its estimates may be, and nothing of rates that were counted. A caller whom a person
// has opened is not "not counted".
func TestTheBusiestHaveErrors(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	c.act("open", fmt.Sprintf(`{"caller":{"kind":"user","id":"opened"},"until":%q,"reason":"a test"}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	c.flood("User", "opened")
	v := visit(t, b, c.page("read", "/"), view{})
	line := `[...document.querySelectorAll("[data-panel=busiest] tbody tr")].find((r) => r.textContent.includes("user:opened"))`
	v.sees(`/^[\d.,]+$/.test(` + line + `?.children[1].textContent)`)
	v.sees(line + `?.querySelector(".meter-text").textContent === "No limit, by hand"`)
	v.reads("[data-panel=busiest] .about", "counts half as much 20 s later")
	got, err := value[string](v.tab, `import("/ui/js/busiest.js").then(({Busiest}) => {
		const panel = new Busiest();
		panel.show([{ caller: { kind: "key", id: "a" }, admitted: 5, admitted_error: 4.6, blocked: 0, blocked_error: 2.2 }], [null], 2e10);
		return [...panel.table.querySelectorAll("tbody td")].slice(1).map((cell) => cell.textContent).join("|");
	})`)
	v.check(err)
	if want := "5 ± 4.6|0|not known"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
