//go:build lab

package lab

import (
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/recipes/floods"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// A short flood is part of .ci/run. Those of the recipe, each alone, are
//
//	go test -tags lab ./cmd/floodgate/lab -run TestAForgeUnderCrawlers -v -forge.lasts 2m
//	go test -tags lab ./cmd/floodgate/lab -run TestAForgeUnderCrawlers/200 -v -forge.lasts 2m -forge.capacity 10000
var (
	forgeLasts    = flag.Duration("forge.lasts", 40*time.Second, "how long crawlers flood the forge of TestAForgeUnderCrawlers; it is quiet for half of it before, and after")
	forgeCapacity = flag.Int("forge.capacity", 1000, "requests that its pages bear in 10 s")
)

const forgeRoute = "GET /{owner}/{repo}/{page...}"

// forge is a site under the recipe of deploy: nginx asks serve, which reads the log of nginx.
type forge struct {
	*processtest.Host

	flood    floods.Flood
	requests []floods.Request
	refused  []bool
	rules    string        // path
	url      string        // of nginx
	late     time.Duration // how long a request was sent after its time, at most
}

func newForge(t *testing.T, flood floods.Flood) *forge {
	t.Helper()
	f := &forge{Host: processtest.NewHost(t, start), flood: flood}
	f.flood.Capacity = float64(*forgeCapacity) / 10
	f.flood.Quiet, f.flood.Lasts = *forgeLasts/2, *forgeLasts
	f.requests = f.flood.Requests()
	for i, end := 0, f.flood.Start.Add(2**forgeLasts); i < len(f.requests); i++ {
		if f.requests[i].At.After(end) {
			f.requests = f.requests[:i]
		}
	}
	f.refused = make([]bool, len(f.requests))
	dir := t.TempDir()
	f.rules = writeIn(t, dir, "rules.yaml", configured(t, "recipes/forge/rules.yaml", "mode: shadow", "mode: enforce", "capacity: 1000", fmt.Sprint("capacity: ", *forgeCapacity)))
	f.Start("--callers", "net_route=net+X-Floodgate-Route", "--rules", f.rules, "--mapping", "../../../deploy/recipes/forge/mapping.yaml")
	question := writeIn(t, dir, "floodgate.conf", configured(t, "../cmd/floodgate/daemon/nginx.conf", "http://127.0.0.1:9091", f.Asked,
		"50ms", "5s", `proxy_set_header Cookie "";`, "proxy_set_header X-Floodgate-Route $floodgate_route;"))
	port, backend := freePort(t), testenv.FreeAddress(t)
	f.url = nginxWith(t, port, configured(t, "recipes/forge/nginx.conf")+"set_real_ip_from 127.0.0.1;\nreal_ip_header X-Forwarded-For;\naccess_log "+f.Log+" combined;\n"+
		"server {\nlisten "+backend+";\naccess_log off;\nlocation / { return 200 served; }\n}\n"+
		"server {\nlisten 127.0.0.1:"+port+";\ninclude "+question+";\nlocation / { proxy_pass http://"+backend+"; }\n}\n")
	return f
}

// send sends all requests at their times, and takes note of when they were sent and which were refused.
func (f *forge) send(began time.Time) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var mu sync.Mutex // protects f.late
	var senders sync.WaitGroup
	for range 32 {
		senders.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(f.requests); i = int(next.Add(1)) - 1 {
				x := &f.requests[i]
				due := began.Add(x.At.Sub(f.flood.Start))
				time.Sleep(time.Until(due))
				sent := time.Now()
				x.At = f.flood.Start.Add(sent.Sub(began))
				f.refused[i] = f.ask(client, x)
				mu.Lock()
				f.late = max(f.late, sent.Sub(due))
				mu.Unlock()
			}
		})
	}
	senders.Wait()
}

