package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAPersonWatchesAndActs is the walk of the README: the noisy caller is closed, the page says why, a person opens it by hand, sees it
// close again when that is undone, and finds both among the actions. All of it by keys.
func TestAPersonWatchesAndActs(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	c.send("Key", "quiet", 2)
	c.flood("Key", "noisy")
	v := visit(t, b, c.page("operate", "/"), view{})
	v.live()
	v.sees(row("key:noisy") + "?.textContent.includes('per-key')")
	v.reads("[data-panel=partitions] .state", "running")
	v.reads("[data-panel=busiest] td", "key:noisy")
	v.sees(`document.querySelector("[data-chart=requests] .figure").textContent !== "–/s"`)
	v.is(`document.querySelectorAll(".banner").length === 0`, "no banner for a rule that is in shadow by its file")

	v.presses("j\r")
	v.sees(`location.hash === "#/caller/key:noisy"`)
	v.sees(`document.querySelector(".verdict").dataset.verdict === "closed"`)
	v.reads(".sentence", "it reached 5 requests in 30s")
	v.sees(`document.querySelectorAll("[data-rule=per-key] .slot").length > 0 && document.querySelector("[data-rule=per-key] .limit")`)
	v.reads(".history li", "Closed until")

	v.presses("o")
	v.acts("has no limit under all rules", map[string]string{"reason": "ticket 4711"})
	v.sees(`document.querySelector(".verdict").dataset.verdict === "opened_by_hand"`)
	v.reads(".toast", "key:noisy is open")
	v.reads(".history .by-hand", "Open by operate-person: ticket 4711")

	v.presses("u")
	v.acts("is held to its limits again", map[string]string{"reason": "it was no mistake"})
	v.sees(`document.querySelector(".verdict").dataset.verdict === "closed"`)

	v.goes("#/actions")
	v.reads(`tr[data-record] .reason`, "ticket 4711")
	v.reads(`tr[data-record]`, "undone by operate-person: it was no mistake")
}

// TestAPersonClosesLimitsAndResets one caller. The dialog says before what will happen.
func TestAPersonClosesLimitsAndResets(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	c.send("Key", "somebody", 3)
	v := visit(t, b, c.page("operate", "/caller/key:somebody"), view{width: 360, height: 740})
	v.sees(`document.querySelector(".verdict").dataset.verdict === "below"`)

	v.clicks("[data-action=limit]")
	v.sees(`document.querySelector("#act-rule").value === "per-key"`)
	v.acts("is 3 until", map[string]string{"limit": "3", "reason": "less"})
	v.reads(".facts dd", "operate-person: less")
	v.clicks("[data-action=reset]")
	v.acts("This cannot be undone", map[string]string{"reason": "a new start"})
	v.reads("[data-rule=per-key] .meter-text", "0 of 3")

	v.clicks("[data-action=close]")
	v.sees(`document.querySelector("dialog[open]")`)
	v.clicks("dialog[open] button.primary") // a reason is missing, so nothing is sent
	v.is(`document.querySelector("dialog[open]")`, "a dialog that waits for a reason")
	v.acts("Gates refuse every request of key:somebody", map[string]string{"reason": "abuse"})
	v.sees(`document.querySelector(".verdict").dataset.verdict === "closed_by_hand"`)
	v.clicks(".toast button")
	v.acts("is no longer closed by hand", map[string]string{"reason": "wrong caller"})
	v.sees(`document.querySelector(".verdict").dataset.verdict !== "closed_by_hand"`)
}

// TestWhoMayOnlyRead sees everything, and no button that acts; the keys that act do nothing.
func TestWhoMayOnlyRead(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	c.closeByHand("abuser")
	v := visit(t, b, c.page("read", "/caller/key:abuser"), view{})
	v.sees(`document.querySelector(".verdict").dataset.verdict === "closed_by_hand"`)
	v.reads(".history", "a test")
	v.reads("#who", "read-person · read")
	for _, page := range []struct{ route, ready string }{
		{"#/caller/key:abuser", `document.querySelector(".history .by-hand")`},
		{"#/actions", `document.querySelector("tr[data-record] .reason")?.textContent.includes("a test")`},
		{"#/rules", `document.querySelector("tr[data-rule=per-key]")`},
		{"#/", row("key:abuser")},
	} {
		v.goes(page.route)
		v.sees(page.ready) // what a button would stand beside
		v.presses("jcou")
		v.is(`!document.querySelector("dialog")`, "no dialog at "+page.route)
		v.is(`![...document.querySelectorAll("main button:not(.csv)")].some((e) => e.offsetParent !== null)`, "no button but for CSV at "+page.route)
	}
}

// TestAnAnswerThatKafkaDidNotConfirm: the record may be in the topic, so the page sends the same one again, under the same key.
func TestAnAnswerThatKafkaDidNotConfirm(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	v := visit(t, b, c.page("operate", "/caller/key:abuser"), view{})
	v.sees(`document.querySelector(".verdict").dataset.verdict`)
	_, err := value[bool](v.tab, `(window.keys = [], window.asked = window.fetch, window.fetch = async (url, options) => {
		const answer = await asked(url, options);
		if (options?.method !== "POST") return answer;
		keys.push(options.headers["Idempotency-Key"] + options.body);
		return keys.length > 1 ? answer : new Response(JSON.stringify({detail: "Kafka did not confirm the record"}), {status: 503});
	}, true)`)
	v.check(err)
	v.clicks("[data-action=close]")
	v.writes("#act-reason", "abuse")
	v.clicks("dialog[open] button.primary")
	v.reads("dialog[open] .error", "it is done once at most")
	v.clicks("dialog[open] button.primary")
	v.sees(`!document.querySelector("dialog")`)
	v.is(`keys.length === 2 && keys[0] === keys[1] && !keys[0].startsWith("undefined")`, "one key and one body, twice")
	v.sees(`document.querySelector(".verdict").dataset.verdict === "closed_by_hand"`)
	v.is(announced, "nothing announced that changes each second")
}

