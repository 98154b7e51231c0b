package analyzer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// grown returns what the producers of a new leader send: n frames of one request of a key each.
func (w *world) grown(n int, key string) (msgs []kafkaio.Message) {
	w.t.Helper()
	for i := range n {
		value := foldtest.Encode(w.t, foldtest.KeysFrame(schemas.ProducerID{9}, uint64(i+1), time.Now(), key))
		msgs = append(msgs, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
	}
	return msgs
}

// TestALogThatHasGrownAgainIsCountedAgain: requests[p] loses records that a running owner has counted, and has more than before when the
// owner looks again. The owner notices it before it counts the first new record. The next one counts the log that exists, and publishes
// the events of it.
func TestALogThatHasGrownAgainIsCountedAgain(t *testing.T) {
	for _, tc := range []struct {
		name       string
		checkpoint time.Duration
		change     func(w *world)
	}{
		{"an election, while a fetch waits", 0, func(w *world) { w.log.Cut("requests", 0, 4, w.grown(20, "b")...) }},
		{"an election, while Kafka is away", 0, func(w *world) { w.away(func() { w.log.Cut("requests", 0, 4, w.grown(20, "b")...) }) }},
		{"an election that leaves nothing", 0, func(w *world) { w.log.Cut("requests", 0, 0, w.grown(20, "b")...) }},
		{"an election, and the log is as long as before for a while", 0, func(w *world) {
			msgs := w.grown(20, "b")
			w.log.Cut("requests", 0, 4, msgs[:6]...)
			time.Sleep(time.Second)
			w.log.Append("requests", 0, msgs[6:]...)
		}},
		{"an election that loses nothing of the last checkpoint", 6 * time.Second, func(w *world) { w.log.Cut("requests", 0, 7, w.grown(20, "b")...) }},
		{"made anew, while a fetch waits", 0, func(w *world) { w.remake() }},
		{"made anew, while Kafka is away", 0, func(w *world) { w.away(w.remake) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.conf.Snapshot, w.conf.Checkpoint = 5*time.Second, tc.checkpoint
				w.start()
				for i := range byte(10) {
					w.prod.send(time.Now(), "a")
					time.Sleep(time.Second)
					if i%2 == 0 { // places before and behind what the log will lose: the topic of control still has them
						w.decide(i+1, schemas.ControlReset, "a")
					}
				}
				time.Sleep(123 * time.Millisecond) // a fetch waits now
				tc.change(w)
				if err := <-w.done; !errors.Is(err, errOtherLog) || !errors.Is(err, kafkaio.ErrTruncated) {
					t.Fatalf("got %v, want %v", err, errOtherLog)
				}
				w.stop()
				w.conf.otherLog = true // as an Analyzer says to the next owner
				w.atRest()
				if r := w.wantExact(); r.Approximate() || r.Log.Controls != 5 {
					t.Errorf("got %d control records, approximate %v; want all 5 at their places", r.Log.Controls, r.Approximate())
				}
				want := w.elsewhere(w.log.clone())
				want.wipe()
				want.log.Recreate("state")
				want.atRest()
				if got, want := w.checkpoint(), want.checkpoint(); got.Digest != want.Digest || got.Next != want.Next {
					t.Errorf("got %+v, want what the log alone gives: %+v", got, want)
				}
				got, _ := eventsIn(t, w.log, "events")
				for id, e := range undisturbed(t, w.conf.Rules, w.conf.Fold, w.log.Records("requests", 0)) {
					if _, is := got[id]; !is && e.Caller.ID == "b" { // the resets of a are not in that fold
						t.Errorf("missing: %s", e.Encode())
					}
				}
			})
		})
	}
}

// remake makes requests[p] anew, and fills it beyond where its owner is.
func (w *world) remake() {
	w.log.Recreate("requests")
	w.log.Append("requests", 0, w.grown(20, "b")...)
}