// ask sends a request through nginx, and reports whether it is refused.
func (f *forge) ask(client *http.Client, x *floods.Request) bool {
	r, err := http.NewRequestWithContext(f.T.Context(), x.Method, strings.TrimSuffix(f.url, "/")+x.Path, http.NoBody)
	if err != nil {
		f.T.Error(err)
		return false
	}
	r.Header.Set("X-Forwarded-For", x.Addr.String())
	r.Header.Set("User-Agent", x.Agent)
	resp, err := client.Do(r)
	if err != nil {
		f.T.Error(err)
		return false
	}
	_ = resp.Body.Close()
	if no := resp.StatusCode == http.StatusTooManyRequests; resp.StatusCode != http.StatusOK && (!no || resp.Header.Get("Retry-After") == "") {
		f.T.Errorf("%s: got %d and %v, want 200, or 429 and Retry-After", x.Path, resp.StatusCode, resp.Header)
	}
	return resp.StatusCode == http.StatusTooManyRequests
}

// said is what explain says of a caller.
func (f *forge) said(caller string) string {
	f.T.Helper()
	out, err := runCommand("explain", caller, "--api", f.API, "--token-file", filepath.Join(f.Data, "api-token"))
	if err != nil {
		f.T.Errorf("explain %s: %v", caller, err)
	}
	return out
}

// lookAround asks, while the flood lasts, what an operator asks.
func (f *forge) lookAround() {
	f.T.Helper()
	of := ""
	for i := range f.requests {
		if f.requests[i].Kind == floods.Crawler {
			of = f.requests[i].Addr.String()
			break
		}
	}
	network := "net_route:" + of[:strings.LastIndexByte(of, '.')] + ".0/24|" + forgeRoute
	told := fmt.Sprintf(`(?s)has asked for \d+ of [\d.]+ requests in 10s.* pages was asked for \d+ of %d requests in 10s by all callers together; the level is [\d.]+\.`, *forgeCapacity)
	for _, caller := range []string{"ip:" + of, network} {
		said := f.said(caller)
		f.T.Logf("explain %s:\n%s", caller, said)
		if !matches(told, said) || !strings.Contains(said, network) {
			f.T.Errorf("explain %s: got\n%s\nwant it to say of %s what matches %s", caller, said, network, told)
		}
	}
	metrics, _ := processtest.Get(f.T.Context(), f.Metrics+"/metrics")
	sum := func(name string) float64 { return processtest.MetricSum(metrics, "floodgate_pool_"+name) }
	capacity, demand, above, level, networks := sum("capacity"), sum("demand"), sum("callers_above"), sum("level"), float64(f.flood.Networks)
	f.T.Logf("metrics: capacity %.0f, demand %.0f, callers above %.0f, level %.2f, protected %.0f, tally age %.1f s", capacity, demand, above, level, sum("protected"), sum("tally_age_seconds"))
	if capacity != float64(*forgeCapacity) || demand < 4*capacity || demand > 6*capacity || above < 0.8*networks || above > 1.2*networks || level*networks < 0.7*capacity ||
		level*networks > 1.1*capacity || sum("protected") != 0 || sum("tally_age_seconds") > 5 {
		f.T.Errorf("got\n%s\nwant metrics of five times the capacity, all networks above their share, and a tally in each quarter of a window", metrics)
	}
}

