package floods

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

const comparedPage = "../COMPARED.md"

// comparison is a flood, and what is compared under it.
type comparison struct {
	name     string
	flood    Flood
	requests []Request
	rows     []string
}

func (c *comparison) add(limit string, r refuses) {
	row := "| " + c.name + " | " + limit + " |"
	if r != nil {
		got := c.flood.Judge(c.requests, r)
		late := fmt.Sprintf("%.0f s", got.Late.Seconds())
		if got.Late < 0 {
			late = "never"
		}
		row += fmt.Sprintf(" %.2f | %s | %s | %s | %s |", got.Load, late, got.Before, got.People, got.GitFeeds)
	}
	c.rows = append(c.rows, row)
}

// programs adds what other programs do that read a part of the log. Where they are not asked for, their rows are only begun.
func (c *comparison) programs(t *testing.T, reads func(*Request) bool) {
	t.Helper()
	var ofFail2ban, ofCrowdsec refuses
	if testenv.IsLong() && os.Getenv("FLOODGATE_PROGRAMS") != "" {
		log := slices.DeleteFunc(slices.Clone(c.requests), func(x Request) bool { return !reads(&x) })
		ofFail2ban, ofCrowdsec = fail2ban(t, log).refuses, crowdsec(t, log).refuses
	}
	c.add("fail2ban", ofFail2ban)
	c.add("CrowdSec", ofCrowdsec)
}

func comparisons(t *testing.T) (rows []string) {
	t.Helper()
	crawl, office := Crawl(1), Crawl(1)
	office.Office = 30
	requests := crawl.Requests()
	ofAddress, ofNetwork := best(&crawl, requests, 32), best(&crawl, requests, 24)
	for _, c := range []*comparison{
		{name: "200 networks", flood: crawl},
		{name: "200 networks, and an office", flood: office},
		{name: "400 networks", flood: Spread(1)},
		{name: "50 networks", flood: Subnets(1)},
		{name: "10,000 strangers", flood: Strangers(1)},
		{name: "20 addresses", flood: Scrapers(1)},
	} {
		c.requests = c.flood.Requests()
		c.add("none", nothing)
		c.add("random shedding", shedding(&c.flood))
		c.add(ofAddress.String(), ofAddress.refuses())
		c.add(ofNetwork.String(), ofNetwork.refuses())
		c.add("[the forge's recipe](forge/README.md)", recipe(t, "forge", c.requests))
		switch c.name {
		case "200 networks":
			// Both count each address alone, and CrowdSec takes 2 ms for a line: they read what people and a quarter of the networks send.
			c.programs(t, func(x *Request) bool { return x.Kind != Crawler || x.Addr.As4()[2]%4 == 0 })
		case "200 networks, and an office":
			c.programs(t, func(x *Request) bool { return x.Kind != Crawler })
		case "20 addresses":
			c.programs(t, func(x *Request) bool { return x.At.Sub(c.flood.Start) < c.flood.Quiet+30*time.Second }) // all 20 are banned by then
		}
		rows = append(rows, c.rows...)
	}
	return rows
}

// TestComparedPageIsTrue makes the table of COMPARED.md: the same floods, with each way to limit them. The rows of other programs are made
// anew where both FLOODGATE_LONG and FLOODGATE_PROGRAMS are set.
func TestComparedPageIsTrue(t *testing.T) {
	page, err := os.ReadFile(comparedPage)
	if err != nil {
		t.Fatal(err)
	}
	const head = "|---|---|--:|--:|--:|--:|--:|\n"
	before, after, _ := strings.Cut(string(page), head)
	got, after, _ := strings.Cut(after, "\n\n")
	lines, rows := strings.Split(got, "\n"), comparisons(t)
	for i, row := range rows {
		for _, line := range lines {
			if strings.Count(row, "|") == 3 && strings.HasPrefix(line, row) {
				rows[i] = line
			}
		}
	}
	want := strings.Join(rows, "\n")
	if testenv.Update() {
		if err := os.WriteFile(comparedPage, []byte(before+head+want+"\n\n"+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("COMPARED.md: got\n%s\nwant\n%s\n(%s writes it)", got, want, testenv.UpdateCommand(t))
	}
}

// TestTheForgesFiguresAreThoseOfThePage: what the recipe says that it does is what COMPARED.md says.
func TestTheForgesFiguresAreThoseOfThePage(t *testing.T) {
	_, after, _ := strings.Cut(readFile(t, "../forge/README.md"), "|---|--:|--:|--:|--:|--:|\n")
	rows, _, _ := strings.Cut(after, "\n\n")
	n := 0
	for row := range strings.Lines(rows + "\n") {
		flood, figures, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		if want := "| " + flood + " | [the forge's recipe](forge/README.md) | " + figures; !strings.Contains(readFile(t, comparedPage), want) {
			t.Errorf("got %q, and no %q in COMPARED.md", row, want)
		}
		n++
	}
	if n < 4 {
		t.Errorf("got %d rows in the README of the forge, want figures of each flood of networks", n)
	}
}

// TestReplayAgreesWithAnExactLimit: what floodgate replay refuses under a rule is what the same limit refuses that is counted by hand.
func TestReplayAgreesWithAnExactLimit(t *testing.T) {
	f := Scrapers(1)
	f.Quiet, f.Lasts = 10*time.Second, 20*time.Second
	requests := f.Requests()
	for i := range requests {
		requests[i].At = requests[i].At.Truncate(time.Second) // as the log has it
		requests[i].Expensive = true                          // the rule counts all
	}
	exact := f.Judge(requests, static{100, 32, 10 * time.Second}.refuses())
	const rules = "version: 1\nrules:\n  - {name: per-ip, callers: ip, limit: 100, window: 10s, algorithm: log}\n"
	const mapping = "version: 1\nformat: combined\ncallers: {ip: \"{client}\"}\nresponses: false\n"
	if got := f.Judge(requests, replayed(t, requests, rules, mapping)); got != exact || got.Load > 3 {
		t.Errorf("got %+v, want %+v", got, exact)
	}
}
