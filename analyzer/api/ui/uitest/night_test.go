package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// night is a floodgate of real processes, watched by Prometheus with the shipped alerts, by a page in Chromium and by the command line.
type night struct {
	*cluster

	v          *visitor
	broker     *process
	metrics    []string // the address of each analyzer's /metrics and /readyz
	prometheus string   // its address
}

// truth is what the script has brought about, and so what everybody must say.
type truth struct {
	kafkaAway bool
	dead      bool     // all analyzers
	brake     bool     // over all rules
	alerts    []string // that fire
}

// TestANight plays a bad night in minutes: Kafka dies and returns, all analyzers die, a rule is wrong, the brake is pulled and released,
// a caller is opened and closed. After each step page, status, alerts and /readyz say the same, and it is what the script has done.
func TestANight(t *testing.T) {
	if os.Getenv("FLOODGATE_LONG") == "" {
		t.Skip("set FLOODGATE_LONG=1: it takes five minutes")
	}
	t.Parallel() // it waits for Prometheus
	b := newBrowser(t)
	n := newNight(t)
	n.v = visit(t, b, n.page("admin", "/"), view{})
	n.v.live()
	n.flood("Key", "noisy")
	n.send("Key", "quiet", 2)
	n.agree("a quiet evening", truth{})
	n.gates("noisy", http.StatusTooManyRequests)
	n.v.sees(row("key:noisy"))

	n.broker.kill()
	n.agree("Kafka is dead", truth{kafkaAway: true, alerts: []string{"FloodgateKafkaAway"}})
	n.v.reads("[data-panel=partitions] .state", "Kafka away")
	n.startKafka()
	n.agree("Kafka is back", truth{})
	n.gates("quiet", http.StatusOK)

	for _, p := range n.analyzers {
		p.kill()
	}
	n.agree("all analyzers are dead", truth{dead: true, alerts: []string{"FloodgateAnalyzerDown", "FloodgateNoAnalyzer"}})
	n.startAnalyzers()
	n.agree("the analyzers are back", truth{})
	n.gates("noisy", http.StatusTooManyRequests)

	n.rules(1)
	n.gates("quiet", http.StatusTooManyRequests)
	n.v.sees(row("key:quiet"))
	n.agree("a rule is wrong, which nobody but people can know", truth{})
	n.v.goes("#/rules")
	n.v.reads(".difference[data-rule=per-key] ins", "1")
	n.rules(5)
	n.gates("quiet", http.StatusOK)
	n.v.goes("#/")
	n.v.sees("!(" + row("key:quiet") + ")")

	n.v.goes("#/rules")
	n.v.clicks("[data-action=mode]")
	n.v.acts("block nobody", map[string]string{"reason": "ticket 4711"})
	n.gates("noisy", http.StatusOK)
	n.agree("the brake is pulled", truth{brake: true, alerts: []string{"FloodgateBrakePulled"}})
	n.v.clicks("[data-banner^=brake] button")
	n.v.acts("", map[string]string{"reason": "mended"})
	n.gates("noisy", http.StatusTooManyRequests)
	n.agree("the brake is released", truth{})

	n.byHand("open", "noisy")
	n.gates("noisy", http.StatusOK)
	n.v.goes("#/caller/key:noisy")
	n.v.sees(`document.querySelector(".verdict").dataset.verdict === "opened_by_hand"`)
	n.byHand("close", "quiet")
	n.gates("quiet", http.StatusTooManyRequests)
	n.v.goes("#/caller/key:quiet")
	n.v.sees(`document.querySelector(".verdict").dataset.verdict === "closed_by_hand"`)
	n.agree("one is open and one is closed by hand", truth{})
}

func newNight(t *testing.T) *night {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("no prometheus: install Debian's package")
	}
	n := &night{cluster: newClusterOf(t, freeAddress(t)), metrics: []string{freeAddress(t), freeAddress(t)}, prometheus: freeAddress(t)}
	n.startKafka()
	n.startAnalyzers()
	n.serve()
	n.watch(binary)
	return n
}

func (n *night) startKafka() {
	n.t.Helper()
	n.broker = n.run("broker", "--listen", n.kafka, "--data", filepath.Join(n.dir, "kafka"))
	eventually(n.t, "Kafka listens", func() bool { return strings.Contains(n.broker.log.String(), "listening") })
}

// startAnalyzers starts two, at the addresses that they had before.
func (n *night) startAnalyzers() {
	n.t.Helper()
	before := n.analyzers
	n.analyzers = nil
	for i, metrics := range n.metrics {
		at := "127.0.0.1:0"
		if before != nil {
			at = strings.TrimPrefix(before[i].url, "http://")
		}
		n.analyzers = append(n.analyzers, n.analyze("--listen", metrics, "--api-listen", at, "--session-timeout", "6s"))
	}
}