// away makes a change while nobody reaches Kafka.
func (w *world) away(change func()) {
	w.log.SetDown(true)
	time.Sleep(2 * time.Second)
	change()
	w.log.SetDown(false)
}

// TestASnapshotWithRowsOfAnotherLogIsNotUsed: its begin is of this log, but some of its rows count records that a new leader did not have.
func TestASnapshotWithRowsOfAnotherLogIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		keys := make([]string, 2000)
		for i := range keys {
			keys[i] = fmt.Sprint("key-", i)
		}
		w.prod.send(time.Now(), keys...)
		w.conf.Snapshot = 4 * time.Second
		w.start()
		for w.log.ends(t) < 2 { // the second cycle lasts for some seconds, in which records come
			w.prod.send(time.Now(), keys[len(keys)-1])
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second) // a heartbeat announces it
		w.end()
		var begin, last int64
		for _, r := range w.log.state(t) {
			if b := r.GetBegin(); b.GetCycle() == 2 {
				begin = b.GetOffset()
			}
			if row := r.GetRow(); row.GetCycle() == 2 {
				last = row.GetNext()
			}
		}
		cut := (begin + last) / 2
		if cut <= begin || cut >= last {
			t.Fatalf("the snapshot begins at %d and ends at %d, want records in between", begin, last)
		}
		w.log.Cut("requests", 0, cut, w.grown(int(last), "b")...)
		other := w.elsewhere(w.log)
		other.atRest()
		other.wantExact()
		want := w.elsewhere(w.log.clone())
		want.log.Recreate("state")
		want.atRest()
		if got, want := other.checkpoint(), want.checkpoint(); got.Digest != want.Digest {
			t.Errorf("got %+v, want what the log alone gives: %+v", got, want)
		}
	})
}

// TestABrokerThatComesBackWithAnOlderLog lacks records that the analyzer has counted, and gets more than it lacks before the analyzer
// reaches it again. A new leader of an unclean election looks the same.
func TestABrokerThatComesBackWithAnOlderLog(t *testing.T) {
	t.Parallel()
	dir, older := t.TempDir(), t.TempDir()+"/older"
	var broker *embedded.Broker
	start := func(listen string) {
		b, err := embedded.Start(embedded.Options{Dir: dir, Listen: listen, MinSession: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		broker = b
	}
	stop := func() {
		if err := broker.Close(); err != nil {
			t.Fatal(err)
		}
	}
	start("")
	defer func() { stop() }()
	c := clusterOn(t, broker.Addrs(), 2*time.Second)
	var away atomic.Bool
	client := kafkaio.New(kafkaio.Config{Brokers: c.brokers, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	defer client.Close()
	var logs bytes.Buffer
	c.logger = slog.New(slog.NewTextHandler(&logs, nil))
	m := c.joinBy(client, t.TempDir(), false)
	c.send(100)
	c.send(100)
	c.await(m)
	stop()
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	start(broker.Addr())
	truth := maps.Clone(c.truth)
	for range 3 {
		c.send(100)
	}
	c.await(m)
	away.Store(true)
	stop()
	if err := errors.Join(os.RemoveAll(dir), os.Rename(older, dir)); err != nil {
		t.Fatal(err)
	}
	start(broker.Addr())
	c.producer, c.seq, c.truth = 1, [clusterPartitions]uint64{}, truth
	for range 5 {
		c.send(60)
	}
	away.Store(false)
	c.await(m)
	for _, s := range m.Stats() {
		if s.OtherLogs != 1 {
			t.Errorf("partition %d: got %d other logs, want 1", s.Partition, s.OtherLogs)
		}
	}
	c.leave(m)
	c.compare(map[int]string{0: m.dir, 1: m.dir, 2: m.dir, 3: m.dir})
	if n := strings.Count(logs.String(), errOtherLog.Error()); n < clusterPartitions {
		t.Errorf("got %d lines that say why, want one for each partition:\n%s", n, logs.String())
	}
}