// TestAHostileName is text wherever it stands, and nothing of it runs.
func TestAHostileName(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	hostile := `<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>&amp;` + "\u202etxt.exe"
	c.send("Key", hostile, 8)
	v := visit(t, b, c.page("operate", "/"), view{})
	v.live()
	v.sees(row(`<img src=x onerror=`))
	v.is(row(`\u{202e}txt.exe`), "the character that turns text around as an escape")
	v.presses("j\r")
	v.reads("h1", `<script>window.harmed=1</script>&amp;`)
	v.sees(`document.querySelector(".verdict").dataset.verdict === "closed"`)
	v.presses("c")
	v.acts(`<img src=x onerror=`, map[string]string{"reason": `<img src=x onerror="window.harmed=1">`})
	v.reads(".history .by-hand", `<img src=x onerror=`)
	v.goes("#/actions")
	v.reads("tr[data-record] .id", `<img src=x onerror=`)
	v.reads("tr[data-record] .reason", `<img src=x onerror=`)
	c.act("close", fmt.Sprintf(`{"caller":{"kind":"key","id":"other"},"until":%q,"reason":"a test \u202eof mine"}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	v.reads("tr[data-record] .reason", `a test \u{202e}of mine`)
	v.is(`!window.harmed && document.querySelectorAll("img, main script").length === 0`, "no markup")
}

// TestAnOwnerIsKilledWhileWatched: the page says that partitions are silent, stays live, and says so no more when another owner counts.
func TestAnOwnerIsKilledWhileWatched(t *testing.T) {
	b := newBrowser(t)
	slow := []string{"--session-timeout", "15s"} // so long that a person sees it
	c := newCluster(t, 1, slow...)
	second := c.analyze(slow...)
	eventually(t, "both own partitions", func() bool {
		return strings.Count(c.get(c.analyzers[0], "/v1/status"), `"here":true`) == 2
	})
	v := visit(t, b, c.page("read", "/"), view{})
	v.live()
	owned := func(state string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("[data-panel=partitions] .state")].filter((e) => e.textContent === %q).length === 4`, state)
	}
	v.sees(owned("running"))
	second.kill()
	v.sees(`document.querySelector("[data-banner=stale]")?.textContent.includes("nothing was heard of partitions") &&
		document.querySelector("[data-panel=partitions] .state[data-level=bad]")?.textContent === "stale"`)
	v.sees(owned("running") + ` && !document.querySelector("[data-banner=stale]")`)
	v.is(`document.querySelector("#connection").dataset.state === "live"`, "the stream live all the time")
}

// TestRulesDiffer: the page that is open shows a new version of the rules, and what differs between the newest two.
func TestRulesDiffer(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	v := visit(t, b, c.page("admin", "/rules"), view{})
	v.reads("[data-rule=per-key]", "30s sliding")
	c.rules(7)
	if err := c.analyzers[0].command.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	v.reads(".difference[data-rule=per-key] del", "5")
	v.reads(".difference[data-rule=per-key] ins", "7")
	v.reads(".difference[data-rule=per-key]", "counts stay")
	v.clicks("tr[data-rule=per-user] button")
	v.acts("The decisions of rule per-user block nobody", map[string]string{"reason": "it is wrong"})
	v.reads(".toast", "Rule per-user is in shadow mode")
	v.reads("[data-rule=per-user] .state", "shadow")
	v.reads("[data-rule=per-user]", "by admin-person; the file says enforce")
}

// TestABrakeIsOnEachPage, with who pulled it and why, until it is released there.
func TestABrakeIsOnEachPage(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	v := visit(t, b, c.page("admin", "/rules"), view{})
	v.clicks(`[data-panel] [data-action=mode], [data-action=mode]`)
	v.acts("block nobody", map[string]string{"reason": "ticket 4711"})
	for _, page := range []string{"#/rules", "#/actions", "#/caller/key:somebody", "#/"} {
		v.goes(page)
		v.reads(".banner.bad", "admin-person put all rules into shadow mode")
		v.reads(".banner.bad", "ticket 4711")
		v.reads(".banner.bad", "The file would enforce per-key, per-user.")
	}
	v.clicks(".banner.bad button")
	v.acts("", map[string]string{"reason": "mended"})
	v.sees(`document.querySelectorAll(".banner").length === 0`)
}

// TestKafkaAwayIsOnThePage, in place of a page that looks healthy, and gone when it is back.
func TestKafkaAwayIsOnThePage(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	v := visit(t, b, c.page("read", "/"), view{})
	v.live()
	addr := c.broker.Addr()
	if err := c.broker.Close(); err != nil {
		t.Fatal(err)
	}
	v.reads("[data-banner=kafka]", "no broker of "+addr)
	v.sees(`document.querySelector("#connection").dataset.state === "away"`)
	v.reads("[data-panel=partitions] .state", "Kafka away")
}
