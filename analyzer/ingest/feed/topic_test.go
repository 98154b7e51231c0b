package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

func TestSourcesOfTopicsDiffer(t *testing.T) {
	seen := make(map[schemas.ProducerID]string)
	for _, c := range []struct {
		group, topic string
		partition    int
	}{{"g", "t", 0}, {"g", "t", 1}, {"g", "u", 0}, {"h", "t", 0}, {"gt", "", 0}, {"g", "t0", 0}, {"g", "t", 10}} {
		name := fmt.Sprint(c)
		id := TopicSource(c.group, c.topic, c.partition)
		if was, known := seen[id]; known {
			t.Errorf("%s is %s", name, was)
		}
		if id != TopicSource(c.group, c.topic, c.partition) {
			t.Errorf("%s is another the second time", name)
		}
		seen[id] = name
	}
}

// script is a partition that answers fetches one after the other, and then has nothing more.
type script struct {
	mu      sync.Mutex
	answers []answer // guarded by mu
	offsets []int64  // guarded by mu: those asked for
	done    func()   // called when there is nothing more
}

type answer struct {
	batch kafkaio.Batch
	err   error
}

func (s *script) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offsets = append(s.offsets, r.Offset)
	if len(s.answers) == 0 {
		s.done()
		return kafkaio.Batch{Next: r.Offset}, ctx.Err()
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a.batch, a.err
}

func (s *script) Range(context.Context, string, int) (int64, int64, error) { return 0, 0, nil }

// records returns a batch of one line at each offset.
func records(from, to int64) kafkaio.Batch {
	b := kafkaio.Batch{Next: to, HighWater: to}
	for o := from; o < to; o++ {
		b.Records = append(b.Records, kafkaio.Record{Offset: o, Value: fmt.Appendf(nil, `{"time":1,"k":{"id":"a%d"}}`, o)})
	}
	return b
}

// partition reads a scripted partition from the committed offset and returns what came of it.
func partition(t *testing.T, committed int64, answers ...answer) (b *broker, s *script, position int64, stats Stats, err error) {
	t.Helper()
	b = newBroker()
	f, newErr := New(config(t, b))
	if newErr != nil {
		t.Fatal(newErr)
	}
	_ = f.Run(t.Context(), func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		s = &script{answers: answers, done: stop}
		c := &committer{sources: make(map[int]*Source), committed: make(map[int]int64)}
		topic := &Topic{Feed: f, Fetcher: s, Name: "access", Group: "g"}
		err = topic.partition(ctx, c, 3, committed)
		position = c.sources[3].Acked()
		return err
	})
	return b, s, position, f.Stats(), err
}

func TestAPartitionIsReadFromWhereItWas(t *testing.T) {
	for committed, first := range map[int64]int64{-1: 0, 0: 0, 5: 5} {
		b, s, position, _, err := partition(t, committed, answer{batch: records(first, first+3)}, answer{batch: kafkaio.Batch{Next: first + 3}}, answer{batch: records(first+3, first+4)})
		if err != nil || s.offsets[0] != first || position != first+4 || len(b.count(t)) != 4 {
			t.Errorf("committed %d: got %v, fetches at %v, position %d, %d callers", committed, err, s.offsets, position, len(b.count(t)))
		}
	}
}

func TestRetentionWasFaster(t *testing.T) {
	b, s, position, stats, err := partition(t, 5, answer{err: &kafkaio.RangeError{Offset: 5, Start: 100, End: 200}}, answer{batch: records(100, 102)})
	if err != nil || stats.Lost != 95 || s.offsets[1] != 100 || position != 102 || len(b.count(t)) != 2 {
		t.Errorf("got %v, %d lost, fetches at %v, position %d", err, stats.Lost, s.offsets, position)
	}
	// A new group has lost nothing: it only begins where the topic does.
	_, s, _, stats, err = partition(t, -1, answer{err: &kafkaio.RangeError{Offset: 0, Start: 100, End: 200}}, answer{batch: records(100, 101)})
	if err != nil || stats.Lost != 0 || s.offsets[1] != 100 {
		t.Errorf("a new group: got %v, %d lost, fetches at %v", err, stats.Lost, s.offsets)
	}
}

// TestATopicThatWasMadeAnewIsRefused: its offsets mean other records, all of which would count as read before.
func TestATopicThatWasMadeAnewIsRefused(t *testing.T) {
	_, _, _, _, err := partition(t, 500, answer{err: &kafkaio.RangeError{Offset: 500, Start: 0, End: 20}})
	if !errors.Is(err, ErrRecreated) || !strings.Contains(err.Error(), "another group") {
		t.Errorf("got %v", err)
	}
}

