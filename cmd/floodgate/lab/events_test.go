//go:build lab

package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
)

var eventKills = flag.Int("events.kills", 10, "how often TestEventsSurviveKills kills an analyzer, and how often it stops one")

// eventRules close, move ends, and warn, all the time.
const eventRules = `
version: 1
rules:
  - {name: short, callers: key, limit: 60, window: 3s, algorithm: fixed, warn: [0.5, 0.9]}
  - {name: sliding, callers: key, limit: 100, window: 16s, count_blocked: true, warn: 0.8}
  - {name: shadow, callers: key, limit: 300, window: 10s, close_for: 5s, mode: shadow}
`

// eventRun is two analyzers that share a group, and die again and again.
type eventRun struct {
	t       testing.TB
	broker  string
	rules   string
	dirs    [2]string // the first on a disk that can be filled, if one could be mounted
	small   bool
	members [2]*processtest.Program
	urls    [2]string
	gen     *generator
	rnd     *rand.Rand
}

func (r *eventRun) start(i int) {
	r.t.Helper()
	r.members[i] = start(r.t, "analyze", "--brokers", r.broker, "--rules", r.rules, "--data", filepath.Join(r.dirs[i], "counts"), "--listen", "127.0.0.1:0",
		"--api-listen", "", "--session-timeout", "2s", "--checkpoint", "50ms", "--snapshot", "3s")
	r.urls[i] = "http://" + r.members[i].WaitFor(`msg=listening address=(\S+)`, 60*time.Second)
}

// load sends for a while, in a pace at which callers close in their turn.
func (r *eventRun) load(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		r.gen.send(ctx)
		_ = kafkaio.Sleep(ctx, 20*time.Millisecond)
	}
}

// ready sends until both analyzers decide.
func (r *eventRun) ready(ctx context.Context) {
	for _, url := range r.urls {
		for {
			if _, status := processtest.Get(ctx, url+"/readyz"); status == 200 {
				break
			}
			if ctx.Err() != nil {
				r.t.Fatalf("analyzer not ready: %v", ctx.Err())
			}
			r.load(ctx, 100*time.Millisecond)
		}
	}
}

// fill fills the first analyzer's disk, and returns how it is emptied.
func (r *eventRun) fill(ctx context.Context) (empty func()) {
	path := filepath.Join(r.dirs[0], "filler")
	f, err := os.Create(path)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err = io.Copy(f, zeros{}); !errors.Is(errors.Join(err, f.Close()), syscall.ENOSPC) {
		r.t.Errorf("fill disk: got %v, want no space left", err)
	}
	r.load(ctx, 500*time.Millisecond)
	return func() {
		if err := os.Remove(path); err != nil {
			r.t.Fatal(err)
		}
	}
}

// mount mounts a small disk, where that is allowed.
func (r *eventRun) mount() {
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", r.dirs[0]).CombinedOutput()
	if err != nil {
		r.t.Logf("no full disks: %v: %s", err, out)
		return
	}
	r.small = true
	r.t.Cleanup(func() {
		if out, err := exec.Command("umount", r.dirs[0]).CombinedOutput(); err != nil {
			r.t.Errorf("unmount: %v: %s", err, out)
		}
	})
}

// die lets one analyzer die, or stop, in one of several ways.
func (r *eventRun) die(ctx context.Context, n int) {
	i := r.rnd.IntN(2)
	switch {
	case n%7 == 3 && r.small: // while its disk is full
		empty := r.fill(ctx)
		r.members[0].Kill()
		i = 0
		defer empty()
	case n%7 == 5: // and its store is lost
		r.members[i].Kill()
		if err := os.RemoveAll(filepath.Join(r.dirs[i], "counts")); err != nil {
			r.t.Fatal(err)
		}
	case n%7 == 6: // again while it restores
		r.members[i].Kill()
		r.start(i)
		r.load(ctx, time.Duration(r.rnd.IntN(300))*time.Millisecond)
		r.members[i].Kill()
	case n%2 == 0:
		r.members[i].Kill()
	default: // a planned hand-over
		if code := r.members[i].Stop(syscall.SIGTERM); code != 0 {
			r.t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, r.members[i].Text())
		}
	}
	r.load(ctx, time.Duration(r.rnd.IntN(1000))*time.Millisecond)
	r.start(i)
}

