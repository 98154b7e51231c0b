package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// TestThePageFindsAnyCaller whose id begins with what was typed: also one that nobody has closed, of a kind or of any, and whose id has a
// colon. The list is there for screen readers, too.
func TestThePageFindsAnyCaller(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	for i := range 3 {
		c.send("Key", fmt.Sprint("needle-", i), i+1)
	}
	c.send("User", "2001:db8::7", 1)
	v := visit(t, b, c.page("read", "/actions"), view{})
	v.live()
	found := func(n int) string {
		return fmt.Sprintf(`document.querySelectorAll("#found [role=option]").length === %d`, n)
	}
	v.writes("#find", "key:need")
	v.sees(found(3) + ` && document.querySelector("#found").textContent.includes("key:needle-2per-key: 3 of 5, 60 %")`)
	v.is(`document.querySelector("#find").getAttribute("aria-expanded") === "true"`, "a list that is announced")
	v.presses(kb.ArrowDown + kb.ArrowDown)
	v.is(`document.querySelector("#" + document.querySelector("#find").getAttribute("aria-activedescendant")).textContent.startsWith("key:needle-1")`, "the second one marked")
	v.presses("\r")
	v.reads("main h1", "key:needle-1")
	v.is(found(0), "no list any more")

	v.writes("#find", "2001:db8")
	v.sees(found(1)) // one line for each caller, though two rules count it
	v.clicks("#found [role=option]")
	v.reads("main h1", "user:2001:db8::7")
	v.writes("#find", "nobody-")
	v.reads(".found", "No counted caller has an id that begins like this.")
	v.presses(kb.Escape)
	v.sees(`document.querySelector(".found").hidden`)
}

// TestClosedByWhomAndWhy: the list of closed callers can be of one rule, and says of those that a person has closed, who did and why.
func TestClosedByWhomAndWhy(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	c.flood("Key", "noisy")
	c.closeByHand("abuser")
	v := visit(t, b, c.page("operate", "/"), view{})
	v.live()
	v.sees(row("by handoperate-person: a test") + "?.textContent.includes('key:abuser')")
	v.sees(row("key:noisy"))
	choose := func(rule string) {
		v.sees(fmt.Sprintf(`[...document.querySelectorAll(".tools option")].some((o) => o.value === %q)`, rule))
		_, err := value[bool](v.tab, fmt.Sprintf(`((s) => (s.value = %q, s.dispatchEvent(new Event("change"))))(document.querySelector("[data-panel=closed] select"))`, rule))
		v.check(err)
	}
	choose("per-key")
	v.sees(row("key:noisy") + " && !" + row("key:abuser"))
	v.sees(`document.querySelector("[data-count=closed]").textContent === "1 of 2"`)
	choose("_control")
	v.sees(row("key:abuser") + " && !" + row("key:noisy"))
	choose("")
	v.sees(row("key:abuser") + " && " + row("key:noisy"))
}

