package board

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// owner writes to one partition of decisions as an analyzer does.
type owner struct {
	t          *testing.T
	appender   *kafkaio.Appender
	epoch, seq uint64
}

func (o *owner) write(value []byte, err error) {
	o.t.Helper()
	if err == nil {
		_, err = o.appender.Append(o.t.Context(), kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *owner) beat() {
	o.seq++
	o.write(pb.AppendHeartbeat(nil, &schemas.Heartbeat{Partition: 1, Epoch: o.epoch, Seq: o.seq, Time: time.Now().UnixNano()}))
}

func (o *owner) decide(id string, d time.Duration) {
	now := time.Now()
	o.seq++
	o.write(pb.AppendDecision(nil, &schemas.Decision{
		Rule: "r", Caller: schemas.Caller{Kind: "key", ID: id}, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(d).UnixNano(),
		Partition: 1, Epoch: o.epoch, Seq: o.seq,
	}))
}

// TestABoardFollowsARealBroker: what was in the log, what comes, what ends by its time, and nothing that a replaced owner says.
func TestABoardFollowsARealBroker(t *testing.T) {
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker.Addr()}})
	defer client.Close()
	if _, err := client.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), 2)...); err != nil {
		t.Fatal(err)
	}
	topic := schemas.DefaultTopicNames().Decisions
	appender := kafkaio.NewAppender(client, kafkaio.AppenderConfig{Topic: topic, Partition: 1})
	zombie := &owner{t: t, appender: appender, epoch: 4, seq: 100}
	zombie.beat()
	o := &owner{t: t, appender: appender, epoch: 5}
	o.decide("nobody's: there is no claim yet", time.Hour)
	o.beat()
	o.decide("before", time.Hour)

	b := New(Options{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Run(ctx, kafkalink.FollowConfig{Brokers: []string{broker.Addr()}, Logger: slog.New(slog.DiscardHandler)})
	}()
	if err := b.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ds := b.Of(schemas.Caller{Kind: "key", ID: "before"}); len(ds) != 1 || b.Len() != 1 || b.Partitions() != 2 {
		t.Errorf("got %+v, %d in force, want what was closed before", ds, b.Len())
	}
	changes := subscribe(t, b, 0)
	wantEvents(t, changes, "in_force before, current")
	zombie.decide("innocent", time.Hour)
	zombie.decide("before", 0)
	zombie.beat()
	o.decide("short", 300*time.Millisecond)
	o.decide("before", 0)
	o.beat()
	for _, want := range []string{"closed short", "opened before", "ended short"} {
		e, err := changes.Next(t.Context())
		if got := text([]Event{e}); err != nil || got != want {
			t.Fatalf("got %q and %v, want %q", got, err, want)
		}
	}
	h, err := b.AwaitHeartbeat(t.Context(), 1, func(h *schemas.Heartbeat) bool { return h.Seq == o.seq })
	if s := b.Status(); err != nil || h.Epoch != 5 || s.Refused["fenced"] != 4 || s.Closures != 0 {
		t.Errorf("got %+v, %v and %+v, want the owner's heartbeat, and 4 records refused: 3 of the zombie, and one before the claim", h, err, s)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

// TestRunOnce ends when all is read, and without brokers at once.
func TestRunOnce(t *testing.T) {
	b := New(Options{})
	if err := b.Run(t.Context(), kafkalink.FollowConfig{}); !errors.Is(err, kafkaio.ErrNoBrokers) {
		t.Errorf("got %v, want %v", err, kafkaio.ErrNoBrokers)
	}
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	c := kafkalink.FollowConfig{Brokers: []string{broker.Addr()}, Once: true, Logger: slog.New(slog.DiscardHandler)}
	if err := b.Run(t.Context(), c); !errors.Is(err, kafkaio.ErrNoTopic) {
		t.Errorf("got %v, want that there is no topic", err)
	}
	client := kafkaio.New(kafkaio.Config{Brokers: []string{broker.Addr()}})
	defer client.Close()
	if _, err := client.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), 3)...); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(t.Context(), c); err != nil || !b.Ready() || b.Partitions() != 3 {
		t.Errorf("got %v and ready %v, want all of an empty topic read", err, b.Ready())
	}
}

// TestTheFeedCounts what does not count, and places that were lost.
func TestTheFeedCounts(t *testing.T) {
	b := New(Options{})
	f := b.Handler()
	f.Partitions(1)
	f.CaughtUp(0)
	f.Refused(0, "fenced", 2)
	f.Refused(0, "fenced", 1)
	f.Restarted(0)
	if s := b.Status(); s.Refused["fenced"] != 3 || s.Restarts != 1 || !s.Ready {
		t.Errorf("got %+v", s)
	}
}

// TestReadersAndWriters at the same time, for the race detector.
func TestReadersAndWriters(t *testing.T) {
	b := ready(1, Options{MaxClosures: 500})
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		for i := range 5000 {
			b.Apply([]schemas.Decision{closing("r", string(rune('a'+i%2000)), 0, float64(i))}, at(float64(i)/2))
			b.Expire(at(float64(i) / 2))
			b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: uint64(i + 1)}, at(float64(i)))
		}
	}()
	changes := subscribe(t, b, 0)
	for !done.Load() {
		drain(t, changes)
		for d := range b.All {
			_ = b.Of(d.Caller)
		}
		if s := b.Status(); s.Closures > 500 {
			t.Fatalf("got %d closures, want at most 500", s.Closures)
		}
		b.Changes(3)
	}
}