// opened waits until the gate is open for each network of crawlers, and returns how long after the flood's end that was.
func (f *forge) opened(end time.Time) time.Duration {
	f.T.Helper()
	time.Sleep(time.Until(end))
	for i := range f.flood.Networks {
		r, err := http.NewRequestWithContext(f.T.Context(), http.MethodGet, f.Asked+"/auth_request", http.NoBody)
		if err != nil {
			f.T.Fatal(err)
		}
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("241.0.%d.1", i))
		r.Header.Set("X-Floodgate-Route", forgeRoute)
		processtest.Eventually(f.T, time.Until(end)+time.Minute, "open again", func() bool {
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
	return time.Since(end)
}

// passed returns how many requests for pages that cost much passed in each second of the flood.
func (f *forge) passed() []int {
	seconds := make([]int, int(f.flood.Lasts/time.Second))
	for i := range f.requests {
		second := int(f.requests[i].At.Sub(f.flood.Start.Add(f.flood.Quiet)) / time.Second)
		if f.requests[i].Expensive && !f.refused[i] && second >= 0 && second < len(seconds) {
			seconds[second]++
		}
	}
	return seconds
}

// held returns after how many seconds of the flood no two bring more than twice what the pages bear: two seconds pass until a window
// has more than the capacity, up to a quarter of a window until the level comes, and then each network may use what half a window is worth.
// The other result is the mean load from ten seconds on.
func (f *forge) held(seconds []int) (late time.Duration, after float64) {
	for i, n := range seconds {
		if i > 0 && float64(n+seconds[i-1]) > 4*f.flood.Capacity {
			late = time.Duration(i) * time.Second
		}
		if i >= 10 {
			after += float64(n) / f.flood.Capacity / float64(len(seconds)-10)
		}
	}
	return late, after
}

// shares returns the least and the most that a network of crawlers got from ten seconds after the flood's start until its end, in fair
// shares.
func (f *forge) shares() (least, most float64) {
	got := make([]int, f.flood.Networks)
	for i := range f.requests {
		if x := &f.requests[i]; x.Kind == floods.Crawler && !f.refused[i] && x.At.Sub(f.flood.Start) >= f.flood.Quiet+10*time.Second {
			got[x.Addr.As4()[2]]++
		}
	}
	fair := f.flood.Capacity * (f.flood.Lasts.Seconds() - 10) / float64(f.flood.Networks)
	return float64(slices.Min(got)) / fair, float64(slices.Max(got)) / fair
}

// TestAForgeUnderCrawlers is the flood of deploy/recipes in real time: people, git, feeds and crawlers ask nginx, which asks serve, which
// reads the log of nginx. What the pages bear passes, and only those wait who ask for more than their share.
func TestAForgeUnderCrawlers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and a half")
	}
	testenv.Program(t, "nginx")
	most := 1.0 / 200 // of the requests of people
	if *forgeCapacity >= 10_000 {
		most = 1.0 / 1000
	}
	for _, c := range []struct {
		name  string
		flood floods.Flood
		most  float64
	}{{"200 networks", floods.Crawl(1), most}, {"50 networks", floods.Subnets(1), 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // both at once; nothing else runs meanwhile, since the whole test does not
			f := newForge(t, c.flood)
			f.run(c.most)
			f.AwaitMetric("floodgate_ingest_lines_total", float64(len(f.requests)+1)) // one found that nginx serves
			if code := f.Program.Stop(syscall.SIGTERM); code != 0 {
				t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, f.Program.Text())
			}
			out, err := runCommand("audit", "--data", f.Data, "--rules", f.rules)
			if err != nil || !strings.Contains(out, "to the unit") {
				t.Errorf("audit: got %v and\n%s\nwant it equal to the unit", err, out)
			}
		})
	}
}

// run lets all of them ask, and compares what was refused with what is wanted. maxPeople is the share of people's requests that may be
// refused.
func (f *forge) run(maxPeople float64) {
	f.T.Helper()
	began := time.Now()
	var sending sync.WaitGroup
	sending.Go(func() { f.send(began) })
	end := began.Add(f.flood.Quiet + f.flood.Lasts)
	time.Sleep(time.Until(end.Add(-f.flood.Lasts / 2)))
	f.lookAround()
	opened := f.opened(end)
	sending.Wait()
	i := -1
	got, seconds := f.flood.Judge(f.requests, func(*floods.Request) bool { i++; return f.refused[i] }), f.passed()
	late, after := f.held(seconds)
	least, most := f.shares()
	f.T.Logf("%d requests, sent %v late at most; held after %v, then %.2f of what the pages bear; refused %v of people, %v of git and feeds; "+
		"each network got %.2f to %.2f fair shares; open %v after the end; by the measure of COMPARED.md: load %.2f, late %v; passed in each second: %v",
		len(f.requests), f.late, late, after, got.People, got.GitFeeds, least, most, opened, got.Load, got.Late, seconds)
	if late > 6*time.Second || after < 0.85 || after > 1.1 {
		f.T.Errorf("got the load held after %v, and %.2f of the capacity then, want 6 s at most, and 0.85 to 1.1", late, after)
	}
	if got.Before.Refused+got.GitFeeds.Refused > 0 || float64(got.People.Refused) > maxPeople*float64(got.People.Of) {
		f.T.Errorf("got refused: %v before, %v of people, %v of git and feeds; want 0, %.1f %% and 0", got.Before, got.People, got.GitFeeds, 100*maxPeople)
	}
	if least < 0.4 || most > 1.6 { // a share of the shortest flood is 13 requests, and a closure some of them
		f.T.Errorf("got %.2f to %.2f fair shares for a network, want about one for each", least, most)
	}
}
