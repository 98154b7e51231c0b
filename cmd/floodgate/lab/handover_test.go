//go:build lab

package lab

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// tenAnHour closes a caller at its tenth request.
const tenAnHour = `
version: 1
rules:
  - {name: ten, callers: key, limit: 10, window: 1h, algorithm: log}
`

// pair is two analyzers in processes of their own, and the topics they share.
type pair struct {
	t        *testing.T
	names    schemas.TopicNames
	client   *kafkaio.Client
	broker   string
	suffix   string
	session  time.Duration
	rules    string
	dirs     [2]string
	programs [2]*processtest.Program
	urls     [2]string
}

// onBothBrokers runs a story on the embedded broker, in a process of its own, and on the Apache Kafka of FLOODGATE_KAFKA.
func onBothBrokers(t *testing.T, story func(p *pair)) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Run("embedded", func(t *testing.T) {
		broker := start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
		story(newPair(t, broker, 2*time.Second))
	})
	t.Run("Apache Kafka", func(t *testing.T) {
		broker := os.Getenv("FLOODGATE_KAFKA")
		if broker == "" {
			t.Skip("FLOODGATE_KAFKA does not name an Apache Kafka")
		}
		story(newPair(t, broker, kafkaio.DefaultSessionTimeout))
	})
}

// newPair starts two analyzers and waits until both decide.
func newPair(t *testing.T, broker string, session time.Duration) *pair {
	t.Helper()
	p := &pair{t: t, broker: broker, suffix: fmt.Sprintf(".pair-%x", rand.Uint64()), session: session}
	p.names = schemas.TopicNames{Requests: "requests" + p.suffix, Decisions: "decisions" + p.suffix}
	p.client = kafkaio.New(kafkaio.Config{Brokers: strings.Split(broker, ",")})
	t.Cleanup(p.client.Close)
	p.rules = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(p.rules, []byte(tenAnHour), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range p.dirs {
		p.dirs[i] = filepath.Join(t.TempDir(), "counts")
		p.start(i)
	}
	p.ready()
	return p
}

func (p *pair) start(i int) {
	p.t.Helper()
	args := []string{
		"analyze", "--brokers", p.broker, "--rules", p.rules, "--data", p.dirs[i], "--listen", "127.0.0.1:0",
		"--session-timeout", p.session.String(), "--checkpoint", "50ms", "--snapshot", "2s", "--group", "g" + p.suffix,
	}
	for _, topic := range []string{"requests", "decisions", "state", "rejects", "control", "events"} {
		args = append(args, "--topic-name", topic+"="+topic+p.suffix)
	}
	p.programs[i] = start(p.t, args...)
	p.urls[i] = "http://" + p.programs[i].WaitFor(`msg=listening address=(\S+)`, 30*time.Second)
}

// ready waits until all partitions are decided on, by those that run.
func (p *pair) ready() {
	p.t.Helper()
	processtest.Eventually(p.t, time.Minute, "both analyzers ready, with partitions", func() bool {
		owned := 0.0
		for _, url := range p.urls {
			if _, status := processtest.Get(p.t.Context(), url+"/readyz"); status != 200 {
				return false
			}
			metrics, _ := processtest.Get(p.t.Context(), url+"/metrics")
			owned += float64(strings.Count(metrics, "\nfloodgate_next_offset{"))
		}
		return owned == 4
	})
}

// restart stops an analyzer as a rollout does, and starts it again with what it has counted.
func (p *pair) restart(i int) {
	p.t.Helper()
	if code := p.programs[i].Stop(syscall.SIGTERM); code != 0 {
		p.t.Fatalf("SIGTERM: got exit code %d, want 0:\n%s", code, p.programs[i].Text())
	}
	p.start(i)
}

// TestARollingRestartOfAllAnalyzersGivesNothingBack: with 4 of 10 requests spent, each analyzer is restarted in turn while
// the requests go on, one a second. Exactly 10 are admitted.
func TestARollingRestartOfAllAnalyzersGivesNothingBack(t *testing.T) {
	onBothBrokers(t, func(p *pair) {
		set, rec := gate.New(gate.Options{}), record.New(record.Options{})
		link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: strings.Split(p.broker, ","), Topics: p.names})
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(link.Close)
		keys := set.Gate("key")
		processtest.Eventually(p.t, time.Minute, "the gate hears all owners", func() bool {
			status := set.Status()
			for _, s := range status.Partitions {
				if s.Freshness != gate.Fresh {
					return false
				}
			}
			return len(status.Partitions) == 4
		})
		admitted, blocked := 0, 0
		for tick := time.NewTicker(time.Second); blocked < 3; <-tick.C {
			var c gate.Callers
			c.Add(keys, "customer")
			v := set.Check(&c)
			rec.Record(&c, v, record.Request{Resource: "/"})
			if v.Closed {
				blocked++
				continue
			}
			admitted++
			switch admitted {
			case 4:
				p.restart(0)
			case 7:
				p.ready()
				p.restart(1)
			case 12:
				blocked = 3 // it will never close
			}
		}
		link.Close()
		if admitted != 10 {
			p.t.Errorf("admitted: got %d, want exactly 10", admitted)
		}
	})
}

