package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// offline takes the network from a tab, or gives it back.
func (v *visitor) offline(is bool) {
	v.t.Helper()
	v.check(v.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		rule := &network.Conditions{Offline: is, DownloadThroughput: -1, UploadThroughput: -1}
		if _, err := cdp.Call(ctx, t, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{rule},
		}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, network.OverrideNetworkState, network.OverrideNetworkStateParams{
			Offline: is, DownloadThroughput: -1, UploadThroughput: -1,
		})
		return err
	})))
}

// TestAPageThatWasOffline says so while it is, and has all that it missed when it is not any more.
func TestAPageThatWasOffline(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	c := newCluster(t, 1)
	c.closeByHand("before")
	v := visit(t, b, c.page("operate", "/"), view{})
	v.live()
	v.sees(row("key:before"))
	v.offline(true)
	v.sees(`document.querySelector("#connection").dataset.state === "lost"`)
	v.reads("[data-banner=unanswered]", "What you see is old")
	v.sees(`document.querySelector("#connection").textContent.includes("again")`)
	v.is(announced, "nothing announced that changes each second")
	v.is(row("key:before"), "what was known still on the screen")
	c.closeByHand("meanwhile")
	if os.Getenv("FLOODGATE_LONG") != "" {
		time.Sleep(time.Minute) // the condition is the minute
	}
	v.offline(false)
	v.live()
	v.sees(row("key:meanwhile") + "&&" + row("key:before"))
	v.sees(`!document.querySelector("[data-banner=unanswered]")`)
}

// TestPagesOpenedOffline say that there is no answer, claim nothing else, and fill themselves when the network is back.
func TestPagesOpenedOffline(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	c := newCluster(t, 1)
	c.closeByHand("abuser")
	v := visit(t, b, c.page("admin", "/"), view{})
	v.live()
	for _, page := range []struct{ route, says, ready string }{
		{"#/", "[data-panel=busiest] .empty", row("key:abuser")},
		{"#/rules", "[aria-label=Versions] .error", `document.querySelector("tr[data-rule=per-key]")`},
		{"#/actions", ".actions-page .empty", `document.querySelector("tr[data-record]")`},
		{"#/caller/key:abuser", "[data-panel=history] .empty", `document.querySelector(".history .by-hand")`},
	} {
		v.goes("#/actions/undone")
		v.offline(true)
		v.sees(`document.querySelector("main.old")`)
		v.goes(page.route)
		if page.route == "#/caller/key:abuser" { // its closure is known, and stands in the history
			v.reads(".sentence", "No answer about this caller")
		} else {
			v.reads(page.says, "No answer")
			v.is(`![...document.querySelectorAll("main button:not(.csv)")].some((e) => e.offsetParent !== null)`, "no button but for CSV that needs what is not known at "+page.route)
		}
		v.offline(false)
		v.sees(page.ready)
		v.sees(`!document.querySelector("main.old")`)
	}
}

// TestAnAnalyzerThatComesBack on the same address is followed again, and what was open meanwhile is not shown as closed.
func TestAnAnalyzerThatComesBack(t *testing.T) {
	b := newBrowser(t)
	address := freeAddress(t)
	c := newCluster(t, 1, "--api-listen", address)
	c.closeByHand("kept")
	v := visit(t, b, c.page("operate", "/"), view{})
	v.live()
	v.sees(row("key:kept"))
	c.analyzers[0].kill()
	v.sees(`document.querySelector("#connection").dataset.state === "lost"`)
	c.analyze("--api-listen", address)
	v.live()
	c.closeByHand("new")
	v.sees(row("key:kept") + "&&" + row("key:new"))
}

// TestTenTabs of one browser all get the news: it opens six connections to a server, so streams take turns.
func TestTenTabs(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	var tabs []*visitor
	for range 10 {
		v := visit(t, b, c.page("operate", "/"), view{})
		v.sees(`["live", "turns"].includes(document.querySelector("#connection").dataset.state)`)
		tabs = append(tabs, v)
	}
	c.closeByHand("news")
	live := 0
	for _, v := range tabs {
		v.sees(row("key:news"))
		state, err := value[string](v.tab, `document.querySelector("#connection").dataset.state`)
		if err != nil {
			t.Fatal(err)
		}
		if state == "live" {
			live++
		}
	}
	if live < 1 || live > 3 {
		t.Errorf("got %d tabs with a stream, want 1 to 3 of the six connections used", live)
	}
	for i, v := range tabs[:9] { // each that ends gives its place to another
		if _, err := value[bool](v.tab, `(location.href = "about:blank", true)`); err != nil {
			t.Fatalf("tab %d: %v", i, err)
		}
	}
	tabs[9].live()
	c.closeByHand("later")
	tabs[9].sees(row("key:later"))
}

// TestFind finds closed callers by a part of their name, and opens a caller by its whole name.
func TestFind(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	for i := range 30 {
		c.closeByHand(fmt.Sprintf("abuser-%02d", i))
	}
	v := visit(t, b, c.page("read", "/"), view{still: true})
	v.live()
	v.reads("[data-count=closed]", "30")
	_, err := value[bool](v.tab, `(document.querySelector("[role=grid]").focus(), true)`)
	v.check(err)
	v.presses(kb.ArrowDown + kb.ArrowDown + kb.ArrowDown + kb.ArrowUp)
	v.sees(`document.querySelector("[role=row][aria-selected=true]")?.getAttribute("aria-rowindex") === "3"`) // 1 is the head
	v.presses("/")
	v.sees(`document.activeElement.id === "find"`)
	v.writes("#find", "ser-17")
	v.reads("[data-count=closed]", "1 of 30")
	v.presses("\r")
	v.reads(".toast", "KIND:ID")
	v.presses("/")
	v.writes("#find", "ip:2001:db8::1")
	v.presses("\r")
	v.sees(`location.hash === "#/caller/ip:2001:db8::1"`)
	v.sees(`document.querySelector("h1").textContent === "ip:2001:db8::"`) // the network, under which it is counted
	v.presses("?")
	v.reads("dialog[open] dd", "undo")
	v.is(`[...document.querySelectorAll("*")].every((e) => getComputedStyle(e).transitionDuration.split(",").every((d) => parseFloat(d) === 0))`,
		"nothing that moves for those who asked for it")
}

// freeAddress returns an address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
