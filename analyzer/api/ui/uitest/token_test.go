package main

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestATokenStaysOutOfTheAddress: the page takes it from the link, keeps it in the tab, and asks for one that works when it does not.
func TestATokenStaysOutOfTheAddress(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	v := visit(t, b, c.page("read", "/rules"), view{})
	v.reads("#who", "read-person · read")
	v.is(`location.hash === "#/rules" && !document.documentElement.outerHTML.includes(sessionStorage.getItem("floodgate.token"))`, "no token in the address or the page")
	v.is(`history.length <= 2 && localStorage.length === 0 && document.cookie === ""`, "the token kept nowhere but in the tab")
	if _, err := value[bool](v.tab, `(location.reload(), true)`); err != nil {
		t.Fatal(err)
	}
	v.reads("#who", "read-person · read")

	v.clicks("#who")
	v.clicks(`dialog button[value="forget"]`)
	v.reads("#token-why", "forgotten")
	v.writes("#token", "wrong")
	v.presses("\r")
	v.reads("#token-why", "not known")
	v.writes("#token", c.tokens["operate"])
	v.presses("\r")
	v.reads("#who", "operate-person · operate")
	v.sees(`location.hash === "#/rules" && document.querySelector("tr[data-rule=per-key]")`)
	v.is(`!document.documentElement.outerHTML.includes(sessionStorage.getItem("floodgate.token"))`, "no token in the page")
}

// TestWithoutATokenAFormAsks for one.
func TestWithoutATokenAFormAsks(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	v := visit(t, b, c.analyzers[0].url+"/ui", view{dark: true})
	v.reads("#token-why", "asks for a token")
	v.is(`document.activeElement.id === "token" && location.pathname === "/ui/"`, "the field for it in focus")

	// A person opens a link in this tab, and then another one, to a caller whose id is not UTF-8.
	for role, to := range map[string]string{"read": "/rules", "operate": "/caller/key:%FF"} {
		if _, err := value[string](v.tab, fmt.Sprintf(`location.hash = "#token=%s&to=%s"`, c.tokens[role], to)); err != nil {
			t.Fatal(err)
		}
		v.reads("#who", role+"-person · "+role)
		v.is(fmt.Sprintf(`location.hash === "#%s"`, to), "the page that the link names, and no token")
	}
}

// TestThePageAsksBeforeItForgetsAToken: the button with the person's name is easily hit.
func TestThePageAsksBeforeItForgetsAToken(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	v := visit(t, b, c.page("read", "/"), view{})
	v.reads("#who", "read-person · read")
	const kept = `sessionStorage.getItem("floodgate.token") !== null && !document.querySelector("dialog")`
	for name, leave := range map[string]func(){
		"Cancel": func() { v.clicks(`dialog button[value="keep"]`) },
		"Escape": func() { v.presses(kb.Escape) },
	} {
		v.clicks("#who")
		v.reads("dialog h2", "Forget the token of this tab?")
		leave()
		v.sees(kept)
		v.is(kept, "the token after "+name)
	}
	v.clicks("#who")
	v.clicks(`dialog button[value="forget"]`)
	v.reads("#token-why", "The token of this tab is forgotten.")
	v.is(`sessionStorage.getItem("floodgate.token") === null`, "no token")
}

// TestTheDemosLinkWorksOnce: the second person who uses it reads that, and can give a token.
func TestTheDemosLinkWorksOnce(t *testing.T) {
	b := newBrowser(t)
	link, stop, err := startDemo(t.Context(), program, t.TempDir(), "--quiet", "5")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	v := visit(t, b, link, view{})
	v.live()
	v.reads("#who", "admin")
	v.is(`!location.href.includes("token")`, "no token in the address")
	second := visit(t, b, link, view{})
	second.reads("#token-why", "the link was used before")
}
