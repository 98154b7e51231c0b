package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// TestPresenceSaysWhatIsMissing walks through the life of a topic that its reader is earlier than.
func TestPresenceSaysWhatIsMissing(t *testing.T) {
	var p presence
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"nothing is known", func() {}, "group has not answered"},
		{"no topic", func() { p.counted(0) }, "no such topic"},
		{"a group of no partitions", func() { p.joined(nil, 0) }, "no such topic"},
		{"the topic appears", func() { p.counted(2) }, "it has 2 partitions, of which 2 are new and not read yet"},
		{"they are assigned", func() { p.joined([]int{0, 1}, 2) }, "no broker has answered yet for partitions [0 1]"},
		{"one is read", func() { p.reached(1) }, "no broker has answered yet for partitions [0]"},
		{"both are", func() { p.reached(0) }, ""},
		{"two are added", func() { p.counted(4) }, "it has 4 partitions, of which 2 are new and not read yet"},
		{"another member leads, and gets one", func() { p.joined([]int{0, 1, 2}, unknown) }, "partitions [2]"},
		{"which is read", func() { p.reached(2) }, ""},
		{"how many there are is counted again", func() { p.counted(4) }, ""},
		{"more are added", func() { p.counted(5) }, "it has 5 partitions, of which 1 are new and not read yet"},
		{"all go to others", func() { p.joined(nil, 5) }, ""},
		{"the topic is deleted", func() { p.counted(0) }, "no such topic"},
	} {
		step.do()
		if got := p.waits(); got != step.want && (step.want == "" || !strings.Contains(got, step.want)) {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
}

// lockedLog is what was logged; any goroutine may use it.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lockedLog) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// TestAMissingTopicIsLoggedOnceAMinute, not each time it is looked for, and neither is a cluster that is away: the group
// logs that.
func TestAMissingTopicIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedLog
		c := config(t, newBroker())
		c.Logger, c.Now = slog.New(slog.NewTextHandler(&log, nil)), time.Now
		f, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		var answers atomic.Value
		answers.Store(func() (int, error) { return 0, fmt.Errorf("count: %w", kafkaio.ErrNoTopic) })
		topic := &Topic{Feed: f, Name: "access", Count: func(context.Context) (int, error) { return answers.Load().(func() (int, error))() }}
		ctx, stop := context.WithCancel(t.Context())
		var looking sync.WaitGroup
		looking.Go(func() { topic.look(ctx) })
		time.Sleep(150 * time.Second)
		if n := strings.Count(log.String(), "nothing to read"); n != 3 {
			t.Errorf("got %d warnings in 150 s, want one at once and one after each minute:\n%s", n, log.String())
		}
		if !strings.Contains(topic.Waits(), "topic access: no such topic") || !strings.Contains(log.String(), "or hidden by ACLs") {
			t.Errorf("got %q", topic.Waits())
		}
		log.Reset()
		answers.Store(func() (int, error) { return 0, errors.New("away") })
		time.Sleep(10 * time.Minute)
		if log.String() != "" {
			t.Errorf("away: got %s", log.String())
		}
		answers.Store(func() (int, error) { return 3, nil })
		time.Sleep(time.Minute)
		if n := strings.Count(log.String(), "level="); n != 1 || !strings.Contains(log.String(), "got=3 before=0") {
			t.Errorf("there: got %s", log.String())
		}
		stop()
		looking.Wait()
	})
}

// TestWhatAppearsLaterIsReadFromItsBeginning, on a real broker: the topic is created after ingest has started, and
// partitions are added while it runs. Each line counts once, and each partition has its lag.
func TestWhatAppearsLaterIsReadFromItsBeginning(t *testing.T) {
	server, err := embedded.Start(embedded.Options{Listen: "127.0.0.1:0", MinSession: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client := kafkaio.New(kafkaio.Config{Brokers: []string{server.Addr()}})
	defer client.Close()
	b := newBroker() // frames are kept here, so that they can be looked at
	c := config(t, b)
	c.Logger = slog.New(slog.DiscardHandler)
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	group := kafkaio.GroupConfig{Client: client, Group: "g", Topic: "access", SessionTimeout: 2 * time.Second, GrowthCheck: 20 * time.Millisecond}
	topic := &Topic{
		Feed: f, Fetcher: client, Name: "access", Group: "g", every: 20 * time.Millisecond,
		Join:  func() (Membership, error) { return kafkaio.NewGroup(group) },
		Count: func(ctx context.Context) (int, error) { return client.Partitions(ctx, "access") },
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx, topic.Run); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	await := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			if kafkaio.Sleep(ctx, 5*time.Millisecond) != nil {
				t.Fatalf("not %s: waits for %q, %+v", what, f.Waits(), f.Stats())
			}
		}
	}
	truth := make(map[string]int)
	ship := func(partition int) { // what is there before anybody has looked
		id := fmt.Sprintf("c%d", partition)
		truth["key:"+id]++
		if _, err := client.Produce(ctx, "access", partition, kafkaio.Message{Time: 1, Value: fmt.Appendf(nil, `{"time":1,"k":{"id":%q}}`, id)}); err != nil {
			t.Fatal(err)
		}
	}
	await("found missing", func() bool { return strings.Contains(f.Waits(), "no such topic") })
	if _, err := client.EnsureTopics(ctx, kafkaio.TopicSpec{Name: "access", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	ship(0)
	ship(1)
	await("read", func() bool { return f.Stats().Lines == 2 && f.Waits() == "" })
	admin := kafka.Client{Addr: kafka.TCP(server.Addr())}
	more := &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: "access", Count: 5}}}
	if r, err := admin.CreatePartitions(ctx, more); err != nil || r.Errors["access"] != nil {
		t.Fatalf("got %v, %+v", err, r)
	}
	for p := range 5 {
		ship(p)
	}
	await("read with new partitions", func() bool {
		s, acked := f.Stats(), int64(0)
		for _, source := range s.Sources {
			acked += source.Acked
		}
		return acked == 7 && f.Waits() == "" && len(s.Sources) == 5 && s.Topics[0] == TopicStats{Name: "access", Partitions: 5}
	})
	equal(t, b.count(t), truth)
}
