//go:build lab

package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// unbounded is topics whose brokers take every time, and an analyzer of them in a process of its own.
type unbounded struct {
	t      *testing.T
	broker string
	names  schemas.TopicNames
	client *kafkaio.Client
	dir    string
	seq    map[byte]uint64
}

// onUnbounded runs a story on the embedded broker, in a process of its own, and on the Apache Kafka of FLOODGATE_KAFKA.
func onUnbounded(t *testing.T, story func(u *unbounded)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		story(newUnbounded(t, start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").WaitFor(`serving Kafka on (\S+)`, 10*time.Second), "-1"))
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		broker := os.Getenv("FLOODGATE_KAFKA")
		if broker == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		story(newUnbounded(t, broker, "9223372036854775807")) // its own default, where it is left out, is an hour
	})
}

// newUnbounded makes the topics: that of requests takes messages that are so many milliseconds ahead.
func newUnbounded(t *testing.T, broker, ahead string) *unbounded {
	t.Helper()
	prefix := fmt.Sprintf("unbounded-%x.", rand.Uint64())
	u := &unbounded{t: t, broker: broker, dir: t.TempDir(), seq: make(map[byte]uint64), names: schemas.TopicNames{
		Requests: prefix + "requests", Decisions: prefix + "decisions", State: prefix + "state", Rejects: prefix + "rejects",
		Control: prefix + "control", Events: prefix + "events",
	}}
	u.client = kafkaio.New(kafkaio.Config{Brokers: strings.Split(broker, ",")})
	t.Cleanup(u.client.Close)
	specs := kafkaio.Specs(u.names, 1)
	for i := range specs[0].Settings {
		if s := &specs[0].Settings[i]; s.Name == kafkaio.SettingAhead {
			s.Value = ahead
		}
	}
	if _, err := u.client.EnsureTopics(t.Context(), specs...); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(u.rules(), []byte(processtest.Rules("5")), 0o600); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *unbounded) rules() string { return filepath.Join(u.dir, "rules.yaml") }
func (u *unbounded) data() string  { return filepath.Join(u.dir, "counts") }

// args is a command line for these topics.
func (u *unbounded) args(command string, more ...string) []string {
	return append([]string{
		command, "--brokers", u.broker, "--rules", u.rules(), "--data", u.data(), "--topic-requests", u.names.Requests,
		"--topic-decisions", u.names.Decisions, "--topic-state", u.names.State, "--topic-rejects", u.names.Rejects,
		"--topic-control", u.names.Control, "--topic-events", u.names.Events,
	}, more...)
}

// analyze starts an analyzer that trusts no broker, and waits until it decides.
func (u *unbounded) analyze() (*processtest.Program, string) {
	u.t.Helper()
	p := start(u.t, u.args("analyze", "--listen", "127.0.0.1:0", "--partitions", "1", "--group", u.names.Requests, "--snapshot", "2s", "--trust-clocks")...)
	url := "http://" + p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
	processtest.Eventually(u.t, 60*time.Second, "ready", func() bool { _, status := processtest.Get(u.t.Context(), url+"/readyz"); return status == 200 })
	return p, url
}

// send sends n requests of a key by a server, at a time.
func (u *unbounded) send(server byte, at time.Time, key string, n uint32) {
	u.t.Helper()
	u.seq[server]++
	f := schemas.Frame{
		Producer: schemas.ProducerID{server}, Seq: u.seq[server], Flushed: at.UnixNano(), Partitions: 1,
		Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: []schemas.Entry{{Time: at.UnixNano(), Kind: "key", ID: key, Count: n}},
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		u.t.Fatal(err)
	}
	if _, err := u.client.Produce(u.t.Context(), u.names.Requests, 0, kafkaio.Message{Time: at.UnixNano(), Value: value}); err != nil {
		u.t.Fatal(err)
	}
}

