package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// testExpressions runs what compose.yaml runs, with ingest, a sidecar, notify and serve beside it, under load, and Prometheus over it. It asks
// Prometheus each expression of each panel and alert: none may be an error, and none empty.
func testExpressions(t *testing.T, floodgate, example *image) {
	binary := testenv.Program(t, "prometheus")
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	w := watched{t: t, broker: broker, addresses: map[string]string{}}
	for _, name := range []string{"analyzer", "api", "web", "gates", "sidecar", "bouncers", "ingest", "notify", "serve", "serve-api", "prometheus"} {
		w.addresses[name] = testenv.FreeAddress(t)
	}
	w.run(floodgate, example)
	w.runs(func(ctx context.Context) { w.load(ctx) })
	w.prometheus(binary)
	asked := w.questions()
	t.Logf("asking %d expressions", len(asked))
	for i := 0; len(asked) > 0; i++ {
		var first error
		for _, expr := range slices.Sorted(maps.Keys(asked)) {
			if err := w.ask(expr); err == nil {
				delete(asked, expr)
			} else if first = err; errors.Is(err, errExpression) {
				t.Errorf("%s: %v", asked[expr], err)
				delete(asked, expr)
			}
		}
		select {
		case <-time.After(time.Second):
		case <-w.until():
			for expr, where := range asked {
				t.Errorf("%s: got nothing for %s, want a number", where, expr)
			}
			t.Fatalf("the last answer: %v", first)
		}
	}
	w.rules()
}

// watched is an installation that Prometheus looks at.
type watched struct {
	t         *testing.T
	broker    *embedded.Broker
	addresses map[string]string
	deadline  <-chan time.Time
}

const bouncerKey = "0123456789abcdef0123456789abcdef"

// until returns when the test gives up. The alert on rules without effect needs a minute; a machine may be slow.
func (w *watched) until() <-chan time.Time {
	if w.deadline == nil {
		w.deadline = time.After(5 * time.Minute)
	}
	return w.deadline
}

// run starts the daemons.
func (w *watched) run(floodgate, example *image) {
	w.t.Helper()
	places := strings.NewReplacer("kafka:9092", w.broker.Addr(), "0.0.0.0:9090", w.addresses["analyzer"], "127.0.0.1:9096", w.addresses["api"],
		"0.0.0.0:8080", w.addresses["web"], "0.0.0.0:9091", w.addresses["gates"])
	all := services(w.t, "compose.yaml")
	shareKey(w.t, floodgate, example, all["topics"], places)
	rules := readFile(w.t, "rules/rules.yaml") + "  - {name: nobody, callers: nobody, limit: 1, window: 1m}\n" + // has no effect, and an alert says so
		"  - {name: shared, callers: key, capacity: 1000, window: 1s}\n"
	w.write(floodgate, "etc/floodgate/rules.yaml", rules)
	w.write(floodgate, "etc/floodgate/bouncers", fmt.Sprintf("firewall %x\n", sha256.Sum256([]byte(bouncerKey))))

	client := kafkaio.New(kafkaio.Config{Brokers: []string{w.broker.Addr()}})
	w.t.Cleanup(client.Close)
	topic := kafkaio.ForeignSpec("access-logs")
	topic.Partitions = 1
	if _, err := client.EnsureTopics(w.t.Context(), topic); err != nil {
		w.t.Fatal(err)
	}
	common := map[string]string{"FLOODGATE_BROKERS": "kafka:9092", "FLOODGATE_PARTITION_KEY_FILE": all["analyzer"].Environment["FLOODGATE_PARTITION_KEY_FILE"]}
	with := func(more map[string]string) map[string]string { maps.Copy(more, common); return more }
	start(w.t, floodgate, all["analyzer"], places)
	start(w.t, example, all["server"], places)
	start(w.t, floodgate, service{Command: []string{"ingest", "--topic", topic.Name}, Environment: with(map[string]string{
		"FLOODGATE_LISTEN": w.addresses["ingest"], "FLOODGATE_DATA": "/keys/ingest",
	})}, places)
	start(w.t, floodgate, service{Command: []string{"sidecar"}, Environment: with(map[string]string{
		"FLOODGATE_LISTEN": w.addresses["sidecar"], "FLOODGATE_BOUNCER_LISTEN": w.addresses["bouncers"], "FLOODGATE_BOUNCER_KEYS": "/etc/floodgate/bouncers",
	})}, places)
	w.write(floodgate, "etc/floodgate/notify.yaml", "version: 1\nendpoints: [{name: ops, url: \"http://127.0.0.1:9/\", allow_addresses: [127.0.0.1], secret_files: [ops.secret]}]\n")
	w.write(floodgate, "etc/floodgate/ops.secret", "whsec_"+base64.StdEncoding.EncodeToString([]byte(bouncerKey)))
	start(w.t, floodgate, service{Command: []string{"notify", "--config", "/etc/floodgate/notify.yaml"}, Environment: map[string]string{
		"FLOODGATE_BROKERS": "kafka:9092", "FLOODGATE_LISTEN": w.addresses["notify"],
	}}, places)
	start(w.t, floodgate, service{Command: []string{"serve", "--record", "--listen", "127.0.0.1:0"}, Environment: map[string]string{
		"FLOODGATE_METRICS_LISTEN": w.addresses["serve"], "FLOODGATE_API_LISTEN": w.addresses["serve-api"], "FLOODGATE_DATA": "/keys/serve",
	}}, places)
	w.runs(func(ctx context.Context) { w.log(ctx, client, topic.Name) })
}

