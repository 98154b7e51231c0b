package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

func TestSourcesOfTopicsDiffer(t *testing.T) {
	seen := make(map[schemas.ProducerID]string)
	for _, c := range []struct {
		group, topic string
		partition    int
	}{{"g", "t", 0}, {"g", "t", 1}, {"g", "u", 0}, {"h", "t", 0}, {"gt", "", 0}, {"g", "t0", 0}, {"g", "t", 10}} {
		name := fmt.Sprint(c)
		id := topicSource(c.group, c.topic, c.partition)
		if first, known := seen[id]; known {
			t.Errorf("%s is %s", name, first)
		}
		if id != topicSource(c.group, c.topic, c.partition) {
			t.Errorf("%s is another the second time", name)
		}
		seen[id] = name
	}
}

// foreign returns a cluster whose topic "access" holds one line at each offset of partition 3.
func foreign(lines int) *kafkaiotest.Kafka {
	k := kafkaiotest.New()
	k.Create(4, "access")
	k.SetMaxRecords(3)
	for i := range lines {
		k.Append("access", 3, kafkaio.Message{Value: fmt.Appendf(nil, `{"time":1,"k":{"id":"a%d"}}`, i)})
	}
	return k
}

// partition reads partition 3 of the topic "access" from the committed offset to its end and returns what came of it. Call
// it in a bubble.
func partition(t *testing.T, k *kafkaiotest.Kafka, committed int64) (b *broker, position int64, stats Stats, err error) {
	t.Helper()
	b = newBroker()
	f, newErr := New(config(t, b))
	if newErr != nil {
		t.Fatal(newErr)
	}
	_, end := k.Ends("access", 3)
	_ = f.Run(t.Context(), func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		c := &committer{sources: make(map[int]*Source), committed: make(map[int]int64)}
		topic := &Topic{Feed: f, Fetcher: &stopAt{Fetcher: k, offset: max(end, committed+1), stop: stop}, Name: "access", Group: "g"}
		err = topic.partition(ctx, c, 3, committed)
		position = c.sources[3].Acked()
		return err
	})
	return b, position, f.Stats(), err
}

func TestAPartitionIsReadFromWhereItWas(t *testing.T) {
	for committed, first := range map[int64]int64{-1: 0, 0: 0, 5: 5} {
		synctest.Test(t, func(t *testing.T) {
			b, position, _, err := partition(t, foreign(9), committed)
			if got := b.count(t); err != nil || position != 9 || len(got) != int(9-first) || got[fmt.Sprintf("key:a%d", first)] != 1 {
				t.Errorf("committed %d: got %v, position %d, %v", committed, err, position, got)
			}
		})
	}
}

// TestRetentionWasFaster: a group that has read before loses the records that retention removed. A new group loses nothing: it
// begins where the topic begins.
func TestRetentionWasFaster(t *testing.T) {
	for committed, lost := range map[int64]uint64{5: 95, -1: 0, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			k := foreign(102)
			k.Trim("access", 3, 100)
			b, position, stats, err := partition(t, k, committed)
			if err != nil || stats.Lost != lost || position != 102 || len(b.count(t)) != 2 || len(stats.Skipped) != 0 || len(b.rejects(t)) != 0 {
				t.Errorf("committed %d: got %v, %d lost, position %d, %+v", committed, err, stats.Lost, position, stats)
			}
		})
	}
}

// TestATopicThatWasCreatedAgainIsRefused: its offsets mean other records, all of which would count as read before.
func TestATopicThatWasCreatedAgainIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, _, err := partition(t, foreign(20), 500)
		if !errors.Is(err, ErrRecreated) || !strings.Contains(err.Error(), "another group") || !strings.Contains(err.Error(), "got 500, want 0 to 20") {
			t.Errorf("got %v", err)
		}
	})
}

// TestAShortFaultIsWaitedOut, also that of a topic which is not there for a moment, as while a broker starts.
func TestAShortFaultIsWaitedOut(t *testing.T) {
	for name, faults := range map[string][]kafkaiotest.Fault{
		"away": {kafkaiotest.Down(), kafkaiotest.Silent(), kafkaiotest.LostAnswer()}, "not ready": {kafkaiotest.Returns(kafkaio.ErrNoTopic), kafkaiotest.NotLeader()},
		"not allowed yet": {kafkaiotest.Unauthorized()},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := foreign(8)
			k.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
				if n := c.N - 3; n >= 0 && n < len(faults) { // in the middle
					return faults[n]
				}
				return kafkaiotest.Fault{}
			})
			b, position, stats, err := partition(t, k, -1)
			if err != nil || position != 8 || len(b.count(t)) != 8 || stats.Lost != 0 || len(stats.Skipped) != 0 {
				t.Errorf("%s: got %v, position %d, %+v", name, err, position, stats)
			}
		})
	}
}

// TestACorruptBatchIsTriedAgainAndThenReported: a batch that is corrupt for some seconds is read, one that stays so is a reject.
func TestACorruptBatchIsTriedAgainAndThenReported(t *testing.T) {
	for fetches, lost := range map[int]uint64{1: 0, corruptTries - 1: 0, 0: 4} {
		synctest.Test(t, func(t *testing.T) {
			k := foreign(8)
			k.Corrupt("access", 3, kafkaiotest.Corruption{From: 1, To: 4, Fetches: fetches})
			began := time.Now()
			b, position, stats, err := partition(t, k, 0)
			took, got := time.Since(began), b.rejects(t)
			if err != nil || position != 8 || len(b.count(t)) != int(8-lost) || stats.Skipped["corrupt"] != lost || took > 10*time.Second {
				t.Errorf("%d fetches: got %v, position %d after %v, %+v", fetches, err, position, took, stats)
			}
			if lost == 0 && len(got) != 0 || lost > 0 && (len(got) != 1 || got[0].Reason != "records corrupt" || got[0].Offset != 1 || took < 2*time.Second) {
				t.Errorf("%d fetches: got rejects %+v after %v", fetches, got, took)
			}
		})
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
		b.members = members
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