// TestEventsSurviveKills: two analyzers share the partitions, and are killed, stopped and started again, with their stores, without, and
// with a full disk. In the end the topic of events holds the events that one fold of the log without any trouble has: none is
// missing, and none is foreign.
func TestEventsSurviveKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	broker := start(t, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "log"), "--min-session-timeout", "1s").
		WaitFor(`serving Kafka on (\S+)`, 30*time.Second)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &eventRun{
		t: t, broker: broker, rules: filepath.Join(t.TempDir(), "rules.yaml"), dirs: [2]string{t.TempDir(), t.TempDir()},
		gen: newGenerator(t, broker, "floodgate.requests", seed), rnd: rand.New(rand.NewPCG(seed, 1)),
	}
	if err := os.WriteFile(r.rules, []byte(eventRules), 0o600); err != nil {
		t.Fatal(err)
	}
	r.mount()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	r.start(0)
	r.start(1)
	for n := range 2 * *eventKills {
		r.ready(ctx)
		r.load(ctx, time.Duration(200+r.rnd.IntN(1000))*time.Millisecond)
		r.die(ctx, n)
	}
	r.ready(ctx)
	r.members[1].Stop(syscall.SIGTERM)
	awaitCaughtUp(ctx, t, r.gen.client, r.urls[0], r.gen.topic)
	if code := r.members[0].Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, r.members[0].Text())
	}
	for p := range killPartitions {
		r.compare(ctx, p)
	}
}

// compare compares the events of a partition with those of one undisturbed fold.
func (r *eventRun) compare(ctx context.Context, partition int) {
	r.t.Helper()
	set, err := rules.Parse("test", []byte(eventRules))
	if err != nil {
		r.t.Fatal(err)
	}
	f := fold.New(set, fold.Options{Partition: partition, Partitions: killPartitions, Ends: true})
	want, got, copies := make(map[string]event.Event), make(map[string]event.Event), 0
	r.scan(ctx, r.gen.topic, partition, func(rec *kafkaio.Record) {
		if err := f.Frame(fold.Record{Offset: rec.Offset, Time: rec.Time, Value: rec.Value}); err != nil {
			r.t.Errorf("offset %d: %v", rec.Offset, err)
		}
		for _, c := range f.TakeChanges() {
			if e, ok := eventlog.Describe(&c, partition, -1); ok {
				want[e.ID] = e
			}
		}
	})
	r.scan(ctx, "floodgate.events", partition, func(rec *kafkaio.Record) {
		e, err := event.Decode(rec.Value)
		if err != nil {
			r.t.Fatalf("offset %d: %v", rec.Offset, err)
		}
		if _, is := got[e.ID]; is {
			copies++
		}
		got[e.ID] = e
	})
	types := make(map[event.Type]int)
	for id, e := range want {
		if types[e.Type]++; got[id].ID == "" {
			r.t.Errorf("missing: %s", e.Encode())
		}
	}
	for id, e := range got {
		if want[id].ID == "" {
			r.t.Errorf("foreign: %s", e.Encode())
		}
	}
	for _, of := range []event.Type{event.Closed, event.Extended, event.Ended, event.Warned} {
		if types[of] == 0 {
			r.t.Errorf("partition %d: got no event of type %s: nothing was tried", partition, of)
		}
	}
	r.t.Logf("partition %d: %d events, %v, and %d copies", partition, len(want), strings.Trim(fmt.Sprint(types), "map[]"), copies)
}

// scan reads a partition from its begin to its end.
func (r *eventRun) scan(ctx context.Context, topic string, partition int, take func(*kafkaio.Record)) {
	r.t.Helper()
	cursor := kafkaio.NewCursor(r.gen.client, kafkaio.CursorConfig{Topic: topic, Partition: partition, Offset: kafkaio.Earliest, MaxBytes: 4 << 20})
	_, end, err := cursor.Range(ctx)
	if err == nil {
		err = cursor.Scan(ctx, end, func(b *kafkaio.Batch) error {
			for i := range b.Records {
				take(&b.Records[i])
			}
			return nil
		})
	}
	if err != nil {
		r.t.Fatalf("read %s/%d: %v", topic, partition, err)
	}
}
