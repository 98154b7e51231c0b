//go:build lab

package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// oracle knows what the generator sent, and so who may be closed, when, and what the stores must hold.
type oracle struct {
	mu       sync.Mutex
	weight   map[windowKey]int64             // guarded by mu: what counts under the rule that closes
	closeAt  map[windowKey]int64             // guarded by mu: when the limit was reached
	observed map[decisionID]schemas.Decision // guarded by mu: what a gate has applied
	epochs   [killPartitions]uint64          // guarded by mu: the newest that the gate has applied
	wrong    []string                        // guarded by mu
	zombies  map[decisionID]bool             // what every reader must refuse
	accepted map[decisionID]schemas.Decision // by the log and the fence alone
}

// windowKey is a caller in one window.
type windowKey struct {
	id    string
	index int64
}

// decisionID is one decision as its writer numbered it.
type decisionID struct {
	partition  int32
	epoch, seq uint64
}

func newOracle() *oracle {
	return &oracle{
		weight: make(map[windowKey]int64), closeAt: make(map[windowKey]int64), observed: make(map[decisionID]schemas.Decision),
		zombies: make(map[decisionID]bool), accepted: make(map[decisionID]schemas.Decision),
	}
}

// sent takes note of an entry before it is sent.
func (o *oracle) sent(e *schemas.Entry) {
	if e.Blocked {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	w := windowKey{e.ID, e.Time / int64(chaosWindow)}
	o.weight[w] += int64(e.Count)
	if o.weight[w] >= chaosLimit && o.closeAt[w] == 0 {
		o.closeAt[w] = e.Time
	}
}

// applied is what a gate has just applied: nothing of an owner that was replaced, and nobody innocent closed.
func (o *oracle) applied(d schemas.Decision, _ time.Time) {
	if d.Caller.Kind == schemas.KindCanary {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.Epoch < o.epochs[d.Partition] {
		o.wrong = append(o.wrong, fmt.Sprintf("gate applied epoch %d of partition %d after epoch %d", d.Epoch, d.Partition, o.epochs[d.Partition]))
	}
	o.epochs[d.Partition] = d.Epoch
	o.observed[decisionID{d.Partition, d.Epoch, d.Seq}] = d
	o.judge("gate", &d)
}

// judge wants a closure to be of somebody who reached the limit, from that very request to the window's end. o.mu is held.
func (o *oracle) judge(who string, d *schemas.Decision) {
	if d.Rule != "per-key" || d.Until <= d.CloseAt {
		return
	}
	w := windowKey{d.Caller.ID, d.CloseAt / int64(chaosWindow)}
	if want := o.closeAt[w]; want != d.CloseAt || d.Until != (w.index+1)*int64(chaosWindow) {
		o.wrong = append(o.wrong, fmt.Sprintf("%s: %s closed from %d to %d with %d of %d counted, want from %d", who, d.Caller, d.CloseAt, d.Until, o.weight[w], chaosLimit, want))
	}
}

// readDecisions reads all that was ever decided as a gate would, and judges it.
func (o *oracle) readDecisions(ctx context.Context, t *testing.T, client *kafkaio.Client, topic string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for p := range killPartitions {
		var fence schemas.Fence
		next, end, err := client.Range(ctx, topic, p)
		for err == nil && next < end {
			var b kafkaio.Batch
			if b, err = client.Fetch(ctx, kafkaio.FetchRequest{Topic: topic, Partition: p, Offset: next, MaxBytes: 4 << 20}); err != nil {
				break
			}
			for _, rec := range b.Records {
				o.read(t, &fence, rec.Value)
			}
			next = b.Next
		}
		if err != nil {
			t.Fatalf("read decisions: %v", err)
		}
	}
}

func (o *oracle) read(t *testing.T, fence *schemas.Fence, value []byte) {
	t.Helper()
	r, err := pb.Decode(value)
	switch {
	case err != nil:
		t.Fatalf("read decisions: %v", err)
	case r.Claim != nil:
		fence.Claim(r.Claim.Epoch)
		return
	case r.Heartbeat != nil:
		fence.Heartbeat(r.Heartbeat.Epoch, r.Heartbeat.Seq)
		return
	}
	d := r.Decision
	if d.Caller.Kind == schemas.KindCanary {
		return
	}
	id := decisionID{d.Partition, d.Epoch, d.Seq}
	switch {
	case fence.Decision(d.Epoch, d.Seq):
		o.accepted[id] = *d
		o.judge("log", d)
	case d.Epoch < fence.Epoch:
		if _, before := o.accepted[id]; !before {
			o.zombies[id] = true
		}
	}
}

// verdict fails the test for everything that went wrong.
func (o *oracle) verdict(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.zombies {
		if _, applied := o.observed[id]; applied {
			o.wrong = append(o.wrong, fmt.Sprintf("a gate applied %+v, whose writer had been replaced", id))
		}
	}
	for i, w := range o.wrong {
		if i == 20 {
			t.Errorf("… and %d more", len(o.wrong)-i)
			break
		}
		t.Error(w)
	}
	innocents := 0
	for w := range o.weight {
		if o.closeAt[w] == 0 {
			innocents++
		}
	}
	t.Logf("%d windows, %d of them innocent, %d decisions accepted, %d of replaced owners refused, %d applied by a gate, %d violations",
		len(o.weight), innocents, len(o.accepted), len(o.zombies), len(o.observed), len(o.wrong))
	if len(o.accepted) == 0 || len(o.observed) == 0 || innocents == 0 || innocents == len(o.weight) {
		t.Error("want decisions, and callers both over and under the limit: otherwise nothing was tried")
	}
}

// bestStores returns, of the stores of each partition below the given directories, the one that has counted furthest; of several, the
// one of the newest owner: a replaced one may have applied control records at places that do not count.
func bestStores(t *testing.T, set *rules.Set, dirs []string) map[int]string {
	t.Helper()
	best, at := make(map[int]string), make(map[int]store.Checkpoint)
	for _, dir := range dirs {
		partitions := openStores(t, dir, set)
		for _, sp := range partitions {
			b := at[sp.number]
			if best[sp.number] == "" || sp.at.Next > b.Next || sp.at.Next == b.Next && sp.at.Epoch > b.Epoch {
				best[sp.number], at[sp.number] = filepath.Join(dir, strconv.Itoa(sp.number)), sp.at
			}
		}
	}
	return best
}

// compareBest wants the best stores to hold the truth, to the unit, and to be what the log says. It returns how many pools have had a level.
func compareBest(t *testing.T, client *kafkaio.Client, topic, control string, set *rules.Set, dirs []string, truth map[string]int64) (levels int) {
	t.Helper()
	held := make(map[string]int64)
	rows := 0
	for p, dir := range bestStores(t, set, dirs) {
		f, _, err := analyzer.Inspect(dir, set, fold.Options{Partition: p, Partitions: killPartitions})
		if err != nil {
			t.Fatal(err)
		}
		f.View().Rows(f.LogTime(), func(r fold.Row) bool {
			if r.Rule.Name == "all" {
				held[r.ID] += r.Total
			}
			return true
		})
		for _, of := range f.Stats().Pools {
			levels += int(min(of.Level.Quarter, 1))
		}
		report, err := audit.Run(t.Context(), client, audit.Config{
			Fold: fold.Options{Partition: p, Partitions: killPartitions}, Requests: topic, Control: control, Dir: dir, Rules: set,
		})
		if err != nil || !report.Exact() || report.Approximate() || len(report.Unaudited) > 0 {
			t.Errorf("audit of partition %d: %v, differences %+v, %d rows unaudited, control lost: %v, damage %v",
				p, err, report.Differences, len(report.Unaudited), report.LostControls, report.Damage)
		}
		rows += report.Agreed
	}
	for id, want := range truth {
		if held[id] != want {
			t.Errorf("%s: got %d in the store, want %d as generated", id, held[id], want)
		}
	}
	if len(held) != len(truth) {
		t.Errorf("store: got %d callers, want the %d that were sent", len(held), len(truth))
	}
	t.Logf("%d callers counted to the unit, %d rows audited, levels of %d pools", len(held), rows, levels)
	return levels
}
