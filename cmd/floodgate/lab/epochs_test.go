//go:build lab

package lab

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// TestAClaimOfTheLastEpochStopsNobody: somebody who may write to the topic of decisions announces the last epoch there is.
// Nothing has to be mended: the analyzer and the gate go on, also after each has started anew.
func TestAClaimOfTheLastEpochStopsNobody(t *testing.T) {
	t.Parallel()
	h := newHostile(t, processtest.Rules("5"))
	h.write(
		pb.Record{Claim: &schemas.Claim{Epoch: math.MaxUint64, Nonce: 1, Owner: "a vandal"}},
		pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: math.MaxUint64, Seq: math.MaxUint64, From: 1 << 40}})
	h.Send("first", 5)
	processtest.Eventually(t, 20*time.Second, "closed by the owner that ran", func() bool { return h.closed("first") })
	h.Analyzer.Kill()
	h.Start()
	h.Send("second", 5)
	processtest.Eventually(t, 20*time.Second, "closed by the next owner", func() bool { return h.closed("second") })
	if n := h.link.Stats().Refused["epoch"]; n != 2 {
		t.Errorf("got %d refused for their epoch, want 2", n)
	}
	out, err := runCommand("topics", "--brokers", h.Broker, "--repair-epochs")
	if err != nil || !strings.Contains(out, "1 partitions, 0 taken back") {
		t.Errorf("got %v,\n%s\nwant nothing to repair", err, out)
	}
}

// TestTopicsRepairEpochs: while no analyzer runs, an attacker claims a high epoch and hides the claim behind many heartbeats
// whose cycle begins long after it, so that an owner that starts does not look there. Gates have seen the claim, and refuse the
// owner. The command takes the partition back while both run.
func TestTopicsRepairEpochs(t *testing.T) {
	t.Parallel()
	h := newHostile(t, processtest.Rules("5"))
	h.Analyzer.Kill()
	high := uint64(time.Now().AddDate(50, 0, 0).UnixMilli())
	claim := h.write(pb.Record{Claim: &schemas.Claim{Epoch: high, Nonce: 1, Owner: "a \x1b[31mvandal"}})
	from := claim + 1
	for batch := range 3 { // the cycle of the last ones begins so long after the claim that Find stops before it
		var hiding []pb.Record
		for i := range 400 {
			hiding = append(hiding, pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: 1, Seq: uint64(400*batch + i + 1), From: from}})
		}
		from = h.write(hiding...) + int64(len(hiding))
	}
	h.Start()
	h.Send("bad", 5)
	processtest.Eventually(t, 20*time.Second, "the gate refuses the owner", func() bool {
		return h.epoch() < high && h.link.Stats().Refused["fenced"] > 1200
	})
	if h.closed("bad") {
		t.Error("got closed by an owner of a lower epoch")
	}
	out, err := runCommand("topics", "--brokers", h.Broker, "--repair-epochs", "--output", "json")
	if want := fmt.Sprintf(`"by":"a \u001b[31mvandal","claimed":%d,"highest":%d,`, high+1, high); err != nil || !strings.Contains(out, want) || !strings.Contains(out, `"repaired":1`) {
		t.Fatalf("got %v,\n%s\nwant %s", err, out, want)
	}
	processtest.Eventually(t, 20*time.Second, "closed by the owner, under a higher epoch", func() bool { return h.closed("bad") && h.epoch() > high+1 })
	out, err = runCommand("topics", "--brokers", h.Broker, "--repair-epochs")
	if err != nil || !strings.Contains(out, "1 partitions, 0 taken back") {
		t.Errorf("once more: got %v,\n%s\nwant nothing to repair", err, out)
	}
}

// TestAHiddenClaimIsFound: the heartbeats that hide a claim say that their cycle began before it. An owner that starts reads
// from where their cycle began, finds the claim, and takes a higher epoch by itself.
func TestAHiddenClaimIsFound(t *testing.T) {
	t.Parallel()
	h := newHostile(t, processtest.Rules("5"))
	h.Analyzer.Kill()
	high := uint64(time.Now().AddDate(50, 0, 0).UnixMilli())
	h.write(pb.Record{Claim: &schemas.Claim{Epoch: high, Nonce: 1, Owner: "a vandal"}})
	for range 3 {
		var hiding []pb.Record
		for i := range 400 {
			hiding = append(hiding, pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: 1, Seq: uint64(i)}})
		}
		h.write(hiding...)
	}
	h.Start()
	h.Send("bad", 5)
	processtest.Eventually(t, 20*time.Second, "closed by an owner of a higher epoch", func() bool { return h.closed("bad") && h.epoch() > high })
}