// watch starts Prometheus with the shipped alerts. A brake that is pulled for 15 seconds is one that was forgotten.
func (n *night) watch(binary string) {
	n.t.Helper()
	alerts, err := os.ReadFile("../../../../deploy/prometheus/alerts.yaml")
	if err != nil {
		n.t.Fatal(err)
	}
	text := strings.Replace(string(alerts), "expr: vector(30)", "expr: vector(0.25)", 1)
	if text == string(alerts) {
		n.t.Fatal("alerts.yaml has no vector(30): where are the minutes of the brake set?")
	}
	n.write("alerts.yaml", text)
	config := n.write("prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yaml]
scrape_configs:
  - {job_name: floodgate, static_configs: [{targets: [%q, %q]}]}
`, n.metrics[0], n.metrics[1]))
	c := exec.CommandContext(n.t.Context(), binary, "--config.file", config, "--storage.tsdb.path", filepath.Join(n.dir, "prometheus"),
		"--web.listen-address", n.prometheus, "--web.console.libraries", n.dir, "--web.console.templates", n.dir)
	if err := c.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

// agree waits until everybody says what is true. Then nobody may say anything else for ten seconds.
func (n *night) agree(step string, w truth) {
	n.t.Helper()
	n.t.Logf("%s: %s", time.Now().UTC().Format(time.TimeOnly), step)
	deadline := time.Now().Add(4 * time.Minute)
	for wrong := n.wrong(w); wrong != ""; wrong = n.wrong(w) {
		if time.Now().After(deadline) {
			n.t.Fatalf("%s: after four minutes: %s", step, wrong)
		}
		time.Sleep(time.Second)
	}
	for quiet := time.Now().Add(10 * time.Second); time.Now().Before(quiet); time.Sleep(time.Second) {
		if wrong := n.wrong(w); wrong != "" {
			n.t.Errorf("%s: all agreed, and then: %s", step, wrong)
			return
		}
	}
}

// wrong says who does not say what is true.
func (n *night) wrong(w truth) string {
	for _, check := range []func(truth) string{n.wrongPage, n.wrongStatus, n.wrongReadiness, n.wrongAlerts} {
		if text := check(w); text != "" {
			return text
		}
	}
	return ""
}

func (n *night) wrongPage(w truth) string {
	var want []string
	switch {
	case w.dead:
		want = []string{"unanswered"}
	case w.kafkaAway:
		want = []string{"kafka"}
	case w.brake:
		want = []string{"brake"}
	}
	got, err := value[string](n.v.tab, `[...document.querySelectorAll("[data-banner]")].map((b) => b.dataset.banner.split("-")[0]).join(" ")`)
	if err != nil {
		return err.Error()
	}
	if banners := strings.Fields(got); !slices.Equal(banners, want) && !(w.dead && slices.Contains(banners, "unanswered")) {
		return fmt.Sprintf("the page has banners %q, want %q", banners, want)
	}
	return ""
}

func (n *night) wrongStatus(w truth) string {
	out, err := exec.Command(program, "status", "--api", n.analyzers[0].url, "--token-file", filepath.Join(n.dir, "read.token")).CombinedOutput()
	text := string(out)
	switch {
	case (err != nil) != w.dead:
		return fmt.Sprintf("status ended with %v, and the analyzers are dead: %t\n%s", err, w.dead, text)
	case strings.Contains(text, "KAFKA IS AWAY") != w.kafkaAway:
		return fmt.Sprintf("status says\n%s\nand Kafka is away: %t", text, w.kafkaAway)
	case strings.Contains(text, "BRAKE") != w.brake:
		return fmt.Sprintf("status says\n%s\nand the brake is pulled: %t", text, w.brake)
	case !w.dead && !w.kafkaAway && strings.Count(text, "| running") != 4:
		return "status says\n" + text + "\nwant 4 partitions that run"
	case w.kafkaAway && strings.Contains(text, "| running"):
		return "status says\n" + text + "\nwant no partition that runs without Kafka"
	}
	return ""
}

func (n *night) wrongReadiness(w truth) string {
	for _, at := range n.metrics {
		got := 0
		if resp, err := http.Get("http://" + at + "/readyz"); err == nil {
			got = resp.StatusCode
			_ = resp.Body.Close()
		}
		want := http.StatusOK
		switch {
		case w.dead:
			want = 0
		case w.kafkaAway:
			want = http.StatusServiceUnavailable
		}
		if got != want {
			return fmt.Sprintf("/readyz of %s: got %d, want %d", at, got, want)
		}
	}
	return ""
}

func (n *night) wrongAlerts(w truth) string {
	resp, err := http.Get("http://" + n.prometheus + "/api/v1/alerts")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels struct{ Alertname string }
				State  string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err.Error()
	}
	firing := make(map[string]bool)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			firing[a.Labels.Alertname] = true
		}
	}
	if got := slices.Sorted(maps.Keys(firing)); !slices.Equal(got, w.alerts) {
		return fmt.Sprintf("alerts %q fire, want %q", got, w.alerts)
	}
	return ""
}

// gates waits until the server answers a request of a key with a status.
func (n *night) gates(key string, want int) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("the gate answers key %s with %d", key, want), func() bool {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Key", key)
		w := httptest.NewRecorder()
		if key == "quiet" { // a gate that is asked too often would close it
			time.Sleep(time.Second)
		}
		n.server.ServeHTTP(w, r)
		return w.Code == want
	})
}

// byHand opens or closes a key for an hour, by the command line.
func (n *night) byHand(action, key string) {
	n.t.Helper()
	out, err := exec.Command(program, action, "key:"+key, "--for", "1h", "--reason", "ticket 4712", "--api", n.analyzers[0].url,
		"--token-file", filepath.Join(n.dir, "operate.token")).CombinedOutput()
	if err != nil || !regexp.MustCompile(`in force|accepted`).Match(out) {
		n.t.Fatalf("%s %s: got %v\n%s", action, key, err, out)
	}
}