// write writes a file into an image, for its user to read.
func (w *watched) write(i *image, path, text string) {
	w.t.Helper()
	path = filepath.Join(i.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// runs runs f until the test ends.
func (w *watched) runs(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// load asks the server, the sidecar, the API and the bouncers' listener, as long as they are there. Some clients come too often.
func (w *watched) load(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	get := func(url string, header ...string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		get("http://"+w.addresses["web"]+"/", "X-Api-Key", fmt.Sprint("customer-", i%3))
		if i%20 == 0 {
			get("http://"+w.addresses["sidecar"]+"/auth", "X-Forwarded-For", "203.0.113.9")
			get("http://" + w.addresses["api"] + "/v1/status")
			get("http://" + w.addresses["api"] + "/v1/caller")
			get("http://"+w.addresses["bouncers"]+"/v1/decisions/stream?startup=true", "X-Api-Key", bouncerKey)
		}
	}
}

// log writes lines of an access log, some of which nobody can read.
func (w *watched) log(ctx context.Context, client *kafkaio.Client, topic string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			line := fmt.Sprintf(`203.0.113.%d - - [%s] "GET / HTTP/1.1" 200 5 "-" "test"`, i%50, now.Format("02/Jan/2006:15:04:05 -0700"))
			if i%20 == 19 {
				line = "203.0.113.1 is no line of a log"
			}
			_, _ = client.Produce(ctx, topic, 0, kafkaio.Message{Time: now.UnixNano(), Value: []byte(line)}) // the test waits for what comes of it
		}
	}
}

// prometheus starts Prometheus with the configuration of compose.yaml, which reads what runs here, and more often.
func (w *watched) prometheus(binary string) {
	w.t.Helper()
	dir := w.t.TempDir()
	list := func(names ...string) string {
		for i, name := range names {
			names[i] = `"` + w.addresses[name] + `"`
		}
		return strings.Join(names, ", ")
	}
	config := strings.NewReplacer("scrape_interval: 5s", "scrape_interval: 1s", "evaluation_interval: 15s", "evaluation_interval: 1s",
		`"analyzer:9090"`, list("analyzer"), `"server:9091"`, list("gates", "sidecar", "ingest", "notify", "serve")).Replace(readFile(w.t, "prometheus/prometheus.yml"))
	for name, text := range map[string]string{"prometheus.yml": config, "alerts.yaml": readFile(w.t, "prometheus/alerts.yaml")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	c := exec.CommandContext(ctx, binary, "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", w.addresses["prometheus"], "--web.console.libraries", dir, "--web.console.templates", dir)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 30 * time.Second
	out := &output{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cancel()
		_ = c.Wait() // it has no more to say
		if w.t.Failed() {
			w.t.Logf("prometheus printed:\n%s", out)
		}
	})
}

// questions returns the expressions, and where they stand.
func (w *watched) questions() map[string]string {
	w.t.Helper()
	all := make(map[string]string)
	reader := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$rule", ".*")
	for file, d := range dashboards(w.t) {
		for i := range d.Panels {
			for _, target := range d.Panels[i].Targets {
				all[reader.Replace(target.Expr)] = file + ", " + d.Panels[i].Title
			}
		}
	}
	for _, a := range alerts(w.t) {
		if strings.Contains(a.Expr, "floodgate_brake_since_seconds") {
			continue // no rule is in shadow by hand here
		}
		for _, s := range selectors(a.Expr) {
			all[shown(w.t, s)] = a.Alert
		}
		for _, part := range regexp.MustCompile(`\s(?:and|unless|or)\s(?:on \([^)]*\)\s)?`).Split(a.Expr, -1) {
			all[stateless(compared(part))] = a.Alert
		}
	}
	if len(all) < 100 {
		w.t.Fatalf("got %d expressions, want those of five dashboards and all alerts", len(all))
	}
	return all
}

// compared makes a comparison give its answer, 0 or 1, in place of leaving out what it is not true of. What is absent elsewhere is here.
func compared(expr string) string {
	expr = strings.ReplaceAll(expr, "absent(", "count(")
	return regexp.MustCompile(`(\s(?:==|!=|<=|>=|<|>))\s`).ReplaceAllString(expr, "$1 bool ")
}

// shown is a selector of an alert, without the time over which it is looked at.
func shown(t *testing.T, s selector) string {
	t.Helper()
	text := strings.TrimSuffix(s.text, s.span)
	if s.name != "floodgate_partition_state" {
		return text
	}
	for _, m := range regexp.MustCompile(`state[=!]~?"([^"]*)"`).FindAllStringSubmatch(s.matchers, -1) {
		for name := range strings.SplitSeq(m[1], "|") {
			if !slices.ContainsFunc(states(), func(s analyzer.State) bool { return s.String() == name }) {
				t.Errorf("got state %s in an alert, want one of %v", name, states())
			}
		}
	}
	return stateless(text)
}

// stateless is an expression about owners in any state: each owner shows the state that it is in, and here none is in trouble.
func stateless(expr string) string {
	return regexp.MustCompile(`(floodgate_partition_state)\{state[^}]*\}`).ReplaceAllString(expr, "$1")
}

// states returns the ten states of an owner.
func states() (all []analyzer.State) {
	for s := range analyzer.State(10) {
		all = append(all, s)
	}
	return all
}

// errExpression says that Prometheus cannot evaluate an expression.
var errExpression = errors.New("bad expression")

// ask asks one expression. It is an error if the answer has no number.
func (w *watched) ask(expr string) error {
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := w.get("/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return err
	}
	for _, r := range answer.Data.Result {
		if r.Value[1] != "NaN" {
			return nil
		}
	}
	return fmt.Errorf("got %d series without a number for %s, want a number", len(answer.Data.Result), expr)
}

// get reads an answer of Prometheus.
func (w *watched) get(path string, into any) error {
	resp, err := http.Get("http://" + w.addresses["prometheus"] + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusBadRequest, resp.StatusCode == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s: %s", errExpression, path, body)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("got %s", resp.Status)
	}
	return json.Unmarshal(body, into)
}

// rules looks at what Prometheus made of the alerts: it evaluates each, and none says that something is wrong here.
func (w *watched) rules() {
	w.t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Type, Health, LastError, State string }
			}
		}
	}
	if err := w.get("/api/v1/rules", &answer); err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Type == "alerting" {
				n++
			}
			if r.Health != "ok" || r.State == "firing" {
				w.t.Errorf("%s: got health %s (%s) and state %s, want ok, and no alert", r.Name, r.Health, r.LastError, r.State)
			}
		}
	}
	if want := len(alerts(w.t)); n != want {
		w.t.Errorf("got %d alerts in Prometheus, want %d", n, want)
	}
}
