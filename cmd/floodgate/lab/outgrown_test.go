//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const outgrownRules = `
version: 1
rules:
  - {name: burst, callers: ip, limit: 200, window: 10s, close_for: 1h}
  - {name: month, callers: ip, limit: 100000000, window: month}
`

// TestOutgrown moves a host that has outgrown floodgate serve to Kafka, by the commands that deploy/SERVE.md says, while 5,000 lines a second
// are written to its log. Each line counts once in the month's quota. Who was closed stays closed, whoever answers; nobody else is refused.
func TestOutgrown(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	brokers := map[string]string{"embedded": start(t, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "log")).WaitFor(`serving Kafka on (\S+)`, 10*time.Second)}
	if address := os.Getenv("FLOODGATE_KAFKA"); address != "" {
		brokers["Apache Kafka"] = address
	}
	for _, kafka := range slices.Sorted(maps.Keys(brokers)) {
		for _, kills := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s, %d kills", kafka, kills), func(t *testing.T) { outgrow(t, brokers[kafka], kills) })
		}
	}
}

// outgrown is the host that moves.
type outgrown struct {
	t       *testing.T
	dir     string
	rules   string
	brokers string
	prefix  string // of topics
	traffic *hostTraffic
	watch   *gateWatch
}

// outgrow is the walk.
func outgrow(t *testing.T, brokers string, kills int) {
	t.Helper()
	o := &outgrown{t: t, dir: t.TempDir(), brokers: brokers, prefix: "outgrown-" + strconv.FormatUint(rand.Uint64(), 36)}
	o.rules = filepath.Join(o.dir, "rules.yaml")
	if err := os.WriteFile(o.rules, []byte(outgrownRules), 0o600); err != nil {
		t.Fatal(err)
	}
	o.traffic = newHostTraffic(t, filepath.Join(o.dir, "access.log"))
	h := serveHost(t, o.dir, "--rules", o.rules)
	h.ready()
	o.traffic.start()
	o.traffic.burst(closedThen...)
	processtest.Eventually(t, 30*time.Second, "closed by serve", func() bool { return o.refused(h.asked) == len(closedThen) })
	o.watch = watchGates(t, h.asked)
	time.Sleep(2 * time.Second) // of traffic
	_, err := runCommand(append(o.migrate(h), "--log-format", "text")...)
	if !isUsage(err) || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("serve runs: got %v, want that it is to be stopped", err)
	}

	o.watch.pause("from the stop of serve until migrate answers")
	if code := h.Stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("serve: got exit code %d:\n%s", code, h.Text())
	}
	for range kills {
		m, moment := start(t, o.migrate(h)...), rand.N(3*time.Second)
		time.Sleep(moment)
		m.Kill()
		t.Logf("killed after %v", moment.Round(time.Millisecond))
		o.traffic.rotate()
	}
	m := start(t, o.migrate(h)...)
	o.watch.resume()
	m.WaitFor("Then stop this process", time.Minute)
	t.Logf("migrate printed\n%s", regexp.MustCompile(`(?s)\+--.*until then\.`).FindString(m.Text()))
	o.traffic.rotate()
	analyze, ingest, side := o.next(m.Text(), "analyze"), o.next(m.Text(), "ingest"), o.next(m.Text(), "sidecar")
	processtest.AwaitReady(t, side.url, 200, "")
	o.watch.move(side.url)
	if code := m.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("migrate: got exit code %d:\n%s", code, m.Text())
	}
	time.Sleep(2 * time.Second) // of traffic
	o.traffic.rotate()
	o.traffic.stop()
	o.watch.stop()
	t.Logf("asked %d times about a caller that is closed, and one that is not", o.watch.asked.Load())
	o.atTheEnd(analyze, ingest, side)
}

// migrate returns the command for a serve.
func (o *outgrown) migrate(h *servedHost) []string {
	return []string{
		"migrate", "--data", h.data, "--brokers", o.brokers, "--topic-prefix", o.prefix, "--to", filepath.Join(o.dir, "counts"), "--rules", o.rules,
		"--listen", strings.TrimPrefix(h.asked, "http://"), "--format", "combined",
	}
}

// ran is a process of the walk.
type ran struct {
	*processtest.Program
	url string
}

// next runs what migrate has printed of a subcommand, at an address of the test's own.
func (o *outgrown) next(printed, name string) ran {
	o.t.Helper()
	line := regexp.MustCompile(`(?m)^    floodgate (` + name + ` .*)$`).FindStringSubmatch(printed)
	if line == nil {
		o.t.Fatalf("got no command of %s in\n%s", name, printed)
	}
	p := start(o.t, append(strings.Fields(line[1]), "--listen", "127.0.0.1:0")...)
	return ran{p, "http://" + p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)}
}

// closedThen is who serve has closed; closedNow is who the analyzer closes afterwards.
var (
	closedThen = []string{"203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4", "203.0.113.5", "203.0.113.6", "203.0.113.7", "203.0.113.8"}
	closedNow  = []string{"203.0.113.201", "203.0.113.202", "203.0.113.203", "203.0.113.204", "203.0.113.205", "203.0.113.206", "203.0.113.207", "203.0.113.208"}
)

// refused returns how many of closedThen an address refuses.
func (o *outgrown) refused(url string) (n int) {
	for _, ip := range closedThen {
		if processtest.Ask(o.t.Context(), url, "X-Forwarded-For", ip) == 403 {
			n++
		}
	}
	return n
}

// atTheEnd compares what the new installation has counted with what was written.
func (o *outgrown) atTheEnd(analyze, ingest, side ran) {
	t := o.t
	o.traffic.burst(closedNow...) // behind all other lines
	processtest.Eventually(t, time.Minute, "the last lines counted", func() bool {
		for _, ip := range closedNow {
			if processtest.Ask(t.Context(), side.url, "X-Forwarded-For", ip) != 403 {
				return false
			}
		}
		return true
	})
	for ip := range o.traffic.truth {
		want := 200
		if slices.Contains(closedThen, ip) || slices.Contains(closedNow, ip) {
			want = 403
		}
		if got := processtest.Ask(t.Context(), side.url, "X-Forwarded-For", ip); got != want {
			t.Errorf("%s: got status %d, want %d", ip, got, want)
		}
	}
	for _, p := range []ran{ingest, side} {
		if code := p.Stop(syscall.SIGTERM); code != 0 {
			t.Errorf("got exit code %d:\n%s", code, p.Text())
		}
	}
	o.awaitCounted(analyze)
	if code := analyze.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("analyze: got exit code %d:\n%s", code, analyze.Text())
	}
	o.compare()
	out, err := runCommand("audit", "--brokers", o.brokers, "--topic-prefix", o.prefix, "--rules", o.rules, "--data", filepath.Join(o.dir, "counts"), "--most", "1")
	t.Logf("audit:\n%s", out)
	if err != nil || !strings.HasSuffix(out, "the store agrees with the log, as far back as the log reaches\n") || strings.Contains(out, "approximate") {
		t.Errorf("audit: got %v", err)
	}
}

// awaitCounted waits until the analyzer has counted all that the log has.
func (o *outgrown) awaitCounted(analyze ran) {
	client := kafkaio.New(kafkaio.Config{Brokers: strings.Split(o.brokers, ",")})
	defer client.Close()
	processtest.Eventually(o.t, time.Minute, "all counted", func() bool {
		end := int64(0)
		for p := range 4 {
			_, next, err := client.Range(o.t.Context(), o.prefix+".requests", p)
			if err != nil {
				return false
			}
			end += next
		}
		metrics, _ := processtest.Get(o.t.Context(), analyze.url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_next_offset") == float64(end)
	})
}

// compare compares the counts of the month with the lines that were written, of each caller.
func (o *outgrown) compare() {
	out, err := runCommand("store", "--data", filepath.Join(o.dir, "counts"), "--rules", o.rules, "--most", "0", "--output", "json")
	if err != nil {
		o.t.Fatal(err)
	}
	counted, sum := make(map[string]int64), int64(0)
	for line := range strings.Lines(out) {
		var row struct {
			Rule, Caller string
			Count        int64
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			o.t.Fatalf("%v: %s", err, line)
		}
		if row.Rule == "month" {
			counted[strings.TrimPrefix(row.Caller, "ip:")] = row.Count
			sum += row.Count
		}
	}
	o.t.Logf("%d lines of %d callers counted, %d of %d written", sum, len(counted), o.traffic.lines, len(o.traffic.truth))
	wrong := 0
	for ip, want := range o.traffic.truth {
		if counted[ip] != want {
			wrong++
			if wrong < 5 {
				o.t.Errorf("%s: got %d lines counted, want %d", ip, counted[ip], want)
			}
		}
	}
	if wrong > 0 || len(counted) != len(o.traffic.truth) {
		o.t.Errorf("%d of %d callers are wrong; got %d", wrong, len(o.traffic.truth), len(counted))
	}
}

// hostTraffic writes a log, 5,000 lines a second of callers of whom none is near a limit, and rotates it.
type hostTraffic struct {
	t    *testing.T
	path string

	mu        sync.Mutex
	file      *os.File         // guarded by mu
	truth     map[string]int64 // guarded by mu: lines by address
	lines     int64            // guarded by mu
	rotations int              // guarded by mu

	ended sync.WaitGroup
	end   chan struct{}
}

func newHostTraffic(t *testing.T, path string) *hostTraffic {
	t.Helper()
	w := &hostTraffic{t: t, path: path, truth: make(map[string]int64), end: make(chan struct{})}
	w.open()
	t.Cleanup(w.stop)
	return w
}

func (w *hostTraffic) open() {
	var err error
	if w.file, err = os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		w.t.Error(err)
	}
}

// write writes a line of each address.
func (w *hostTraffic) write(ips ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var text strings.Builder
	now := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	for _, ip := range ips {
		fmt.Fprintf(&text, "%s - - [%s] \"GET /api/items HTTP/1.1\" 200 512 \"-\" \"Mozilla/5.0\"\n", ip, now)
		w.truth[ip]++
	}
	w.lines += int64(len(ips))
	if _, err := w.file.WriteString(text.String()); err != nil {
		w.t.Error(err)
	}
}

// burst writes enough lines of each address to close it.
func (w *hostTraffic) burst(ips ...string) {
	for range 220 {
		w.write(ips...)
	}
}

// rotate renames the log and begins a new one, as logrotate does.
func (w *hostTraffic) rotate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rotations++
	if err := os.Rename(w.path, fmt.Sprintf("%s.%d", w.path, w.rotations)); err != nil {
		w.t.Error(err)
	}
	_ = w.file.Close()
	w.open()
}

func (w *hostTraffic) start() {
	w.ended.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n += 50 {
			select {
			case <-w.end:
				return
			case <-tick.C:
			}
			var ips []string
			for i := n; i < n+50; i++ {
				ips = append(ips, fmt.Sprintf("10.0.%d.%d", i>>8&7, i&255))
			}
			w.write(ips...)
		}
	})
}

func (w *hostTraffic) stop() {
	w.mu.Lock()
	select {
	case <-w.end:
	default:
		close(w.end)
	}
	w.mu.Unlock()
	w.ended.Wait()
}

// gateWatch asks all the time about a caller that is closed and one that is not, as a proxy does.
type gateWatch struct {
	t      *testing.T
	url    atomic.Pointer[string]
	paused atomic.Pointer[string] // why the answers may be wrong; nil: they may not

	ended   sync.WaitGroup
	cancel  context.CancelFunc
	asked   atomic.Int64
	refused atomic.Int64 // Unix nanoseconds: when the question began to which the closed caller was refused last
}

func watchGates(t *testing.T, url string) *gateWatch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &gateWatch{t: t, cancel: cancel}
	w.url.Store(&url)
	w.ended.Go(func() {
		for ctx.Err() == nil {
			w.ask(ctx)
			time.Sleep(time.Millisecond)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// ask asks about both callers once.
func (w *gateWatch) ask(ctx context.Context) {
	began, before, url := time.Now(), w.paused.Load(), *w.url.Load()
	closed := processtest.Ask(ctx, url, "X-Forwarded-For", closedThen[0])
	open := processtest.Ask(ctx, url, "X-Forwarded-For", "10.0.0.1")
	if ctx.Err() != nil {
		return
	}
	w.asked.Add(1)
	if open == 403 {
		w.t.Errorf("%s refuses a caller that is not closed", url)
	}
	if closed == 403 {
		w.refused.Store(began.UnixNano()) // its answer may be of a process that was killed meanwhile
		return
	}
	if before == nil && w.paused.Load() == nil && url == *w.url.Load() {
		w.t.Errorf("%s: got status %d about a caller that is closed, want 403", url, closed)
	}
}

// pause lets answers be missing.
func (w *gateWatch) pause(why string) { w.paused.Store(&why) }

// resume waits until the closed caller is refused again. Then it must always be.
func (w *gateWatch) resume() {
	w.t.Helper()
	began, why := time.Now(), *w.paused.Load()
	last := w.refused.Load()
	processtest.Eventually(w.t, 30*time.Second, "refused again", func() bool { return w.refused.Load() > began.UnixNano() })
	w.paused.Store(nil)
	w.t.Logf("%s: a closed caller may pass for %v", why, time.Duration(w.refused.Load()-last).Round(time.Millisecond))
}

// move asks at another address.
func (w *gateWatch) move(url string) { w.url.Store(&url) }

func (w *gateWatch) stop() {
	w.cancel()
	w.ended.Wait()
}
