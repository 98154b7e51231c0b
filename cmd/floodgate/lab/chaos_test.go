//go:build lab

package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// How much chaos. A short run is part of every go test, a longer one of CI (FLOODGATE_LONG=1); a long one is, for example,
//
//	go test -tags lab ./cmd/floodgate/lab -run TestChaos -timeout 2h -v -chaos.kills 100 -chaos.zombies 50 -chaos.wipes 20 \
//		-chaos.broker-kills 50 -chaos.fills 20 -chaos.churn 5m
var (
	chaosKills   = flag.Int("chaos.kills", 3, "analyzers killed by kill -9")
	chaosZombies = flag.Int("chaos.zombies", 1, "analyzers paused for longer than their session")
	chaosWipes   = flag.Int("chaos.wipes", 1, "analyzers killed and robbed of their stores")
	chaosBrokers = flag.Int("chaos.broker-kills", 1, "brokers killed by kill -9")
	chaosFills   = flag.Int("chaos.fills", 1, "times that a disk is full for a while; needs the right to mount one")
	chaosReloads = flag.Int("chaos.reloads", 2, "changes of the rules")
	chaosChurn   = flag.Duration("chaos.churn", 4*time.Second, "how long another analyzer comes and goes")
	chaosSeed    = flag.Uint64("chaos.seed", 0, "what to do, and when; 0 is a random one")
)

const (
	chaosLimit  = 900
	chaosWindow = 5 * time.Second
)

// chaosRules counts everything, closes some, and has a limit that changes while it does.
const chaosRules = `
version: 1
rules:
  - {name: all, callers: key, limit: 1000000000000, window: 8760h, algorithm: fixed, count_blocked: true}
  - {name: per-key, callers: key, limit: 900, window: 5s, algorithm: fixed}
  - {name: moving, callers: key, limit: MOVING, window: 1h, mode: shadow}
`

// chaos is a cluster under load: a broker, analyzers in processes of their own, a gate in this one, and faults.
type chaos struct {
	t       *testing.T
	rnd     *rand.Rand
	dir     string
	run     killRun
	broker  *processtest.Program // nil where it is not ours to kill
	session time.Duration
	gen     *generator
	oracle  *oracle
	person  *operator
	members []*chaosMember
	small   *chaosMember // the one whose disk can be filled; nil if none could be mounted

	onlyOwners bool // nothing happens but that analyzers are killed and take over
}

// chaosMember is one analyzer and its directory.
type chaosMember struct {
	dir  string
	prog *processtest.Program // nil while it is down
	url  string
}

// TestChaos lets everything happen to real processes at once: kill -9 of analyzers and of the broker, stores that are deleted,
// members that come and go, analyzers that are paused until others have replaced them, full disks, and limits that change.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	dir := t.TempDir()
	c := &chaos{t: t, dir: dir, session: 2 * time.Second}
	c.broker = c.startBroker("127.0.0.1:0")
	c.run = killRun{broker: c.broker.WaitFor(`serving Kafka on (\S+)`, 10*time.Second), session: "2s"}
	c.unleash(*chaosBrokers)
}

// TestChaosOnApacheKafka is the same but for the broker, which others use too.
func TestChaosOnApacheKafka(t *testing.T) {
	broker := os.Getenv("FLOODGATE_KAFKA")
	if broker == "" {
		t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
	}
	c := &chaos{t: t, dir: t.TempDir(), session: 6 * time.Second}
	c.run = killRun{broker: broker, suffix: fmt.Sprintf(".chaos-%x", rand.Uint64()), session: "6s"}
	c.unleash(0)
}

func (c *chaos) startBroker(listen string) *processtest.Program {
	return start(c.t, "broker", "--listen", listen, "--data", filepath.Join(c.dir, "log"), "--min-session-timeout", "1s")
}

// unleash runs load and faults at once, then lets everything come to rest and compares.
func (c *chaos) unleash(brokerKills int) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c.t.Logf("seed %d: go test -tags lab ./cmd/floodgate/lab -run '%s' -chaos.seed %d", seed, c.t.Name(), seed)
	c.rnd = rand.New(rand.NewPCG(seed, 1))
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Hour)
	defer cancel()
	c.oracle = newOracle()
	c.gen = newGenerator(c.t, c.run.broker, "floodgate.requests"+c.run.suffix, seed)
	c.gen.responds = true
	c.gen.sent, c.gen.favour = c.oracle.sent, chaosWindow // somebody reaches the limit, however slow the machine is
	c.person = newE2EOperator(c.gen.client, "floodgate.control"+c.run.suffix, seed)
	c.writeRules(1_000_000)
	c.t.Setenv("FLOODGATE_SNAPSHOT", "3s") // a wiped store then comes back from the state topic
	c.small = c.mountSmall()
	for range 2 {
		c.join()
	}
	c.ready(ctx)
	link := c.link()
	defer link.Close()
	var g errgroup.Group
	loadCtx, stopLoad := context.WithCancel(ctx)
	g.Go(func() error { c.load(ctx, loadCtx); return nil })
	g.Go(func() error { c.person.work(ctx, loadCtx); return nil })
	for _, fault := range c.plan(brokerKills) {
		c.pause(100, 700)
		c.t.Logf("%s %s", time.Now().UTC().Format(time.TimeOnly), fault.name)
		fault.act(ctx)
	}
	c.pause(1000, 1001)
	processtest.Eventually(c.t, time.Minute, "somebody over the limit", c.oracle.closesSomebody)
	stopLoad()
	c.rest(ctx)
	link.Close()
	if err := g.Wait(); err != nil {
		c.t.Errorf("load: %v", err)
	}
	c.compare(ctx)
}

