package main

import (
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestDecisionsPrintsWhatIsInForce runs an analyzer, closes a caller, and asks the topic, also after the analyzer has stopped.
func TestDecisionsPrintsWhatIsInForce(t *testing.T) {
	testenv.Long(t) // heartbeats that grow stale
	t.Parallel()
	b := serveKafka(t, embedded.Options{MinSession: time.Second})
	a, url := beginAnalyze(t, b.Addr(), t.TempDir())
	processtest.AwaitReady(t, url, 200, "ok")
	watch := begin(t, "decisions", "--brokers", b.Addr(), "--watch")
	watch.WaitFor("0 closures in force, of 2 partitions(;|$)", 30*time.Second) // a slow machine may not have heard of the owners in time
	noisy := "noisy\x1b[2J"
	for seq := range uint64(6) {
		sendTo(t, b.Addr(), noisy, 2, seq+1)
	}
	watch.WaitFor(`closed +key:noisy\\x1b\[2J by r until .*: \d+ of 5 in`, 20*time.Second)
	out, err := runCommand("decisions", "--brokers", b.Addr())
	if err != nil || !matches(`\| key:noisy\\x1b\[2J +\| r +\| enforce`, out) || !strings.Contains(out, "1 closure in force, of 2 partitions\n") {
		t.Errorf("got %v,\n%s", err, out)
	}
	if _, err := a.End(); err != nil {
		t.Error(err)
	}
	processtest.Eventually(t, 30*time.Second, "said that no owner is left", func() bool {
		out, err = runCommand("decisions", "--brokers", b.Addr(), "--output", "json")
		return err == nil && strings.Contains(out, `"silent_partitions":[0,1]`)
	})
	if !strings.Contains(out, `"caller":"key:noisy\u001b[2J"`) || strings.Contains(out, "\x1b") {
		t.Errorf("got\n%s\nwant the closure, which is in force without an analyzer", out)
	}
	if _, err := watch.End(); err != nil {
		t.Errorf("watch: got %v, want a clean end", err)
	}
}

// TestDecisionsWithoutATopic says what is missing.
func TestDecisionsWithoutATopic(t *testing.T) {
	b := serveKafka(t, embedded.Options{})
	if _, err := runCommand("decisions", "--brokers", b.Addr()); err == nil || !strings.Contains(err.Error(), "no such topic") {
		t.Errorf("got %v, want that there is no topic", err)
	}
	for _, args := range [][]string{
		{"--brokers", "nonsense"}, {"--brokers", b.Addr(), "more"}, {"--brokers", b.Addr(), "--output", "xml"}, {"--brokers", b.Addr(), "--api=http://127.0.0.1:1"},
	} {
		if _, err := runCommand(append([]string{"decisions"}, args...)...); !command.IsUsage(err) {
			t.Errorf("%q: got %v, want a usage error", args, err)
		}
	}
}
