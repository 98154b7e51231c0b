package kafkalink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// diary is a Handler that writes down what it takes.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) Partitions(n int) { d.write("%d partitions", n) }

func (d *diary) Decisions(partition int, ds []schemas.Decision, now time.Time) {
	for i := range ds {
		d.write("%s", ds[i].Caller.ID)
		if longest := now.Add(schemas.MaxClosure).UnixNano(); ds[i].Until > longest || int(ds[i].Partition) != partition {
			d.write("until %d in partition %d", ds[i].Until, partition)
		}
	}
}
func (d *diary) Heartbeat(h *schemas.Heartbeat, _ time.Time) { d.write("beat %d.%d", h.Epoch, h.Seq) }
func (d *diary) CaughtUp(partition int)                      { d.write("caught up %d", partition) }
func (d *diary) Refused(_ int, reason string, n uint64)      { d.write("%d %s", n, reason) }
func (d *diary) Restarted(partition int)                     { d.write("restarted %d", partition) }

// take returns the lines that were written since.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *diary) want(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := d.take(); !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func quiet(log Log, once bool) FollowConfig {
	return FollowConfig{Log: log, Once: once, Logger: slog.New(slog.DiscardHandler)}
}

// TestFollowOnceEndsAtTheEnd of what there is, and believes what gates believe: not an owner that was replaced, not a stranger, and
// nothing from before the last complete cycle. Canaries are nobody's business.
func TestFollowOnceEndsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCluster(1)
		o := &owner{k: k, epoch: 5}
		o.claim()
		o.decide("old", time.Hour)
		o.from = o.decide("new", 1000*24*time.Hour)
		o.beat()
		o.k.Append("floodgate.decisions", 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte("not a record")})
		(&owner{k: k, epoch: 4, seq: 70}).decide("a ghost's", time.Hour)
		o.seq++
		o.write(pb.Record{Decision: &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: schemas.KindCanary, ID: "c"}, Mode: schemas.ModeEnforce, Epoch: o.epoch, Seq: o.seq,
		}})
		o.decide("newest", time.Hour)
		var d diary
		if err := Follow(t.Context(), quiet(k, true), &d); err != nil {
			t.Fatal(err)
		}
		d.want(t, "once", "1 partitions", "new", "beat 5.3", "1 malformed", "1 fenced", "newest", "caught up 0")
	})
}

// TestFollowOnceSaysWhatIsWrong: a person stands before it.
func TestFollowOnceSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		if err := Follow(t.Context(), quiet(nil, true), &d); !errors.Is(err, kafkaio.ErrNoBrokers) {
			t.Errorf("got %v, want %v", err, kafkaio.ErrNoBrokers)
		}
		k := newCluster(2)
		k.SetFault(down)
		if err := Follow(t.Context(), quiet(k, true), &d); err == nil {
			t.Error("got no error of a Kafka that is down")
		}
		k.SetFault(nil)
		k.Delete("floodgate.decisions")
		if err := Follow(t.Context(), quiet(k, true), &d); !errors.Is(err, kafkaio.ErrNoTopic) {
			t.Errorf("got %v, want %v", err, kafkaio.ErrNoTopic)
		}
		d.want(t, "without a topic")
		k.Create(2, "floodgate.decisions")
		if err := Follow(t.Context(), quiet(k, true), &d); err != nil {
			t.Error(err)
		}
		if got := d.take(); len(got) != 3 || got[0] != "2 partitions" {
			t.Errorf("got %q, want both partitions caught up", got)
		}
	})
}

// TestFollowGoesOn through a Kafka that is away at the start and later, a log that is cut behind it, and more partitions. It says in the log
// once that Kafka is away.
func TestFollowGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCluster(1)
		k.SetFault(down)
		var logs strings.Builder
		var d diary
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Follow(ctx, FollowConfig{Log: k, Logger: slog.New(slog.NewTextHandler(&logs, nil))}, &d)
		}()
		pass(time.Minute)
		d.want(t, "while Kafka is away")
		k.SetFault(nil)
		pass(time.Minute)
		d.want(t, "then", "1 partitions", "caught up 0")
		o := &owner{k: k, epoch: 5}
		o.claim()
		o.decide("a", time.Hour)
		k.SetFault(down)
		pass(time.Minute)
		o.decide("b", 0)
		k.SetFault(nil)
		pass(time.Minute)
		d.want(t, "through a break", "a", "b")
		_, end := k.Ends("floodgate.decisions", 0)
		k.SetFault(down)
		pass(time.Second)
		k.Cut("floodgate.decisions", 0, end-1) // as an unclean election does: what was read is not there any more
		heir := &owner{k: k, epoch: 6}
		heir.claim()
		heir.from = heir.decide("c", time.Hour)
		heir.beat()
		heir.decide("d", time.Hour)
		k.SetFault(nil)
		pass(time.Minute)
		d.want(t, "the partition has another record in the place of the last one read, and is read again", "restarted 0", "c", "beat 6.2", "d")
		k.Create(3, "floodgate.decisions")
		pass(watchInterval + time.Minute)
		got := d.take()
		if len(got) == 0 || got[0] != "3 partitions" || !slices.Contains(got, "caught up 2") || !slices.Contains(got, "c") {
			t.Errorf("got %q, want all read again, of 3 partitions", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("got %v, want a clean end", err)
		}
		if down := strings.Count(logs.String(), "follower of decisions is down"); down != 3 {
			t.Errorf("got %d lines, want 3: one for each time that Kafka was away:\n%s", down, logs.String())
		}
	})
}

// TestALinkIsWatched: what the Link applies to its Set goes to the Watch as well, and the Set has it first.
func TestALinkIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &behindSet{}
		w := newWorld(t, 1, Config{Watch: d})
		d.world = w
		o := &owner{k: w.kafka, epoch: 5}
		o.claim()
		o.from = o.decide("before", time.Hour)
		o.beat()
		w.start()
		d.want(t, "at the start", "1 partitions", "before", "closed: true", "beat 5.2", "caught up 0")
		if err := w.link.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		(&owner{k: w.kafka, epoch: 4}).beat()
		o.decide("next", time.Hour)
		pass(time.Second)
		d.want(t, "then", "1 fenced", "next", "closed: true")
		_, end := w.kafka.Ends("floodgate.decisions", 0)
		w.kafka.SetFault(down)
		pass(time.Second)
		w.kafka.Cut("floodgate.decisions", 0, end-1)
		heir := &owner{k: w.kafka, epoch: 6}
		heir.claim()
		heir.from = heir.decide("after", time.Hour)
		heir.beat()
		w.kafka.SetFault(nil)
		pass(time.Minute)
		d.want(t, "after the place was lost", "restarted 0", "after", "closed: true", "beat 6.2")
		w.kafka.Create(2, "floodgate.decisions", "floodgate.requests")
		pass(watchInterval + time.Minute)
		if got := d.take(); len(got) == 0 || got[0] != "2 partitions" || !slices.Contains(got, "caught up 1") {
			t.Errorf("got %q, want all read again, of 2 partitions", got)
		}
	})
}

// behindSet is a diary that also asks the Set whether the decision has taken force.
type behindSet struct {
	diary
	world *world
}

func (b *behindSet) Decisions(partition int, ds []schemas.Decision, now time.Time) {
	b.diary.Decisions(partition, ds, now)
	b.write("closed: %t", b.world.keys.Closed(ds[0].Caller.ID))
}
