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

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// requestTimes is topics of which that of requests has its own settings about times.
type requestTimes struct {
	t      *testing.T
	broker string
	names  schemas.TopicNames
	client *kafkaio.Client
	dir    string
}

// onRequestTimes runs a story on the embedded broker, in a process of its own, and on the Apache Kafka of FLOODGATE_KAFKA.
func onRequestTimes(t *testing.T, times string, story func(u *requestTimes)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		broker := start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
		story(newRequestTimes(t, broker, times, "-1"))
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		broker := os.Getenv("FLOODGATE_KAFKA")
		if broker == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		story(newRequestTimes(t, broker, times, "9223372036854775807")) // its own default, where it is left out, is an hour
	})
}

// newRequestTimes makes the topics: that of requests has these times, and takes messages that are so many milliseconds ahead.
func newRequestTimes(t *testing.T, broker, times, ahead string) *requestTimes {
	t.Helper()
	prefix := fmt.Sprintf("times-%x.", rand.Uint64())
	u := &requestTimes{t: t, broker: broker, dir: t.TempDir(), names: schemas.TopicNames{
		Requests: prefix + "requests", Decisions: prefix + "decisions", State: prefix + "state", Rejects: prefix + "rejects",
		Control: prefix + "control", Events: prefix + "events",
	}}
	u.client = kafkaio.New(kafkaio.Config{Brokers: strings.Split(broker, ",")})
	t.Cleanup(u.client.Close)
	specs := kafkaio.Specs(u.names, 1)
	for i := range specs[0].Settings {
		switch s := &specs[0].Settings[i]; s.Name {
		case kafkaio.SettingAhead:
			s.Value = ahead
		case kafkaio.SettingTimes:
			s.Value = times
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

func (u *requestTimes) rules() string { return filepath.Join(u.dir, "rules.yaml") }
func (u *requestTimes) data() string  { return filepath.Join(u.dir, "counts") }

// args is a command line for these topics.
func (u *requestTimes) args(command string, more ...string) []string {
	return append([]string{
		command, "--brokers", u.broker, "--rules", u.rules(), "--data", u.data(), "--topic-name", "requests=" + u.names.Requests,
		"--topic-name", "decisions=" + u.names.Decisions, "--topic-name", "state=" + u.names.State, "--topic-name", "rejects=" + u.names.Rejects,
		"--topic-name", "control=" + u.names.Control, "--topic-name", "events=" + u.names.Events,
	}, more...)
}

// send sends n requests of a key by a server, at a time.
func (u *requestTimes) send(server byte, at time.Time, key string, n uint32) {
	u.t.Helper()
	f := schemas.Frame{
		Producer: schemas.ProducerID{server}, Seq: 1, Flushed: at.UnixNano(), Partitions: 1,
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

// TestAnalyzeWhereBrokersTakeEveryTime: it does not start, and says which topic lacks what, and the command that mends it.
func TestAnalyzeWhereBrokersTakeEveryTime(t *testing.T) {
	onRequestTimes(t, kafkaio.CreateTime, func(u *requestTimes) {
		p := start(u.t, u.args("analyze", "--listen", "")...)
		<-p.Exited
		if code := p.Cmd.ProcessState.ExitCode(); code != 2 {
			u.t.Errorf("got exit code %d, want 2", code)
		}
		for _, word := range []string{u.names.Requests, u.broker, kafkaio.SettingAhead, "kafka-configs.sh --bootstrap-server", kafkaio.AppendTime} {
			if !strings.Contains(p.Text(), word) {
				u.t.Errorf("got\n%s\nwant a word about %s", p.Text(), word)
			}
		}
		out, err := runCommand("topics", "--brokers", u.broker, "--partitions", "1", "--topic-name", "requests="+u.names.Requests)
		if err == nil || !strings.Contains(out, kafkaio.SettingAhead) {
			u.t.Errorf("topics: got %v,\n%s\nwant the setting found missing", err, out)
		}
	})
}

// TestAnalyzeWithTheBrokersTimes: a message from 2100 counts as of the broker's time, and its server is named once. Rules are
// predicted without shares, and the count is the truth to the unit.
func TestAnalyzeWithTheBrokersTimes(t *testing.T) {
	onRequestTimes(t, kafkaio.AppendTime, func(u *requestTimes) {
		p := start(u.t, u.args("analyze", "--listen", "127.0.0.1:0", "--partitions", "1", "--group", u.names.Requests)...)
		p.WaitFor(`(early closes only, not by shares)`, 30*time.Second)
		url := "http://" + p.WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
		u.send(9, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), "bad", 9)
		u.send(1, time.Now(), "good", 2)
		p.WaitFor(`(clock is ahead).*producer=09000000`, 30*time.Second)
		processtest.Eventually(u.t, 60*time.Second, "all counted", func() bool {
			metrics, _ := processtest.Get(u.t.Context(), url+"/metrics")
			return processtest.MetricSum(metrics, "floodgate_next_offset") == 2 && processtest.MetricSum(metrics, "floodgate_ahead_frames_total") == 1
		})
		if code := p.Stop(syscall.SIGTERM); code != 0 {
			u.t.Errorf("got exit code %d:\n%s", code, p.Text())
		}
		if out, err := runCommand(u.args("audit")...); err != nil || !strings.Contains(out, "11 requests") || !strings.Contains(out, "to the unit") {
			u.t.Errorf("audit: %v\n%s", err, out)
		}
		out, err := runCommand("topics", "--brokers", u.broker, "--partitions", "1", "--topic-name", "requests="+u.names.Requests, "--topic-name", "decisions="+u.names.Decisions,
			"--topic-name", "state="+u.names.State, "--topic-name", "rejects="+u.names.Rejects, "--topic-name", "control="+u.names.Control, "--topic-name", "events="+u.names.Events)
		if err != nil || !strings.Contains(out, "shares would not add up") {
			u.t.Errorf("topics: %v\n%s\nwant a warning alone", err, out)
		}
	})
}

// TestTheEmbeddedBrokerTakesNoMessageFromTheFuture of topics as they are created.
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
}