func TestAShortFaultIsWaitedOut(t *testing.T) {
	b, _, position, _, err := partition(t, 0, answer{err: errors.New("connection refused")}, answer{err: errors.New("timeout")}, answer{batch: records(0, 2)})
	if err != nil || position != 2 || len(b.count(t)) != 2 {
		t.Errorf("got %v, position %d", err, position)
	}
}

func TestACorruptBatchIsTriedAgainAndThenSaid(t *testing.T) {
	broken := answer{err: &kafkaio.CorruptError{From: 1, To: 4, Detail: "crc"}}
	b := newBroker()
	f, err := New(config(t, b))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(t.Context(), func(ctx context.Context) error {
		s := f.Source(schemas.ProducerID{1}, "kafka:t/0", 0)
		s.shift = lineBits
		topic := &Topic{Feed: f, Name: "t"}
		r, corrupt := &kafkaio.FetchRequest{Topic: "t", Offset: 1}, corruptTry
		if err := topic.mend(ctx, s, r, broken.err, &corrupt); err != nil || r.Offset != 5 || corrupt != 0 {
			t.Errorf("got %v, offset %d, %d tries", err, r.Offset, corrupt)
		}
		return s.Close()
	}); err != nil {
		t.Fatal(err)
	}
	got := b.rejects(t)
	if len(got) != 1 || got[0].Reason != "records corrupt" || got[0].Offset != 1 || f.Stats().Skipped != 4 {
		t.Errorf("got %+v", got)
	}
}

// TestTwoMembersShareATopic on a real broker: each line is counted once, and a third life begins where they ended.
func TestTwoMembersShareATopic(t *testing.T) {
	server, err := embedded.Start(embedded.Options{Listen: "127.0.0.1:0", MinSession: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client := kafkaio.New(kafkaio.Config{Brokers: []string{server.Addr()}})
	defer client.Close()
	if _, err := client.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "access", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	b := newBroker() // frames are kept here, so that they can be looked at
	truth := make(map[string]int)
	ship := func(from, to int) {
		for i := from; i < to; i++ {
			id := fmt.Sprintf("c%d", i%17)
			truth["key:"+id]++
			if _, err := client.Produce(t.Context(), "access", i%2, kafkaio.Message{Time: 1, Value: fmt.Appendf(nil, `{"time":1,"k":{"id":%q}}`, id)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	live := func(members int, lines int) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var all sync.WaitGroup
		var feeds []*Feed
		for range members {
			c := config(t, b)
			c.Logger = slog.New(slog.DiscardHandler)
			f, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			feeds = append(feeds, f)
			topic := &Topic{Feed: f, Fetcher: client, Name: "access", Group: "g", Join: func() (Membership, error) {
				return kafkaio.NewGroup(kafkaio.GroupConfig{Client: client, Group: "g.access", Topic: "access", SessionTimeout: 2 * time.Second})
			}}
			all.Go(func() {
				if err := f.Run(ctx, topic.Run); err != nil {
					t.Errorf("member: %v", err)
				}
			})
		}
		for ctx.Err() == nil {
			read := uint64(0)
			for _, f := range feeds {
				read += f.Stats().Lines
			}
			if read >= uint64(lines) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if ctx.Err() != nil {
			t.Error("lines are not read")
		}
		stop()
		all.Wait()
	}
	ship(0, 200)
	live(2, 200)
	equal(t, b.count(t), truth)
	ship(200, 250)
	live(1, 50)
	equal(t, b.count(t), truth)
}

func TestAGroupThatCannotBeJoined(t *testing.T) {
	f, err := New(config(t, newBroker()))
	if err != nil {
		t.Fatal(err)
	}
	topic := &Topic{Feed: f, Name: "access", Join: func() (Membership, error) { return nil, kafkaio.ErrNoBrokers }}
	if err := f.Run(t.Context(), topic.Run); !errors.Is(err, kafkaio.ErrNoBrokers) {
		t.Errorf("got %v", err)
	}
}

// TestABatchThatIsNotYetCorruptForGood is asked for again, from the same place.
func TestABatchThatIsNotYetCorruptForGood(t *testing.T) {
	_, s, position, stats, err := partition(t, 1, answer{err: &kafkaio.CorruptError{From: 1, To: 4}}, answer{batch: records(1, 3)})
	if err != nil || s.offsets[1] != 1 || position != 3 || stats.Skipped != 0 {
		t.Errorf("got %v, fetches at %v, position %d", err, s.offsets, position)
	}
}
