package main

import (
	"fmt"
	"testing"
	"time"
)

// TestTheBusiestHaveErrors: the page says how far off its estimates may be, and a caller whom a person has opened is not "not counted".
func TestTheBusiestHaveErrors(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	c.act("open", fmt.Sprintf(`{"caller":{"kind":"user","id":"opened"},"until":%q,"reason":"a test"}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	c.flood("User", "opened")
	v := visit(t, b, c.page("read", "/"), view{})
	line := `[...document.querySelectorAll("[data-panel=busiest] tbody tr")].find((r) => r.textContent.includes("user:opened"))`
	v.sees(`/^[\d.,]+ ± [\d.,]+$/.test(` + line + `?.children[1].textContent)`)
	v.sees(line + `?.querySelector(".meter-text").textContent === "No limit, by hand"`)
	v.reads("[data-panel=busiest] .about", "counts half 20 s later")
}