// folded waits until an analyzer has come to the log's end.
func (u *unbounded) folded(url string) {
	u.t.Helper()
	_, end, err := u.client.Range(u.t.Context(), u.names.Requests, 0)
	if err != nil {
		u.t.Fatal(err)
	}
	processtest.Eventually(u.t, 60*time.Second, "all folded", func() bool {
		metrics, _ := processtest.Get(u.t.Context(), url+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_next_offset") == float64(end)
	})
}

// wantCounts stops an analyzer and compares what its store holds.
func (u *unbounded) wantCounts(when string, p *processtest.Program, url string, want map[string]int64) {
	u.t.Helper()
	u.folded(url)
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		u.t.Errorf("%s: got exit code %d:\n%s", when, code, p.Text())
	}
	set, err := rules.Load(u.rules())
	if err != nil {
		u.t.Fatal(err)
	}
	f, _, err := analyzer.Inspect(filepath.Join(u.data(), "0"), set, fold.Options{})
	if err != nil {
		u.t.Fatal(err)
	}
	got := make(map[string]int64)
	f.Rows(f.LogTime(), func(r fold.Row) bool { got[r.ID] = r.Total; return true })
	if fmt.Sprint(got) != fmt.Sprint(want) {
		u.t.Errorf("%s: got counts %v, want %v", when, got, want)
	}
	if out, err := runCommand(u.args("audit")...); err != nil || !strings.Contains(out, "to the unit") {
		u.t.Errorf("%s: audit: %v\n%s", when, err, out)
	}
}

// TestAnalyzeWhereBrokersTakeEveryTime: it does not start, and says which topic lacks what; with --trust-clocks a message
// from 2100 changes nobody's count, whatever the analyzer starts from, and its sender is named.
func TestAnalyzeWhereBrokersTakeEveryTime(t *testing.T) {
	onUnbounded(t, func(u *unbounded) {
		p := start(u.t, u.args("analyze", "--listen", "")...)
		p.WaitFor(`(--trust-clocks)`, 30*time.Second)
		<-p.Exited
		if code := p.Cmd.ProcessState.ExitCode(); code != 2 {
			u.t.Errorf("without --trust-clocks: got exit code %d, want 2", code)
		}
		for _, word := range []string{u.names.Requests, u.broker, kafkaio.SettingAhead} {
			if !strings.Contains(p.Text(), word) {
				u.t.Errorf("got\n%s\nwant a word about %s", p.Text(), word)
			}
		}
		out, err := runCommand("topics", "--brokers", u.broker, "--partitions", "1", "--topic-requests", u.names.Requests)
		if err == nil || !strings.Contains(out, kafkaio.SettingAhead) {
			u.t.Errorf("topics: got %v,\n%s\nwant the setting found missing", err, out)
		}

		p, url := u.analyze()
		u.send(1, time.Now(), "bad", 3)
		u.send(2, time.Now(), "good", 2)
		u.folded(url)
		u.send(9, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), "good", 9)
		u.send(1, time.Now(), "bad", 1)
		u.folded(url)
		metrics, _ := processtest.Get(u.t.Context(), url+"/metrics")
		if !matches(`floodgate_rejected_total\{reason="future"\} 1`, metrics) {
			u.t.Errorf("got\n%s\nwant one message refused as from the future", metrics)
		}
		p.WaitFor(`refused a message from the future.*producer=(09000000)`, 10*time.Second)
		p.Kill()

		u.send(9, time.Now().Add(5*time.Hour), "good", 9)
		p, url = u.analyze()
		u.send(1, time.Now(), "bad", 1)
		u.wantCounts("killed and started again", p, url, map[string]int64{"bad": 5, "good": 2})

		if err := os.RemoveAll(u.data()); err != nil {
			u.t.Fatal(err)
		}
		p, url = u.analyze()
		u.wantCounts("from a snapshot", p, url, map[string]int64{"bad": 5, "good": 2})
		if out, err := runCommand("rejects", "--brokers", u.broker, "--topic-rejects", u.names.Rejects); err != nil || strings.Count(out, "future") < 2 {
			u.t.Errorf("rejects: got %v,\n%s\nwant both messages from the future", err, out)
		}
	})
}

// TestTheEmbeddedBrokerTakesNoMessageFromTheFuture of topics as they are created: nothing of analyze --trust-clocks is
// needed, or active.
func TestTheEmbeddedBrokerTakesNoMessageFromTheFuture(t *testing.T) {
	t.Parallel()
	d := processtest.NewDeployment(t, start)
	d.Start()
	for _, ahead := range []time.Duration{5 * time.Second, 100 * 365 * 24 * time.Hour} {
		_, err := d.Client.Produce(t.Context(), "floodgate.requests", 0, kafkaio.Message{Time: time.Now().Add(ahead).UnixNano(), Value: []byte("x")})
		if !errors.Is(err, kafkaio.ErrTimestamp) {
			t.Errorf("%v ahead: got %v, want %v", ahead, err, kafkaio.ErrTimestamp)
		}
	}
	if text := d.Analyzer.Text(); strings.Contains(text, "from the future") {
		t.Errorf("got\n%s\nwant no word about the future", text)
	}
}