// fault is one thing that happens.
type fault struct {
	name string
	act  func(ctx context.Context)
}

// plan returns the faults in a random order.
func (c *chaos) plan(brokerKills int) []fault {
	if c.onlyOwners {
		return c.kills()
	}
	churns := 0
	if *chaosChurn > 0 {
		churns = 1
	}
	var list []fault
	for _, f := range []struct {
		times int
		fault
	}{
		{*chaosKills, fault{"kill -9", c.kill}}, {*chaosZombies, fault{"zombie", c.zombie}}, {*chaosWipes, fault{"wipe", c.wipe}},
		{brokerKills, fault{"kill broker", c.killBroker}}, {*chaosReloads, fault{"reload", c.reload}}, {*chaosFills, fault{"fill disk", c.fill}},
		{churns, fault{"churn", c.churn}},
	} {
		for range f.times {
			list = append(list, f.fault)
		}
	}
	c.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (c *chaos) pause(from, to int) {
	time.Sleep(time.Duration(from+c.rnd.IntN(to-from)) * time.Millisecond)
}

// load sends frames, at a rate that leaves room for the analyzers on a small machine.
func (c *chaos) load(ctx, until context.Context) {
	for until.Err() == nil {
		c.gen.send(ctx)
		time.Sleep(20 * time.Millisecond)
	}
}

// link is a gate as a web server would have it.
func (c *chaos) link() *kafkalink.Link {
	names := schemas.TopicNames{Requests: "floodgate.requests" + c.run.suffix, Decisions: "floodgate.decisions" + c.run.suffix}
	link, err := kafkalink.Open(gate.New(gate.Options{}), record.New(record.Options{}), kafkalink.Config{
		Brokers: strings.Split(c.run.broker, ","), Topics: names, Canary: -1, Observe: c.oracle.applied,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return link
}

func (c *chaos) writeRules(moving int) {
	text := strings.ReplaceAll(chaosRules+runningRules, "MOVING", fmt.Sprint(moving))
	next := filepath.Join(c.dir, "next.yaml")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(next, c.rulesPath()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chaos) rulesPath() string { return filepath.Join(c.dir, "rules.yaml") }

// join adds an analyzer.
func (c *chaos) join() *chaosMember {
	m := c.small
	if m == nil || len(c.members) > 0 {
		m = &chaosMember{dir: filepath.Join(c.dir, fmt.Sprint("member-", len(c.members)))}
	}
	c.members = append(c.members, m)
	c.startMember(m)
	return m
}

func (c *chaos) startMember(m *chaosMember) {
	m.prog, m.url = c.run.analyze(c.t, m.dir, c.rulesPath(), 0)
}

// any returns one of the first two analyzers.
func (c *chaos) any() *chaosMember { return c.members[c.rnd.IntN(2)] }

// ready waits until all analyzers decide; at times nobody waits.
func (c *chaos) ready(ctx context.Context) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.dump()
		}
	}()
	processtest.Eventually(c.t, time.Minute, "analyzers ready", func() bool {
		for _, m := range c.members {
			if _, status := processtest.Get(ctx, m.url+"/readyz"); m.prog != nil && status != 200 {
				return false
			}
		}
		return true
	})
}

// dump prints the last that each analyzer said.
func (c *chaos) dump() {
	for _, m := range c.members {
		if m.prog != nil {
			output := m.prog.Text()
			c.t.Logf("%s, %s:\n…%s", time.Now().UTC().Format(time.TimeOnly), m.dir, output[max(0, len(output)-4000):])
		}
	}
}

func (c *chaos) maybeReady(ctx context.Context) {
	if c.rnd.IntN(3) > 0 {
		c.ready(ctx)
	}
}

// mountSmall mounts a small disk for the first analyzer, where that is allowed.
func (c *chaos) mountSmall() *chaosMember {
	dir := filepath.Join(c.dir, "member-0")
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", dir).CombinedOutput(); err != nil {
		c.t.Logf("no full disks: %v: %s", err, out)
		return nil
	}
	c.t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			c.t.Errorf("unmount: %v: %s", err, out)
		}
	})
	return &chaosMember{dir: dir}
}