// TestWhatPeopleDidIsNotBuried under the closes of a rule that closes every two seconds.
func TestWhatPeopleDidIsNotBuried(t *testing.T) {
	b := newBrowser(t)
	v := visit(t, b, new(fake).serve(t)+"/ui/", view{})
	got, err := value[string](v.tab, `import("/ui/js/history.js").then(({History}) => {
		const at = Date.parse("2026-01-02T03:00:00Z");
		const changes = Array.from({ length: 300 }, (_, i) => ({ kind: "closed", rule: "fast", at: at - 2000 * i, until: at, mode: "enforce" }));
		const history = new History("key:a", { changes: () => changes }, () => {}, () => false);
		const act = (second, author) => ({ id: author, time: new Date(at - 1000 * second).toISOString(), action: "open", author, reason: "ticket", state: "ended" });
		history.actions = [act(201, "ana"), act(599.5, "bob")];
		history.draw();
		return JSON.stringify([history.list.children.length, history.table().length, ...[...history.list.children].map((li) => li.querySelector(".what").textContent).filter((text) => !text.startsWith("Closed"))]);
	})`)
	v.check(err)
	if want := `[16,303,"95 more changes by rules since then","Open by ana: ticket","193 more changes by rules since then","Open by bob: ticket"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestTablesAreSavedAsCSV, by a reader of CSV, and no text in them is a formula for a spreadsheet.
func TestTablesAreSavedAsCSV(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	hostile := []string{`=HYPERLINK("http://example.org","a")`, "+1", "-1", "@SUM(1)", " =1", `quoted "so", and so`, "＝1"}
	for _, id := range hostile {
		c.send("Key", id, 8)
		c.closeByHand(id)
	}
	v := visit(t, b, c.page("operate", "/"), view{})
	v.live()
	_, err := value[bool](v.tab, `(window.saved = {}, URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved.text = text; }); return "blob:none"; },
		HTMLAnchorElement.prototype.click = function () { window.saved.name = this.download; }, true)`)
	v.check(err)
	save := func(name string) [][]string {
		t.Helper()
		v.sees(fmt.Sprintf(`document.querySelector("[data-csv=%s]")`, name))
		_, err := value[bool](v.tab, fmt.Sprintf(`(window.saved = {}, document.querySelector("[data-csv=%s]").dispatchEvent(new Event("click")))`, name))
		v.check(err)
		v.sees(`window.saved.text && window.saved.name`)
		text, err := value[string](v.tab, `window.saved.text`)
		v.check(err)
		lines, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff"))).ReadAll()
		if err != nil || len(lines) < 2 {
			t.Fatalf("%s: got %q and %v, want lines", name, text, err)
		}
		return lines
	}
	v.sees(fmt.Sprintf(`Number(document.querySelector("[data-count=closed]").textContent) >= %d && document.querySelectorAll("[data-panel=partitions] tbody tr").length === 4`, 2*len(hostile)))
	v.sees(row("by handoperate-person: a test"))
	closed := save("closed")
	if len(closed) != 1+2*len(hostile) || strings.Join(closed[0], " ") != "Caller Rule Mode Closed at Until Reason" || !strings.HasSuffix(closed[1][4], "Z") {
		t.Errorf("got %q, want two closures of each caller", closed)
	}
	if lines := save("partitions"); len(lines) != 5 || lines[1][0] != "0" || lines[4][0] != "3" {
		t.Errorf("got %q, want four partitions", lines)
	}
	v.sees(`document.querySelector("[data-panel=busiest] tbody tr")`)
	save("busiest")
	v.goes("#/rules")
	v.sees(`document.querySelector("tr[data-rule=per-key]")`)
	if lines := save("rules"); len(lines) != 4 || lines[1][0] != "per-key" {
		t.Errorf("got %q, want three rules", lines)
	}
	v.goes("#/caller/key:%2B1")
	v.reads(".history .by-hand", "a test")
	if lines := save("history"); !strings.Contains(fmt.Sprint(lines), "Close operate-person a test") {
		t.Errorf("got %q, want what a person did", lines)
	}
	v.goes("#/actions")
	v.sees(fmt.Sprintf(`document.querySelectorAll("tr[data-record]").length === %d`, len(hostile)))
	if lines := save("actions"); len(lines) != 1+len(hostile) || !strings.HasSuffix(lines[1][0], "Z") || !strings.HasSuffix(lines[1][5], "Z") || len(lines[1]) != 7 {
		t.Errorf("got %q, want a record of each", lines)
	}

	list, err := json.Marshal(append([]string{"key:plain", "\tx", "\r\ny", "5"}, hostile...))
	v.check(err)
	text, err := value[string](v.tab, fmt.Sprintf(`import("/ui/js/csv.js").then(({csvOf}) => csvOf([%s, ["a", -5]]))`, list))
	v.check(err)
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = -1
	lines, err := reader.ReadAll()
	v.check(err)
	want := []string{"key:plain", "'\tx", "'\r\ny", "5"}
	for _, id := range hostile {
		if !strings.HasPrefix(id, "quoted") {
			id = "'" + id
		}
		want = append(want, id)
	}
	for i, cell := range lines[0] {
		if cell != strings.ReplaceAll(want[i], "\r\n", "\n") { // as the reader has it
			t.Errorf("got %q, want %q", cell, want[i])
		}
	}
	if !strings.HasSuffix(text, "\"a\",-5\r\n") {
		t.Errorf("got %q, want a number as it is", text)
	}
}

// TestAnEndOfOnesOwn: a person writes for how long, or until when. What is no end is not sent.
func TestAnEndOfOnesOwn(t *testing.T) {
	b := newBrowser(t)
	c := newCluster(t, 1)
	v := visit(t, b, c.page("operate", "/caller/key:somebody"), view{})
	v.clicks("[data-action=close]")
	v.sees(`document.querySelector("dialog[open]")`)
	v.is(`document.querySelector("#act-end").offsetParent === null`, "no field for an end before it is wanted")
	_, err := value[bool](v.tab, `((s) => (s.value = "other", s.dispatchEvent(new Event("change", {bubbles: true})), s.dispatchEvent(new Event("input", {bubbles: true}))))(document.querySelector("#act-duration"))`)
	v.check(err)
	v.writes("#act-reason", "abuse")
	v.writes("#act-end", "soon")
	v.reads("#consequence", "Write an end to see what will happen")
	v.clicks("dialog[open] button.primary")
	v.reads("dialog[open] .error", "End: got soon, want a time that is to come")
	v.acts("(1 min)", map[string]string{"end": "1 m"})
	v.sees(`document.querySelector(".verdict").dataset.verdict === "closed_by_hand"`)
	v.sees(`/^for \d+ s more$/.test(document.querySelector(".left").textContent)`)

	now := time.Date(2026, 3, 2, 17, 30, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"1 m": now.Add(time.Minute), "for 90s": now.Add(90 * time.Second), "2h30m": now.Add(150 * time.Minute), "1.5 hours": now.Add(90 * time.Minute), "2 weeks": now.Add(14 * 24 * time.Hour),
		"until 18:00": now.Add(30 * time.Minute), "17:30": now.AddDate(0, 0, 1), "9:05:07": time.Date(2026, 3, 3, 9, 5, 7, 0, time.Local),
		"2026-12-24 18:00": time.Date(2026, 12, 24, 18, 0, 0, 0, time.Local), "2026-03-02T18:00:00Z": time.Date(2026, 3, 2, 18, 0, 0, 0, time.UTC), "2026-03-03 18:00 +02:00": time.Date(2026, 3, 3, 16, 0, 0, 0, time.UTC),
		"": {}, "soon": {}, "5": {}, "24:00": {}, "18:60": {}, "0 m": {}, "3 parsecs": {}, "2025-01-01 10:00": {}, "until": {}, "-5 m": {},
	} {
		got, err := value[float64](v.tab, fmt.Sprintf(`import("/ui/js/until.js").then(({endOf}) => endOf(%q, %d) || 0)`, text, now.UnixMilli()))
		v.check(err)
		if ms := float64(want.UnixMilli()); !want.IsZero() && got != ms || want.IsZero() && got != 0 {
			t.Errorf("%q: got %v, want %v", text, time.UnixMilli(int64(got)), want)
		}
	}
}
