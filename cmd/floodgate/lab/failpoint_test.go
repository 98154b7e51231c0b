//go:build lab

package lab

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// How often analyzers die where it is worst. Once at each point is part of every go test; fault rows 2 and 3 in full are
//
//	go test -tags lab ./cmd/floodgate/lab -run 'TestKillAt|TestKillWhile' -timeout 2h -v -failpoint.rounds 20 -failpoint.restores 50
var (
	failpointRounds   = flag.Int("failpoint.rounds", 1, "how often an analyzer dies at each failpoint")
	failpointRestores = flag.Int("failpoint.restores", 4, "analyzers killed while they restore")
	failpointSeed     = flag.Uint64("failpoint.seed", 0, "when and in which order; 0 is a random one")
)

const quota = 20_000

// failpointRules count everything, close some for good, and have a limit that changes. What the oracle judges to the
// nanosecond is in shadow mode, so that a gate is closed by the quota alone.
const failpointRules = `
version: 1
rules:
  - {name: all, callers: key, limit: 1000000000000, window: 8760h, algorithm: fixed, count_blocked: true}
  - {name: per-key, callers: key, limit: 900, window: 5s, algorithm: fixed, mode: shadow}
  - {name: quota, callers: key, limit: 20000, window: 8760h, algorithm: fixed}
  - {name: moving, callers: key, limit: MOVING, window: 1h, mode: shadow}
`

// victim is an analyzer that dies again and again, with its topics, its load and the truth.
type victim struct {
	binary string // built to crash where it is told to
	dir    string
	run    killRun
	lives  int
	rnd    *rand.Rand
	gen    *generator
	oracle *oracle
	person *operator
	set    *gate.Set // of a server that follows the decisions throughout

	mu     sync.Mutex
	weight map[string]int64 // guarded by mu: what counts towards the quota
}

// failing builds the program that crashes where it is told to, and starts a broker.
func failing(t *testing.T) (binary, broker string, seed uint64) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	binary = built(t, failpoints)
	if seed = *failpointSeed; seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: go test -tags lab ./cmd/floodgate/lab -run '%s' -failpoint.seed %d", seed, t.Name(), seed)
	broker = start(t, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "log"), "--min-session-timeout", "1s").
		WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	return binary, broker, seed
}

// newVictim returns one that has lived for a while.
func newVictim(t *testing.T, binary, broker string, seed uint64, name string) *victim {
	t.Helper()
	v := &victim{
		binary: binary, dir: t.TempDir(), run: killRun{broker: broker, suffix: "." + name, session: "2s"},
		rnd: rand.New(rand.NewPCG(seed, numbered(name))), oracle: newOracle(), weight: make(map[string]int64),
	}
	v.gen = newGenerator(t, broker, v.names().Requests, v.rnd.Uint64())
	v.gen.sent, v.gen.responds = v.sent, true
	v.person = newE2EOperator(v.gen.client, v.names().Control, v.rnd.Uint64())
	for p, ids := range v.gen.names { // three of four entries are of one caller
		v.gen.names[p] = append(ids, slices.Repeat(ids[:1], 3*len(ids))...)
	}
	v.writeRules(t, 1_000_000)
	if _, err := v.gen.client.EnsureTopics(t.Context(), kafkaio.Specs(v.names(), killPartitions)...); err != nil {
		t.Fatal(err)
	}
	v.set = v.follow(t, v.oracle.applied)
	if name == "large" {
		v.preload(t)
	}
	for range 50 { // by then that one has spent the quota
		v.gen.send(t.Context())
	}
	return v
}

