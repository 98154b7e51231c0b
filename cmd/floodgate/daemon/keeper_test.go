package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/filelog"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// keptLog is a log of segments that have four messages of a kilobyte each, and its keeper.
type keptLog struct {
	*keeper

	t     *testing.T
	names schemas.TopicNames
	now   time.Time
	seq   uint64
	fails error    // of the next syncs
	syncs [][2]any // for each sync, the first offset of requests/0 and of state/0 then
	said  strings.Builder
}

func newKeptLog(t *testing.T, maxBytes int64) *keptLog {
	t.Helper()
	l := &keptLog{t: t, names: schemas.DefaultTopicNames(), now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}
	log, err := filelog.Open(t.TempDir(), filelog.Options{SegmentBytes: 4500, Clock: func() time.Time { return l.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() }) // it is a directory of the test
	if _, err := log.EnsureTopics(t.Context(), kafkaio.Specs(l.names, 2)...); err != nil {
		t.Fatal(err)
	}
	sync := func() error {
		l.syncs = append(l.syncs, [2]any{l.first(l.names.Requests, 0), l.first(l.names.State, 0)})
		return errors.Join(l.fails, log.Sync())
	}
	l.keeper = newKeeper(log, keeperConfig{
		Names: l.names, Partitions: 2, Keep: time.Hour, MaxBytes: maxBytes, Sync: sync, Logger: slog.New(slog.NewTextHandler(&l.said, nil)),
	})
	return l
}

// write appends n messages of a kilobyte.
func (l *keptLog) write(topic string, partition, n int) {
	l.t.Helper()
	for range n {
		value := make([]byte, 1000)
		_, _ = rand.Read(value) // cannot be packed
		if _, err := l.Produce(l.t.Context(), topic, partition, kafkaio.Message{Time: l.now.UnixNano(), Value: value}); err != nil {
			l.t.Fatalf("%s: %v", topic, err)
		}
	}
}

// snapshot writes one that begins at an offset of requests, and returns where it begins in state.
func (l *keptLog) snapshot(partition int, offset int64) int64 {
	l.t.Helper()
	value, err := pb.AppendState(nil, &pb.StateRecord{Record: &pb.StateRecord_Begin{Begin: &pb.StateBegin{Epoch: 1, Offset: offset, Parts: 1}}})
	if err != nil {
		l.t.Fatal(err)
	}
	at, err := l.Produce(l.t.Context(), l.names.State, partition, kafkaio.Message{Time: l.now.UnixNano(), Value: value})
	if err != nil {
		l.t.Fatal(err)
	}
	l.write(l.names.State, partition, 5)
	return at
}

// announce writes a heartbeat that names a snapshot, and the cycle of repeats that began at from.
func (l *keptLog) announce(partition int, snapshot, from int64) {
	l.t.Helper()
	l.seq++
	value, err := pb.AppendHeartbeat(nil, &schemas.Heartbeat{Partition: int32(partition), Epoch: 1, Seq: l.seq, Time: l.now.UnixNano(), State: snapshot + 1, From: from})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.Produce(l.t.Context(), l.names.Decisions, partition, kafkaio.Message{Time: l.now.UnixNano(), Value: value}); err != nil {
		l.t.Fatal(err)
	}
}

// look looks after d.
func (l *keptLog) look(d time.Duration) {
	l.t.Helper()
	l.now = l.now.Add(d)
	if err := l.keeper.look(l.t.Context(), l.now); err != nil {
		l.t.Fatal(err)
	}
}

func (l *keptLog) first(topic string, partition int) int64 {
	l.t.Helper()
	first, _, err := l.Range(l.t.Context(), topic, partition)
	if err != nil {
		l.t.Fatal(err)
	}
	return first
}

// begins wants a partition to begin at an offset.
func (l *keptLog) begins(what, topic string, partition int, want int64) {
	l.t.Helper()
	if got := l.first(topic, partition); got != want {
		l.t.Errorf("%s: %s/%d begins at %d, want %d", what, topic, partition, got, want)
	}
}

// TestWhatOwnersNeedIsKept, however old it is: requests that the announced snapshot has not, that snapshot, and the decisions of the cycle
// before. All of it is on disk before anything is removed.
func TestWhatOwnersNeedIsKept(t *testing.T) {
	l := newKeptLog(t, 1_000_000)
	requests, state := l.names.Requests, l.names.State
	l.write(requests, 0, 40)
	l.write(requests, 1, 40)
	l.look(100 * time.Hour)
	l.begins("without a snapshot", requests, 0, 0)

	old := l.snapshot(0, 22) // fewer than six segments
	l.announce(0, old, 0)
	l.look(time.Minute)
	l.begins("old, and a snapshot has it", requests, 0, 20)
	l.begins("old, and a snapshot of another partition", requests, 1, 0)
	l.begins("the only snapshot", state, 0, old)
	l.write(state, 0, 3)
	newer := l.snapshot(0, 38) // its begin is the last message of a segment
	l.look(time.Minute)
	l.begins("a snapshot that no heartbeat names", requests, 0, 20)
	l.begins("the named one", state, 0, old)

	l.announce(0, newer, 0)
	l.fails = errors.New("no sync")
	if err := l.keeper.look(t.Context(), l.now.Add(time.Minute)); !errors.Is(err, l.fails) {
		t.Errorf("got %v, want the error of the sync", err)
	}
	l.begins("the snapshot may not be on disk", requests, 0, 20)
	l.fails, l.syncs = nil, nil
	l.look(time.Minute)
	l.begins("the next snapshot is named", requests, 0, 36)
	l.begins("the one before is not needed", state, 0, 5)
	if got, want := fmt.Sprint(l.syncs), "[[20 0]]"; got != want {
		t.Errorf("got syncs when requests and state began at %s, want one before anything was removed: %s", got, want)
	}
	l.announce(0, newer, 0)
	l.write(l.names.Control, 0, 40)
	l.look(10_000 * time.Hour)
	l.begins("people's decisions", l.names.Control, 0, 0)
	l.begins("the last segment", requests, 0, 36)
}

// TestRequestsAreKeptAsLongAsSaid where a snapshot has them, and there is room.
func TestRequestsAreKeptAsLongAsSaid(t *testing.T) {
	l := newKeptLog(t, 1_000_000)
	requests := l.names.Requests
	l.write(requests, 0, 20)
	l.now = l.now.Add(30 * time.Minute)
	l.write(requests, 0, 20)
	l.announce(0, l.snapshot(0, 40), 0)
	l.look(30*time.Minute - time.Second)
	l.begins("younger than an hour", requests, 0, 0)
	l.look(time.Second)
	l.begins("an hour", requests, 0, 20)
	l.look(30 * time.Minute)
	l.begins("all but the last segment", requests, 0, 36)
}

// TestDecisionsAreKeptFromTheCycleThatReadersStartAt.
func TestDecisionsAreKeptFromTheCycleThatReadersStartAt(t *testing.T) {
	l := newKeptLog(t, 1_000_000)
	decisions := l.names.Decisions
	l.announce(0, -1, 0)
	l.write(decisions, 0, 39)
	l.announce(0, -1, 0)
	l.look(100 * time.Hour)
	l.begins("a cycle from the start", decisions, 0, 0)
	l.announce(0, -1, 40)
	l.look(time.Minute)
	l.begins("a cycle in the tenth segment", decisions, 0, 37)
}

// TestALogWithoutRoom removes the oldest requests that a snapshot has, of whichever partition. Then reading waits, other topics do not, and
// reading goes on after the next snapshot.
func TestALogWithoutRoom(t *testing.T) {
	l := newKeptLog(t, 100_000)
	requests := l.names.Requests
	l.write(requests, 1, 20)
	l.now = l.now.Add(time.Second)
	l.write(requests, 0, 48)
	l.announce(0, l.snapshot(0, 28), 0)
	l.announce(1, l.snapshot(1, 20), 0)
	l.look(0)
	l.begins("nine tenths", requests, 0, 0)
	l.write(requests, 1, 8)
	l.look(0)
	l.begins("more than that, the oldest", requests, 1, 4)
	l.begins("and only that", requests, 0, 0)
	l.write(requests, 0, 64)
	l.look(0)
	l.begins("all that a snapshot has", requests, 0, 28)
	l.begins("likewise", requests, 1, 20)
	if l.waits() == "" {
		t.Fatal("want it to say that it waits")
	}
	_, err := l.Produce(t.Context(), requests, 0, kafkaio.Message{Value: []byte("x")})
	if refused, ok := errors.AsType[*kafkaio.RequestError](err); !ok || refused.Outcome != kafkaio.Unsent || !errors.Is(err, errFull) {
		t.Errorf("got %v, want requests refused, and unsent", err)
	}
	l.write(l.names.Events, 0, 1)
	l.look(0)
	l.announce(0, l.snapshot(0, 112), 0)
	l.look(0)
	if why := l.waits(); why != "" {
		t.Errorf("got %s, want room after a snapshot", why)
	}
	l.write(requests, 0, 1)
	if said := l.said.String(); strings.Count(said, "level=ERROR") != 1 || strings.Count(said, "there is room in the log again") != 1 {
		t.Errorf("got %s, want each change once", said)
	}
}

// TestALogThatCannotBeWrittenIsNotFull: reading waits, and more --keep-bytes would not help.
func TestALogThatCannotBeWrittenIsNotFull(t *testing.T) {
	l := newKeptLog(t, 100_000)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Produce(t.Context(), l.names.Requests, 0, kafkaio.Message{Value: []byte("x")}); err == nil || l.waits() == "" || l.isFull() {
		t.Errorf("got %v, waiting for %q, full %v; want an error, and a log that waits and is not full", err, l.waits(), l.isFull())
	}
}

// TestEventsAndRejectsHaveTheirParts of the room, and their ages.
func TestEventsAndRejectsHaveTheirParts(t *testing.T) {
	l := newKeptLog(t, 400_000) // 20 kB each
	for _, topic := range []string{l.names.Events, l.names.Rejects} {
		l.write(topic, 0, 16)
		l.look(time.Minute)
		l.begins("it has room", topic, 0, 0)
		l.write(topic, 0, 16)
		l.look(time.Minute)
		l.begins("more than its part", topic, 0, 12)
	}
	l.look(time.Hour)
	l.begins("rejects of an hour", l.names.Rejects, 0, 28)
	l.begins("events of an hour", l.names.Events, 0, 12)
	l.look(30 * 24 * time.Hour)
	l.begins("events of a month", l.names.Events, 0, 28)
}
