//go:build lab

package lab

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
)

// Three algorithms count the same callers: what gates block early by one of them, they block for all.
const mortalRules = `
version: 1
rules:
  - {name: fixed, callers: key, limit: 150, window: 1s, algorithm: fixed}
  - {name: sliding, callers: key, limit: 200, window: 1s, slots: 10}
  - {name: log, callers: key, limit: 300, window: 2s, algorithm: log}
`

const (
	mortalLimit  = 150                    // the strictest one's, a second
	mortalHold   = 500 * time.Millisecond // no early close lasts longer under a window of a second: half of it
	mortalKills  = 3
	mortalServed = 10 * time.Second
)

// mortalCallers are two that always ask for too much, and others that never do, the last one by little.
func mortalCallers() []steadyCaller {
	list := []steadyCaller{{"hog", 300}, {"hog-too", 200}}
	for i := range 4 {
		list = append(list, steadyCaller{"calm-" + strconv.Itoa(i), 20 + 10*float64(i)})
	}
	return list
}

// predictions is a gate in this process that takes note of what was predicted, and of who was closed.
type predictions struct {
	mu      sync.Mutex
	early   int             // guarded by mu: predicted closures of the hogs
	shares  int             // guarded by mu: decisions that give the hogs a share
	longest time.Duration   // guarded by mu: of predicted closures
	counted map[string]int  // guarded by mu: decisions that close, by caller
	epochs  map[uint64]bool // guarded by mu: of owners that predicted
	strange []string        // guarded by mu: others than the hogs that have a share
}

func (p *predictions) applied(d schemas.Decision, _ time.Time) {
	if d.Caller.Kind == schemas.KindCanary {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	hog, span := strings.HasPrefix(d.Caller.ID, "hog"), d.Next
	switch {
	case d.Early:
		span = schemas.Span{CloseAt: d.CloseAt, Until: d.Until, Early: true}
	case d.Until > d.CloseAt:
		p.counted[d.Caller.ID]++
	}
	if span.Early {
		p.longest = max(p.longest, time.Duration(span.Until-span.CloseAt))
		p.epochs[d.Epoch] = true
		if hog {
			p.early++
		}
	}
	if d.Share != nil {
		p.epochs[d.Epoch] = true
		if p.shares++; !hog {
			p.strange = append(p.strange, d.Caller.ID)
		}
	}
}

func (p *predictions) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.early + p.shares
}

// TestKilledWhileItPredicts kills an analyzer again and again in the middle of windows, while gates hold what it has predicted.
// The store that it leaves is that of the log, to the unit, and has the digest of analyzers that were never killed and that
// predicted nothing, or all they could. Nobody who kept to the limit is closed by count, or for longer than an early close holds.
func TestKilledWhileItPredicts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, predict := range []string{"early", "shares"} {
		t.Run(predict, func(t *testing.T) { killWhileItPredicts(t, predict) })
	}
}

func killWhileItPredicts(t *testing.T, predict string) {
	t.Helper()
	r := newRig(t, mortalRules, 1)
	flags := []string{"--predict", predict, "--checkpoint", "50ms"}
	r.analyze(flags...)
	p := &predictions{counted: make(map[string]int), epochs: make(map[uint64]bool)}
	r.follow(&watcher{closed: make(map[string]time.Time), also: p.applied}, -1)
	var servers []*processtest.Program
	for i := range 2 {
		servers = append(servers, startSteady(t, steadyPlan{
			Brokers: r.broker, Suffix: r.suffix, Seed: uint64(i), For: mortalServed, Callers: mortalCallers(),
		}))
	}
	for i := range mortalKills {
		before := p.count()
		processtest.Eventually(t, time.Minute, "something predicted", func() bool { return p.count() > before })
		now := time.Now()
		time.Sleep(now.Truncate(time.Second).Add(time.Duration(1000+400+100*i) * time.Millisecond).Sub(now)) // into a window
		r.analyzer.Kill()
		r.analyze(flags...)
	}
	list := steadySummaries(servers, mortalServed+time.Minute)
	r.catchUp("floodgate_committed_offset", time.Minute)
	if code := r.analyzer.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, r.analyzer.Text())
	}
	out, err := runCommand("audit", "--brokers", r.broker, "--rules", r.rules, "--data", r.data(),
		"--topic-name", "requests="+r.topic("requests"), "--topic-name", "state="+r.topic("state"), "--topic-name", "control="+r.topic("control"))
	if err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
	p.judge(t, list)
	digest := r.digest(r.data())
	for _, predict := range []string{"off", "early", "shares"} {
		if got := r.digest(r.recount(predict)); got != digest {
			t.Errorf("one that was not killed, --predict %s: got digest %016x, want %016x as that of those killed", predict, got, digest)
		}
	}
}

