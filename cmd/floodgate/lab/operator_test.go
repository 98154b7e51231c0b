//go:build lab

package lab

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// How much happens while an operator is at work. A short run is part of every go test, and the whole of CI (FLOODGATE_LONG=1).
var (
	operatorKills     = flag.Int("operator.kills", 20, "analyzers killed by kill -9 while an operator is at work")
	operatorHandOvers = flag.Int("operator.hand-overs", 20, "planned hand-overs while an operator is at work")
)

// idleCallers is how many callers an operator closes who send nothing.
const idleCallers = 40

// operator is a person who decides by hand all the time, about callers who send nothing, and about the rule "moving", which is in
// shadow mode. It keeps the truth.
type operator struct {
	foldtest.Operator

	writer *analyzer.ControlWriter

	mu    sync.Mutex
	given []schemas.Control // guarded by mu: acknowledged, in the order of the log
	last  int64             // guarded by mu: the offset of the newest
}

func newE2EOperator(client *kafkaio.Client, topic string, seed uint64) *operator {
	o := &operator{writer: analyzer.NewControlWriter(client, topic, nil), last: -1}
	o.Rnd, o.Rules, o.Fresh = rand.New(rand.NewPCG(seed, 77)), []string{"moving"}, true
	for i := range idleCallers {
		o.Callers = append(o.Callers, schemas.Caller{Kind: "key", ID: fmt.Sprint("by-hand-", i)})
	}
	for i := range 10 {
		o.Callers = append(o.Callers, schemas.Caller{Kind: "key", ID: fmt.Sprintf("caller-%04d", i)})
	}
	return o
}

// act writes one decision, for an hour, and takes note of it once it is acknowledged.
func (o *operator) act(ctx context.Context) error {
	c := o.Decide(time.Now().UnixNano())
	if c.Action == schemas.ControlMode && o.Rnd.IntN(4) > 0 { // no more may be in force than override.MaxModes
		c.Action = schemas.ControlReset
	}
	c.Until = c.Time + int64(time.Hour)
	switch c.Action {
	case schemas.ControlClose:
		c.Caller = o.Callers[o.Rnd.IntN(idleCallers)] // nobody who sends anything
	case schemas.ControlOpen, schemas.ControlReset, schemas.ControlMode:
		c.Rule = "moving" // what the other rules count and close is judged
	case schemas.ControlLimit, schemas.ControlUndo, schemas.ControlRules:
	}
	offset, err := o.writer.Append(ctx, &c)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.given, o.last = append(o.given, c), offset
	return nil
}

// work decides until ctx ends.
func (o *operator) work(ctx, until context.Context) {
	for until.Err() == nil {
		_ = o.act(ctx) // what is not acknowledged need not hold
		time.Sleep(50 * time.Millisecond)
	}
}

// awaitApplied waits until the analyzers at these addresses have applied all that was acknowledged, in all partitions.
func (o *operator) awaitApplied(ctx context.Context, t *testing.T, urls ...string) {
	t.Helper()
	o.mu.Lock()
	last := o.last
	o.mu.Unlock()
	processtest.Eventually(t, time.Minute, "what was decided by hand applied", func() bool {
		applied := 0
		for _, url := range urls {
			var status struct{ Partitions []struct{ Control int64 } }
			text, _ := processtest.Get(ctx, url+"/status")
			if err := json.Unmarshal([]byte(text), &status); err != nil {
				return false
			}
			for _, p := range status.Partitions {
				if p.Control > last {
					applied++
				}
			}
		}
		return applied == killPartitions
	})
}

// compare wants that the best stores remember each record that was acknowledged exactly once, and undone where it was: those about a
// caller in its partition, and those about all in each.
func (o *operator) compare(t *testing.T, set *rules.Set, dirs []string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	type memory struct{ times, undone int }
	got := make(map[schemas.ControlID]memory)
	for _, dir := range bestStores(t, set, dirs) {
		f, _, err := analyzer.Inspect(dir, set, fold.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for m := range f.View().Records().All(0) {
			n := got[m.ID]
			n.times++
			if m.Undone() {
				n.undone++
			}
			got[m.ID] = n
		}
	}
	undone := make(map[schemas.ControlID]bool)
	for i := range o.given {
		if c := &o.given[i]; c.Action == schemas.ControlUndo {
			undone[c.Target] = true
		}
	}
	wrong, remembered := 0, 0
	for i := range o.given {
		c, want := &o.given[i], memory{times: 1}
		switch c.Action {
		case schemas.ControlUndo, schemas.ControlRules:
			want.times = 0
		case schemas.ControlMode:
			want.times = killPartitions
		case schemas.ControlClose, schemas.ControlOpen, schemas.ControlLimit, schemas.ControlReset:
		}
		if undone[c.ID] && c.Action != schemas.ControlReset {
			want.undone = want.times
		}
		remembered += want.times
		if got[c.ID] != want {
			wrong++
			t.Errorf("%s %s of %s: got it %d times and undone %d times, want %+v", c.Action, c.ID, c.Caller, got[c.ID].times, got[c.ID].undone, want)
		}
	}
	if wrong > 0 || remembered == 0 {
		t.Errorf("got %d of %d control records wrong, and want some", wrong, len(o.given))
	}
	t.Logf("%d control records acknowledged, each in force exactly once", len(o.given))
}

// TestAnOperatorAtWork kills analyzers and lets others take over, under load, while a person decides by hand all the time.
func TestAnOperatorAtWork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	c := &chaos{t: t, dir: t.TempDir(), session: 2 * time.Second}
	c.broker = c.startBroker("127.0.0.1:0")
	c.run = killRun{broker: c.broker.WaitFor(`serving Kafka on (\S+)`, 10*time.Second), session: "2s"}
	c.onlyOwners = true
	c.unleash(0)
}

// TestAnOperatorAtWorkOnApacheKafka is the same on the real broker.
func TestAnOperatorAtWorkOnApacheKafka(t *testing.T) {
	broker := os.Getenv("FLOODGATE_KAFKA")
	if broker == "" {
		t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
	}
	c := &chaos{t: t, dir: t.TempDir(), session: 6 * time.Second, onlyOwners: true}
	c.run = killRun{broker: broker, suffix: fmt.Sprintf(".operator-%x", rand.Uint64()), session: "6s"}
	c.unleash(0)
}

// closesSomebody reports whether anybody has reached the limit.
func (o *oracle) closesSomebody() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range o.closeAt {
		if at > 0 {
			return true
		}
	}
	return false
}

// handOver stops an analyzer as people do, and starts it again when another one has its partitions.
func (c *chaos) handOver(ctx context.Context) {
	c.ready(ctx)
	m := c.any()
	if code := m.prog.Stop(syscall.SIGTERM); code != 0 {
		c.t.Errorf("SIGTERM: got exit code %d:\n%s", code, m.prog.Text())
	}
	m.prog = nil
	c.maybeReady(ctx)
	c.startMember(m)
	c.maybeReady(ctx)
}

// kills returns as many kills and hand-overs as the flags say, in a random order.
func (c *chaos) kills() (list []fault) {
	for range *operatorKills {
		list = append(list, fault{"kill -9", c.kill})
	}
	for range *operatorHandOvers {
		list = append(list, fault{"hand-over", c.handOver})
	}
	c.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// urls returns the addresses of the analyzers that run.
func (c *chaos) urls() (list []string) {
	for _, m := range c.members {
		if m.prog != nil {
			list = append(list, m.url)
		}
	}
	return list
}