// numbered makes a number of a name.
func numbered(name string) (n uint64) {
	for _, b := range []byte(name) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (v *victim) names() schemas.TopicNames {
	return schemas.TopicNames{
		Requests: "floodgate.requests" + v.run.suffix, Decisions: "floodgate.decisions" + v.run.suffix, State: "floodgate.state" + v.run.suffix,
		Rejects: "floodgate.rejects" + v.run.suffix, Control: "floodgate.control" + v.run.suffix,
	}
}

// sent takes note of an entry. Until it closes, a rule in shadow mode counts what the gates of others blocked.
func (v *victim) sent(e *schemas.Entry) {
	all := *e
	all.Blocked = false
	v.oracle.sent(&all)
	if !e.Blocked {
		v.mu.Lock()
		v.weight[e.ID] += int64(e.Count)
		v.mu.Unlock()
	}
}

// follow is a server's gate from now until the test ends.
func (v *victim) follow(t *testing.T, observe func(schemas.Decision, time.Time)) *gate.Set {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	set := gate.New(gate.Options{Logger: quiet})
	link, err := kafkalink.Open(set, record.New(record.Options{}), kafkalink.Config{
		Brokers: []string{v.run.broker}, Topics: v.names(), Canary: -1, Observe: observe, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	return set
}

// preload sends so many callers of one partition that their rows don't fit one transaction.
func (v *victim) preload(t *testing.T) {
	t.Helper()
	const callers, frame = 12_000, 1000
	var entries []schemas.Entry
	for i := 0; len(entries) < callers; i++ {
		id := fmt.Sprintf("one-of-many-%05d", i)
		if schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), killPartitions) == 0 {
			entries = append(entries, schemas.Entry{Kind: "key", ID: id, Count: 1})
		}
	}
	for some := range slices.Chunk(entries, frame) {
		now := time.Now().UnixNano()
		for i := range some {
			some[i].Time = now
			v.gen.truth[some[i].ID]++
			v.sent(&some[i])
		}
		v.gen.seq[0]++
		f := schemas.Frame{
			Producer: v.gen.producer, Seq: v.gen.seq[0], Flushed: now, Partitions: killPartitions,
			Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: some,
		}
		value, err := f.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		v.gen.produce(t.Context(), 0, kafkaio.Message{Time: now, Value: value})
	}
}

func (v *victim) rulesPath() string { return filepath.Join(v.dir, "rules.yaml") }
func (v *victim) counts() string    { return filepath.Join(v.dir, "counts") }

func (v *victim) writeRules(t *testing.T, moving int) {
	t.Helper()
	next := filepath.Join(v.dir, "next.yaml")
	if err := os.WriteFile(next, []byte(strings.ReplaceAll(failpointRules+runningRules, "MOVING", fmt.Sprint(moving))), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, v.rulesPath()); err != nil {
		t.Fatal(err)
	}
}

// start begins another life, that ends as planned. It is in a group of its own, so that it need not wait for the session of
// the one before.
func (v *victim) start(t *testing.T, plan failpoint.Plan) (*processtest.Program, string) {
	t.Helper()
	v.lives++
	cmd := exec.Command(v.binary, append(v.run.args(v.dir, v.rulesPath(), v.lives), "--snapshot", "1s")...)
	cmd.Env = append(os.Environ(), failpoint.Variable+"="+plan.String())
	p := startCommand(t, cmd)
	return p, "http://" + p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
}

// circumstance is what it takes to come to a point.
type circumstance struct {
	before  func(t *testing.T)                         // called before the analyzer starts, unless nil
	ready   func(t *testing.T, p *processtest.Program) // called once it decides, unless nil
	minimum int                                        // the point is passed at least so often
}

// circumstances returns those of a point.
func (v *victim) circumstances(p failpoint.Point) circumstance {
	c := circumstance{minimum: killPartitions}
	switch p {
	case failpoint.Quarantined:
		c.before = v.breakStores
	case failpoint.SnapshotChosen, failpoint.SnapshotRestored:
		c.before = v.wipe
	case failpoint.RowRestored:
		c.before, c.minimum = v.wipe, 1000
	case failpoint.PartCommits:
		c.before, c.minimum = v.wipe, 1
	case failpoint.Opened, failpoint.ClaimAppended, failpoint.Claimed, failpoint.Restored, failpoint.Reconciled, failpoint.CycleRepeated:
		c.before = v.maybeWipe
	case failpoint.BatchRefolded:
		c.before = v.fallBehind
	case failpoint.Fetched, failpoint.RecordFolded, failpoint.BatchFolded:
		c.minimum = 30
	case failpoint.Published, failpoint.CommitBegins, failpoint.InsideCommit, failpoint.CommitEnds:
		c.minimum = 12
	case failpoint.RulesNoted:
		c.ready, c.minimum = v.reload, 1
	case failpoint.TakeAppended:
		c.before = v.maybeWipe
	case failpoint.PlaceAppended, failpoint.PlaceRead, failpoint.PlaceApplied:
		c.before = v.maybeWipe
		c.minimum = 1
	case failpoint.Draining, failpoint.Drained:
		c.ready = func(t *testing.T, p *processtest.Program) { t.Helper(); send(t, p, syscall.SIGTERM) }
	}
	return c
}

// decide lets a person decide something by hand.
func (v *victim) decide(t *testing.T) {
	t.Helper()
	if err := v.person.act(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func send(t *testing.T, p *processtest.Program, s os.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		t.Errorf("%v: %v", s, err)
	}
}

func (v *victim) wipe(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(v.counts()); err != nil {
		t.Fatal(err)
	}
}

func (v *victim) maybeWipe(t *testing.T) {
	t.Helper()
	if v.rnd.IntN(2) == 0 {
		v.wipe(t)
	}
}

// breakStores sees to it that no store can be opened.
func (v *victim) breakStores(t *testing.T) {
	t.Helper()
	for p := range killPartitions {
		dir := filepath.Join(v.counts(), fmt.Sprint(p))
		if err := os.MkdirAll(dir, 0o700); err != nil { // it may have been moved aside
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "MANIFEST"), []byte("no manifest"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fallBehind makes a backlog.
func (v *victim) fallBehind(t *testing.T) {
	t.Helper()
	v.maybeWipe(t)
	for range 5 {
		v.gen.send(t.Context())
	}
}

func (v *victim) reload(t *testing.T, p *processtest.Program) {
	t.Helper()
	v.mu.Lock()
	minimum := 2 * v.weight[v.gen.names[0][0]] // about half of the changes close or open those who send much
	v.mu.Unlock()
	v.writeRules(t, 1+v.rnd.IntN(int(minimum)))
	send(t, p, syscall.SIGHUP)
}

// die starts an analyzer under load, and sees to it that it dies at the point and nowhere else.
func (v *victim) die(t *testing.T, point failpoint.Point) {
	t.Helper()
	c := v.circumstances(point)
	plan := failpoint.Plan{Point: point, Nth: 1 + v.rnd.IntN(c.minimum)}
	if c.before != nil {
		c.before(t)
	}
	ends := v.ends(t)
	p, url := v.start(t, plan)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for dead := false; !dead; {
		v.gen.send(t.Context())
		v.decide(t)
		if c.ready != nil {
			if _, status := processtest.Get(t.Context(), url+"/readyz"); status == 200 {
				c.ready(t, p)
				c.ready = nil
			}
		}
		select {
		case <-p.Exited:
			dead = true
		case <-tick.C:
		case <-late:
			t.Fatalf("%v was not reached:\n%s", plan, p.Text())
		}
	}
	output := p.Text()
	if s, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGKILL || !strings.Contains(output, plan.Reached()) {
		t.Fatalf("%v: got %v, want it killed where it says:\n%s", plan, p.Cmd.ProcessState, output)
	}
	v.wantSilence(t, plan, ends, output)
}

// ends returns the ends of the decisions.
func (v *victim) ends(t *testing.T) (ends [killPartitions]int64) {
	t.Helper()
	for p := range ends {
		_, end, err := v.gen.client.Range(t.Context(), v.names().Decisions, p)
		if err != nil {
			t.Fatal(err)
		}
		ends[p] = end
	}
	return ends
}

// announced reports whether a heartbeat behind these ends has announced a snapshot of each partition: others are not started from while
// the log has all. It moves the ends on.
func (v *victim) announced(t *testing.T, ends *[killPartitions]int64) bool {
	t.Helper()
	for p := range ends {
		for ends[p] >= 0 {
			b, err := v.gen.client.Fetch(t.Context(), kafkaio.FetchRequest{Topic: v.names().Decisions, Partition: p, Offset: ends[p], MaxWait: -1, MaxBytes: 1 << 20})
			if err != nil || b.Next == ends[p] {
				return false
			}
			ends[p] = b.Next
			for i := range b.Records {
				if r, err := pb.Decode(b.Records[i].Value); err == nil && r.Heartbeat != nil && r.Heartbeat.State > 0 {
					ends[p] = -1 // it is announced
				}
			}
		}
	}
	return true
}

// wantSilence checks that an owner has published nothing but its claim unless it says that it reconciles. Of the owners of
// one who died before it ran, there is one at least of which no decision is there.
func (v *victim) wantSilence(t *testing.T, plan failpoint.Plan, from [killPartitions]int64, output string) {
	t.Helper()
	silent := 0
	to := v.ends(t)
	for p := range from {
		published := 0
		for next := from[p]; next < to[p]; {
			b, err := v.gen.client.Fetch(t.Context(), kafkaio.FetchRequest{Topic: v.names().Decisions, Partition: p, Offset: next, MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range b.Records {
				if rec, err := pb.Decode(r.Value); err != nil || rec.Claim == nil {
					published++
				}
			}
			next = b.Next
		}
		switch {
		case !strings.Contains(output, fmt.Sprintf("partition=%d state=reconciling", p)):
			if published > 0 {
				t.Errorf("%v: partition %d: got %d records published before it reconciled, want none:\n%s", plan, p, published, output)
			}
			silent++
		case published == 0:
			silent++
		}
	}
	if plan.Point.Restoring() && silent == 0 {
		t.Errorf("%v: got decisions of each partition, want none of the one that died", plan)
	}
}

// recover starts an analyzer that doesn't die, waits until it has counted everything and told it, and compares.
func (v *victim) recover(t *testing.T) {
	t.Helper()
	ends := v.ends(t)
	p, url := v.start(t, failpoint.Plan{})
	v.gen.send(t.Context())
	v.decide(t)
	awaitCaughtUp(t.Context(), t, v.gen.client, url, v.gen.topic)
	v.person.awaitApplied(t.Context(), t, url)
	processtest.Eventually(t, 30*time.Second, "a snapshot of each partition", func() bool {
		metrics, _ := processtest.Get(t.Context(), url+"/metrics")
		return strings.Count(metrics, "\nfloodgate_snapshots_total{") == killPartitions &&
			!matches(`\nfloodgate_snapshots_total\{[^}]*\} 0\n`, metrics) && v.announced(t, &ends)
	})
	processtest.Eventually(t, 30*time.Second, "those who spent their quota closed, and nobody else", func() bool { return v.wrongly(v.set) == "" })
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, p.Text())
	}
	v.compare(t)
	if t.Failed() {
		t.Logf("it said:\n%s", p.Text())
	}
}

func (v *victim) compare(t *testing.T) {
	t.Helper()
	defer noForks()()
	compareStores(t, v.counts(), v.gen.truth)
}

// noForks keeps other lanes from starting processes while this one has stores open: a child holds their locks until it has
// become another program.
func noForks() (end func()) {
	syscall.ForkLock.RLock()
	return syscall.ForkLock.RUnlock
}

// wrongly returns a caller about whom the gate is wrong, or nobody.
func (v *victim) wrongly(set *gate.Set) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	keys := set.Gate("key")
	for id, n := range v.weight {
		if keys.Closed(id) != (n >= quota) {
			return id
		}
	}
	return ""
}

// rest is the end: all that was ever decided is judged, and the stores are audited.
func (v *victim) rest(t *testing.T) {
	t.Helper()
	set, err := rules.Load(v.rulesPath())
	if err != nil {
		t.Fatal(err)
	}
	late := v.follow(t, nil)
	processtest.Eventually(t, 30*time.Second, "a gate that starts now agrees", func() bool { return v.wrongly(late) == "" })
	over := 0
	for _, n := range v.weight {
		if n >= quota {
			over++
		}
	}
	if over == 0 || over == len(v.weight) {
		t.Errorf("quota: got %d of %d callers over it, want some", over, len(v.weight))
	}
	defer noForks()()
	v.person.compare(t, set, []string{v.counts()})
	compareBest(t, v.gen.client, v.gen.topic, v.names().Control, set, []string{v.counts()}, v.gen.truth)
	v.oracle.readDecisions(t.Context(), t, v.gen.client, v.names().Decisions)
	v.oracle.verdict(t)
	t.Logf("%d lives, %d entries sent, %d of %d callers closed for good", v.lives, v.gen.entries, over, len(v.weight))
}

// TestKillAtEveryPoint is fault row 2: an analyzer dies at each point that has a name, in an order of the seed's. After
// each death another one starts, and its counts are exact to the unit, whoever has spent a quota is closed, and nobody
// else is. In the end, no decision ever made was wrong.
func TestKillAtEveryPoint(t *testing.T) {
	binary, broker, seed := failing(t)
	lanes := map[string][]failpoint.Point{"large": {failpoint.PartCommits}}
	for i, p := range failpoint.All() {
		if p != failpoint.PartCommits {
			name := fmt.Sprint("lane-", i%3)
			lanes[name] = append(lanes[name], p)
		}
	}
	for name, points := range lanes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, binary, broker, seed, name)
			v.recover(t)
			for range *failpointRounds {
				v.rnd.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
				for _, p := range points {
					if !t.Run(p.String(), func(t *testing.T) { v.gen.t = t; v.die(t, p); v.recover(t) }) {
						t.FailNow() // what comes after would only be wrong for the same reason
					}
				}
			}
			v.rest(t)
		})
	}
}

// TestKillWhileRestoring is fault row 3: analyzers die on their way from a store, a snapshot or the log, several in a row,
// and none of them has published anything.
func TestKillWhileRestoring(t *testing.T) {
	binary, broker, seed := failing(t)
	t.Parallel()
	v := newVictim(t, binary, broker, seed, "restoring")
	v.recover(t)
	points := slices.DeleteFunc(failpoint.All(), func(p failpoint.Point) bool { return !p.Restoring() })
	for done := 0; done < *failpointRestores; {
		for range min(1+v.rnd.IntN(3), *failpointRestores-done) {
			point := points[v.rnd.IntN(len(points))]
			if point == failpoint.Verifying {
				v.recover(t) // it takes a store
			}
			v.die(t, point)
			done++
		}
		v.recover(t)
	}
	v.rest(t)
}