// judge wants the hogs closed, and everybody else open but for moments.
func (p *predictions) judge(t *testing.T, list []steadySummary) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("%d closures of hogs predicted, for %v at most, and %d shares, by %d owners; lag p50 %v, p99 %v", p.early, p.longest, p.shares, len(p.epochs), list[0].P50, list[0].P99)
	if p.early == 0 || len(p.epochs) < 2 || p.longest > mortalHold || len(p.strange) > 0 {
		t.Errorf("got %d closures predicted by %d owners, for %v at most, and shares of %q; want some by several, none for more than %v, and shares of nobody else",
			p.early, len(p.epochs), p.longest, p.strange, mortalHold)
	}
	for i, c := range mortalCallers() {
		_, blocked := between(list, i, 0, time.Now().UnixNano())
		longest := max(list[0].Callers[i].Longest, list[1].Callers[i].Longest)
		switch {
		case c.Rate > mortalLimit:
			if p.counted[c.ID] == 0 || blocked == 0 {
				t.Errorf("%s: got %d closes and %d requests blocked, want some", c.ID, p.counted[c.ID], blocked)
			}
		case p.counted[c.ID] > 0 || longest > mortalHold:
			t.Errorf("%s: got %d closes, and %d requests blocked for up to %v, want no close, and %v at most", c.ID, p.counted[c.ID], blocked, longest, mortalHold)
		case blocked > 0:
			t.Logf("%s: %d requests blocked for up to %v", c.ID, blocked, longest)
		}
	}
}

// recount lets another analyzer count the same log from nothing, to decisions of its own, and returns the directory of its counts.
func (r *rig) recount(predict string) (data string) {
	r.t.Helper()
	data = filepath.Join(r.dir, "counts-"+predict)
	args := []string{
		"analyze", "--brokers", r.broker, "--rules", r.rules, "--data", data, "--listen", "127.0.0.1:0", "--predict", predict,
		"--partitions", strconv.Itoa(r.partitions), "--group", fmt.Sprint("floodgate", r.suffix, ".", predict), "--topic-name", "requests=" + r.topic("requests"),
	}
	for _, topic := range []string{"decisions", "state", "rejects", "control", "events"} {
		args = append(args, "--topic-name", topic+"="+r.topic(topic+"."+predict))
	}
	p := start(r.t, args...)
	url := "http://" + p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
	processtest.Eventually(r.t, time.Minute, "all counted again", func() bool {
		metrics, _ := processtest.Get(r.t.Context(), url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_next_offset") == float64(r.end())
	})
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		r.t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, p.Text())
	}
	return data
}

// digest returns the digest of all that the stores below a directory hold.
func (r *rig) digest(data string) (sum uint64) {
	r.t.Helper()
	set, err := rules.Load(r.rules)
	if err != nil {
		r.t.Fatal(err)
	}
	partitions := openStores(r.t, data, set)
	for _, sp := range partitions {
		if sp.at.Next == 0 {
			r.t.Errorf("%s: got nothing counted", data)
		}
		sum += sp.fold.Digest(sp.fold.LogTime())
	}
	return sum
}
