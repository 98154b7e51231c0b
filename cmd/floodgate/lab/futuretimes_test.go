//go:build lab

package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// unbounded is topics whose brokers take every time.
type unbounded struct {
	t      *testing.T
	broker string
	names  schemas.TopicNames
	client *kafkaio.Client
	dir    string
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
	u := &unbounded{t: t, broker: broker, dir: t.TempDir(), names: schemas.TopicNames{
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

// TestAnalyzeWhereBrokersTakeEveryTime: it does not start, and says which topic lacks what, and the command that mends it.
func TestAnalyzeWhereBrokersTakeEveryTime(t *testing.T) {
	onUnbounded(t, func(u *unbounded) {
		p := start(u.t, "analyze", "--brokers", u.broker, "--rules", u.rules(), "--data", u.data(), "--listen", "", "--topic-requests", u.names.Requests,
			"--topic-decisions", u.names.Decisions, "--topic-state", u.names.State, "--topic-rejects", u.names.Rejects,
			"--topic-control", u.names.Control, "--topic-events", u.names.Events)
		<-p.Exited
		if code := p.Cmd.ProcessState.ExitCode(); code != 2 {
			u.t.Errorf("got exit code %d, want 2", code)
		}
		for _, word := range []string{u.names.Requests, u.broker, kafkaio.SettingAhead, "kafka-configs.sh"} {
			if !strings.Contains(p.Text(), word) {
				u.t.Errorf("got\n%s\nwant a word about %s", p.Text(), word)
			}
		}
		out, err := runCommand("topics", "--brokers", u.broker, "--partitions", "1", "--topic-requests", u.names.Requests)
		if err == nil || !strings.Contains(out, kafkaio.SettingAhead) {
			u.t.Errorf("topics: got %v,\n%s\nwant the setting found missing", err, out)
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