// fill is row 15: the disk is full for a while. Decisions go on meanwhile, and no count is lost.
func (c *chaos) fill(ctx context.Context) {
	if c.small == nil {
		return
	}
	c.ready(ctx)
	path := filepath.Join(c.small.dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = io.Copy(f, zeros{}) // until there is no room
	if err = errors.Join(err, f.Close()); !errors.Is(err, syscall.ENOSPC) {
		c.t.Errorf("fill disk: got %v, want no space left", err)
	}
	c.pause(500, 2000)
	c.ready(ctx)
	c.pause(500, 2000)
	if err := os.Remove(path); err != nil {
		c.t.Fatal(err)
	}
	c.maybeReady(ctx)
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// kill is row 1.
func (c *chaos) kill(ctx context.Context) {
	m := c.any()
	m.prog.Kill()
	c.startMember(m)
	c.maybeReady(ctx)
}

// wipe is row 4.
func (c *chaos) wipe(ctx context.Context) {
	m := c.any()
	m.prog.Kill()
	if err := os.RemoveAll(filepath.Join(m.dir, "counts")); err != nil {
		c.t.Fatal(err)
	}
	c.startMember(m)
	c.maybeReady(ctx)
}

// churn is row 5: a third analyzer comes and goes every two seconds.
func (c *chaos) churn(context.Context) {
	m := c.join()
	for end := time.Now().Add(*chaosChurn); ; {
		c.pause(1500, 2500)
		if code := m.prog.Stop(syscall.SIGTERM); code != 0 {
			c.t.Errorf("SIGTERM: got exit code %d:\n%s", code, m.prog.Text())
		}
		m.prog = nil
		if time.Now().After(end) {
			return
		}
		c.pause(1500, 2500)
		c.startMember(m)
	}
}

// zombie is rows 6 and 22: an analyzer sleeps until another owns its partitions, then goes on where it was.
func (c *chaos) zombie(ctx context.Context) {
	c.ready(ctx)
	m := c.any()
	c.signal(m, syscall.SIGSTOP)
	time.Sleep(c.session + time.Second)
	c.pause(0, 1000)
	c.signal(m, syscall.SIGCONT)
	c.maybeReady(ctx)
}

func (c *chaos) signal(m *chaosMember, s os.Signal) {
	c.t.Helper()
	if err := m.prog.Cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// killBroker is row 9.
func (c *chaos) killBroker(ctx context.Context) {
	c.broker.Kill()
	c.pause(10, 500)
	c.broker = c.startBroker(c.run.broker)
	c.broker.WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	c.maybeReady(ctx)
}

// reload is row 28.
func (c *chaos) reload(context.Context) { c.writeRules(1_000_000 + c.rnd.IntN(1_000_000)) }

// rest waits until everything that was sent is counted, and stops the analyzers.
func (c *chaos) rest(ctx context.Context) {
	c.t.Helper()
	c.ready(ctx)
	processtest.Eventually(c.t, 3*time.Minute, "everything counted", func() bool {
		counted := make(map[string]bool)
		for _, m := range c.members {
			if m.prog == nil {
				continue
			}
			metrics, _ := processtest.Get(ctx, m.url+"/metrics")
			for line := range strings.Lines(metrics) {
				counted[strings.TrimSpace(line)] = true
			}
		}
		for p := range killPartitions {
			_, end, err := c.gen.client.Range(ctx, c.gen.topic, p)
			if err != nil || !counted[fmt.Sprintf(`floodgate_next_offset{partition="%d"} %v`, p, float64(end))] {
				return false
			}
		}
		return true
	})
	c.person.awaitApplied(ctx, c.t, c.urls()...)
	for _, m := range c.members {
		if m.prog == nil {
			continue
		}
		if code := m.prog.Stop(syscall.SIGTERM); code != 0 {
			c.t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, m.prog.Text())
		}
	}
}

func (c *chaos) compare(ctx context.Context) {
	c.t.Helper()
	set, err := rules.Load(c.rulesPath())
	if err != nil {
		c.t.Fatal(err)
	}
	var dirs []string
	for _, m := range c.members {
		dirs = append(dirs, filepath.Join(m.dir, "counts"))
	}
	c.t.Logf("%d kills, %d zombies, %d wipes, churn %v; %d entries sent, %d frames twice", *chaosKills, *chaosZombies, *chaosWipes, *chaosChurn, c.gen.entries, c.gen.duplicates)
	if levels := compareBest(c.t, c.gen.client, c.gen.topic, "floodgate.control"+c.run.suffix, set, dirs, c.gen.truth); levels != len(set.Pools()) {
		c.t.Errorf("got the levels of %d pools, want of all %d", levels, len(set.Pools()))
	}
	c.person.compare(c.t, set, dirs)
	c.oracle.readDecisions(ctx, c.t, c.gen.client, "floodgate.decisions"+c.run.suffix)
	c.oracle.verdict(c.t)
}