// TestKillMinus9ToTheFirstDecision reports how long callers of a killed analyzer's partitions are not decided on: from the
// kill until the other one has published that they are closed.
func TestKillMinus9ToTheFirstDecision(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(p *pair) {
		time.Sleep(3 * time.Second) // so that there is a snapshot
		ends := make([]int64, 4)
		for i := range ends {
			_, end, err := p.client.Range(p.t.Context(), p.names.Decisions, i)
			if err != nil {
				p.t.Fatal(err)
			}
			ends[i] = end
		}
		killed := time.Now()
		p.programs[0].Kill()
		callers := make([]string, 4)
		for n := 0; ; n++ {
			id := fmt.Sprint("caller-", n)
			i := schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), 4)
			if callers[i] == "" {
				callers[i] = id
				p.spend(i, id)
			}
			if callers[0] != "" && callers[1] != "" && callers[2] != "" && callers[3] != "" {
				break
			}
		}
		var last time.Duration
		for i, id := range callers {
			last = max(last, p.closed(i, id, ends[i]).Sub(killed))
		}
		p.t.Logf("kill -9 to the last first decision: %v with a session timeout of %v", last.Round(time.Millisecond), p.session)
		if most := p.session + 5*time.Second; last > most {
			p.t.Errorf("got %v, want at most %v even on a busy machine", last, most)
		}
	})
}

// spend sends a frame of ten requests of one caller, by a producer of its own.
func (p *pair) spend(partition int, id string) {
	p.t.Helper()
	now := time.Now().UnixNano()
	f := schemas.Frame{
		Seq: 1, Flushed: now, Partitions: 4, Fingerprint: schemas.DefaultPartitionKey().Fingerprint(),
		Entries: []schemas.Entry{{Time: now, Kind: "key", ID: id, Count: 10}},
	}
	binary.LittleEndian.PutUint64(f.Producer[:], rand.Uint64())
	value, err := f.AppendTo(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.client.Produce(p.t.Context(), p.names.Requests, partition, kafkaio.Message{Time: now, Value: value}); err != nil {
		p.t.Fatal(err)
	}
}

// closed waits until a decision says that the caller is closed, of an owner that gates believe, and returns when it did.
func (p *pair) closed(partition int, id string, from int64) time.Time {
	p.t.Helper()
	var fence schemas.Fence
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		b, err := p.client.Fetch(p.t.Context(), kafkaio.FetchRequest{
			Topic: p.names.Decisions, Partition: partition, Offset: from, MaxWait: 100 * time.Millisecond,
		})
		if err != nil {
			p.t.Fatal(err)
		}
		from = b.Next
		for _, r := range b.Records {
			rec, err := pb.Decode(r.Value)
			switch {
			case err != nil:
				p.t.Fatal(err)
			case rec.Claim != nil:
				fence.Claim(rec.Claim.Epoch)
			case rec.Heartbeat != nil:
				fence.Heartbeat(rec.Heartbeat.Epoch, rec.Heartbeat.Seq)
			}
			if d := rec.Decision; d != nil {
				if fence.Epoch == 0 {
					fence.Claim(d.Epoch) // reading began amid an epoch
				}
				if fence.Decision(d.Epoch, d.Seq) && d.Caller.ID == id && d.Until > d.CloseAt {
					return time.Unix(0, r.Time)
				}
			}
		}
	}
	p.t.Fatalf("caller %s of partition %d: not closed within a minute", id, partition)
	return time.Time{}
}
