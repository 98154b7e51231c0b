//go:build lab

package lab

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

var recoverRuns = flag.Int("recover.runs", 1, "how often TestSixKillsInARow and TestOnePausedAndOneKilled measure")

// fresh returns, for each of the 4 partitions, a caller of whom nothing was counted yet.
func (p *pair) fresh(prefix string) []string {
	callers := make([]string, 4)
	for n := 0; slices.Contains(callers, ""); n++ {
		id := fmt.Sprint(prefix, "-", n)
		i := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), 4)
		if callers[i] == "" {
			callers[i] = id
		}
	}
	return callers
}

// ends returns where each partition of decisions ends.
func (p *pair) ends() []int64 {
	p.t.Helper()
	ends := make([]int64, 4)
	for i := range ends {
		_, end, err := p.client.Range(p.t.Context(), p.names.Decisions, i)
		if err != nil {
			p.t.Fatal(err)
		}
		ends[i] = end
	}
	return ends
}

// TestSixKillsInARow kills analyzers six times within three seconds, and starts each again at once. It reports how long
// after the last kill each partition is decided on again: the session of the last one killed has to run out, and what is
// above that is waste. Every partition recovers; how fast is a figure and no assertion.
func TestSixKillsInARow(t *testing.T) {
	t.Parallel()
	story := func(p *pair) {
		var took []time.Duration
		for run := range *recoverRuns {
			ends := p.ends()
			var last time.Time
			for i := range 6 {
				if i > 0 {
					time.Sleep(500 * time.Millisecond)
				}
				last = time.Now()
				p.programs[i%2].Kill()
				p.start(i % 2)
			}
			callers := p.fresh(fmt.Sprint("run", run))
			slowest := time.Duration(0)
			for i, id := range callers {
				p.spend(i, id)
			}
			for i, id := range callers {
				slowest = max(slowest, p.closed(i, id, ends[i]).Sub(last))
			}
			took = append(took, slowest)
			p.ready()
		}
		slices.Sort(took)
		p.t.Logf("last of six kills to all partitions decided on, with a session timeout of %v: median %v, of %v", p.session, took[len(took)/2], took)
	}
	onBothBrokersAt(t, kafkaio.DefaultSessionTimeout, story)
}

// onBothBrokersAt is onBothBrokers with a session timeout, also on the embedded broker.
func onBothBrokersAt(t *testing.T, session time.Duration, story func(p *pair)) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Run("embedded", func(t *testing.T) {
		broker := start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
		story(newPair(t, broker, session))
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		broker := os.Getenv("FLOODGATE_KAFKA")
		if broker == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		story(newPair(t, broker, session))
	})
}

// TestOnePausedAndOneKilled kills one of three analyzers and pauses another soon before the session of the killed one runs
// out, while the third decides: the group then waits for the paused one for longer than a lease. It reports how long the
// third's decisions wait.
func TestOnePausedAndOneKilled(t *testing.T) {
	story := func(p *pair) {
		var waits []time.Duration
		for run := range *recoverRuns {
			waits = append(waits, p.pausedAndKilled(run)...)
		}
		slices.Sort(waits)
		p.t.Logf("%d decisions of the third: median %v, p99 %v, longest %v", len(waits), waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
	}
	onBothBrokersAt(t, kafkaio.DefaultSessionTimeout, story)
}

// pausedAndKilled tells the story once, and returns how long each decision of the third analyzer waited.
func (p *pair) pausedAndKilled(run int) []time.Duration {
	p.t.Helper()
	third := &pair{
		t: p.t, names: p.names, client: p.client, broker: p.broker, suffix: p.suffix, session: p.session, rules: p.rules,
	}
	third.dirs[0] = p.t.TempDir()
	third.start(0)
	var owned []int
	processtest.Eventually(p.t, time.Minute, "the third has a partition", func() bool {
		metrics, _ := processtest.Get(p.t.Context(), third.urls[0]+"/metrics")
		owned = nil
		for i := range 4 {
			if strings.Contains(metrics, fmt.Sprintf("floodgate_partition_state{partition=\"%d\",state=\"running\"} 1", i)) {
				owned = append(owned, i)
			}
		}
		_, status := processtest.Get(p.t.Context(), third.urls[0]+"/readyz")
		return status == 200 && len(owned) > 0
	})
	partition := owned[0]
	p.programs[1].Kill()
	pause := time.AfterFunc(p.session-time.Duration(2+run%4)*200*time.Millisecond, func() { // soon before the killed one's session ends
		if err := p.programs[0].Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			p.t.Error(err)
		}
	})
	defer pause.Stop()
	var waits []time.Duration
	from := p.ends()[partition]
	for n, end := 0, time.Now().Add(2*p.session+time.Second); time.Now().Before(end); n++ {
		id := ""
		for i := 0; id == ""; i++ {
			if c := fmt.Sprintf("third-%d-%d-%d", run, n, i); schemas.Partition(schemas.DefaultPartitionKey().Hash("key", c), 4) == partition {
				id = c
			}
		}
		sent := time.Now()
		p.spend(partition, id)
		p.closed(partition, id, from)
		waits = append(waits, time.Since(sent)) // a record's own time is from before it waited for a lease
		time.Sleep(20 * time.Millisecond)
	}
	if err := p.programs[0].Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
	p.start(1)
	if code := third.programs[0].Stop(syscall.SIGTERM); code != 0 {
		p.t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, third.programs[0].Text())
	}
	p.ready()
	return waits
}
