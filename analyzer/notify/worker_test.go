package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/filewatch"
	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
	"github.com/509da70d/floodgate/store/kafkaio/solo"
)

const topic = "events"

// world is a notifier with a cluster in memory, a group of one, and a receiver that a test makes. It is for a bubble.
type world struct {
	t     *testing.T
	kafka *kafkaiotest.Kafka
	n     *Notifier
	path  string
	stop  func()

	mu        sync.Mutex
	committed map[int]int64                                     // guarded by mu
	gen       *kafkaio.Generation                               // guarded by mu; nil: none yet
	end       func()                                            // guarded by mu: ends gen
	sent      []string                                          // guarded by mu: ids of messages that were tried
	at        []time.Time                                       // guarded by mu: when
	answers   func(id string, m webhook.Message) webhook.Answer // guarded by mu
	attempts  map[string]int                                    // guarded by mu: by result
}

// Next implements Membership. Each generation has all partitions.
func (w *world) Next(ctx context.Context) (*kafkaio.Generation, error) {
	w.mu.Lock()
	before := w.gen
	w.mu.Unlock()
	if before != nil {
		select {
		case <-before.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gen, w.end = kafkaio.NewGeneration(maps.Clone(w.committed), w.commit)
	return w.gen, nil
}

func (w *world) commit(offsets map[int]int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.committed, offsets)
	return nil
}

func (w *world) Close() error { return nil }

// Send implements Sender.
func (w *world) Send(ctx context.Context, m webhook.Message, at time.Time) webhook.Answer {
	w.mu.Lock()
	w.sent, w.at = append(w.sent, m.ID), append(w.at, at)
	answers := w.answers
	w.mu.Unlock()
	a := answers(m.ID, m)
	if a.Status == 0 && a.Err == nil { // never answers
		<-ctx.Done()
		return webhook.Answer{Err: ctx.Err()}
	}
	return a
}

func status(code int) webhook.Answer {
	a := webhook.Answer{Status: code}
	if code >= 300 {
		a.Err = fmt.Errorf("got status %d", code)
	}
	return a
}

func ok(string, webhook.Message) webhook.Answer { return status(http.StatusNoContent) }

const settingsText = "version: 1\nendpoints:\n  - {name: ops, url: https://ops.example.com/, template: '{{json .Text}}', digest: off}\n"

// newWorld returns a world whose notifier does not run yet; f may change its settings.
func newWorld(t *testing.T, settings string, f func(c *Config)) *world {
	t.Helper()
	w := &world{
		t: t, kafka: kafkaiotest.New(), path: filepath.Join(t.TempDir(), "notify.yaml"), committed: map[int]int64{0: -1, 1: -1}, answers: ok,
		attempts: make(map[string]int),
	}
	w.kafka.Create(2, topic)
	w.write(settings)
	loaded, err := endpoint.Load(w.path)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Fetcher: w.kafka, Join: func(string) (Membership, error) { return w, nil }, Topic: topic, Group: "g", Path: w.path, Logger: slog.New(slog.DiscardHandler),
		Sender: func(webhook.Config) Sender { return &copied{w} },
		Observe: func(a Attempt) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.attempts[a.Result]++
		},
	}
	if f != nil {
		f(&c)
	}
	w.n = New(c, loaded)
	w.n.watch = poll
	return w
}

// poll looks at files every 10 s: events of a file system do not come into a bubble.
func poll(ctx context.Context, reload <-chan struct{}, _ func() []string, look func(bool)) {
	filewatch.Loop(ctx, reload, nil, nil, look)
}

// copied makes each Sender another one.
type copied struct{ *world }

func (w *world) write(settings string) {
	w.t.Helper()
	if err := os.WriteFile(w.path, []byte(settings), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// run starts the notifier; stop ends it.
func (w *world) run() {
	ctx, stop := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.n.Run(ctx); err != nil {
			w.t.Errorf("got %v from Run, want nil", err)
		}
	})
	w.stop = func() { stop(); wg.Wait() }
}

// story runs f beside a running notifier in a bubble.
func story(t *testing.T, settings string, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, settings, nil)
		w.run()
		defer func() { w.stop() }()
		f(w)
	})
}

// quietStory is story without looks at the settings: for stories of hours.
func quietStory(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, settingsText, nil)
		w.n.watch = func(ctx context.Context, _ <-chan struct{}, _ func() []string, _ func(bool)) { <-ctx.Done() }
		w.run()
		defer func() { w.stop() }()
		f(w)
	})
}

// happens writes the event that a caller was closed, and returns its id.
func (w *world) happens(partition int, caller string) string {
	e := w.next(partition, caller)
	w.append(e)
	return e.ID
}

// next returns the event that happens would append.
func (w *world) next(partition int, caller string) *event.Event {
	_, end := w.kafka.Ends(topic, partition)
	e := closed(caller, end)
	e.Partition = partition
	e.Identify()
	return e
}

func (w *world) append(e *event.Event) {
	w.kafka.Append(topic, e.Partition, kafkaio.Message{Time: time.Now().UnixNano(), Value: e.Encode()})
}

// answer makes the receiver answer otherwise.
func (w *world) answer(f func(id string, m webhook.Message) webhook.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = f
}

// tried returns the ids of the messages that were tried, and forgets them.
func (w *world) tried() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

// wantTried wants these messages tried, in any order: those of different callers are sent at one time.
func (w *world) wantTried(want ...string) {
	w.t.Helper()
	got := w.tried()
	slices.Sort(got)
	slices.Sort(want)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		w.t.Fatalf("got %v tried, want %v", got, want)
	}
}

func (w *world) wantCommitted(partition int, want int64) {
	w.t.Helper()
	time.Sleep(2 * commitEvery)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.committed[partition]; got != want {
		w.t.Fatalf("got partition %d committed at %d, want %d", partition, got, want)
	}
}

// rebalance ends the generation; the next one begins at once.
func (w *world) rebalance() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end()
}

func (w *world) stats() EndpointStats {
	synctest.Wait()
	return w.n.Stats().Endpoints[0]
}

func TestAnEventIsDeliveredAndThenCommitted(t *testing.T) {
	story(t, settingsText, func(w *world) {
		time.Sleep(time.Second)
		id := w.happens(1, "a")
		time.Sleep(time.Second)
		w.wantTried(id)
		w.wantCommitted(1, 1)
		w.wantCommitted(0, 0)
		if s := w.stats(); s.Delivered != 1 || s.Pending != 0 || !s.Oldest.IsZero() || w.n.Waits() != "" {
			t.Errorf("got %+v and %q", s, w.n.Waits())
		}
	})
}

// TestTheScheduleOfRetries: the pauses are 5 s, 10 s and so on up to an hour, less up to a fifth; after a day the event is dropped,
// counted and committed. Its id stays the same, and what is signed is the time of each attempt.
func TestTheScheduleOfRetries(t *testing.T) {
	quietStory(t, func(w *world) {
		w.answer(func(string, webhook.Message) webhook.Answer { return status(500) })
		time.Sleep(time.Second)
		began := time.Now()
		id := w.happens(0, "a")
		time.Sleep(25 * time.Hour)
		for n, got := range w.tried() {
			if got != id {
				t.Fatalf("attempt %d: got id %s, want %s", n, got, id)
			}
		}
		for n := 1; n < len(w.at); n++ {
			longest := longestPause(n)
			if got := w.at[n].Sub(w.at[n-1]); got > longest || got < longest*8/10 {
				t.Errorf("pause %d: got %v, want up to %v, less up to a fifth", n, got, longest)
			}
		}
		if last := w.at[len(w.at)-1].Sub(began); len(w.at) < 30 || last < maxAge || last > maxAge+maxPause {
			t.Errorf("got %d attempts, the last after %v, want the last a day after", len(w.at), last)
		}
		if s := w.stats(); s.Dropped[DroppedExpired] != 1 || s.Pending != 0 || s.Delivered != 0 {
			t.Errorf("got %+v, want it dropped", s)
		}
		w.wantCommitted(0, 1)
		if w.attempts[ResultStatus] != len(w.at) {
			t.Errorf("got %v, want %d attempts", w.attempts, len(w.at))
		}
	})
}

func TestAReceiverMayAskForALongerPause(t *testing.T) {
	story(t, settingsText, func(w *world) {
		w.answer(func(string, webhook.Message) webhook.Answer {
			a := status(429)
			a.RetryAfter = 20 * time.Minute
			return a
		})
		time.Sleep(time.Second)
		id := w.happens(0, "a")
		time.Sleep(19 * time.Minute)
		w.wantTried(id)
		time.Sleep(2 * time.Minute)
		w.wantTried(id)
	})
}

// TestACallerWaitsForItsOwnEventsOnly: what is behind an event that fails stays behind it, others pass, and nothing of that is
// committed before it is delivered.
func TestACallerWaitsForItsOwnEventsOnly(t *testing.T) {
	story(t, settingsText, func(w *world) {
		time.Sleep(time.Second)
		refused := w.next(0, "a")
		bad := refused.ID
		w.answer(func(id string, _ webhook.Message) webhook.Answer {
			if id == bad {
				return status(503)
			}
			return status(200)
		})
		w.append(refused)
		b := w.happens(0, "b")
		second := w.happens(0, "a")
		time.Sleep(time.Second)
		w.wantTried(bad, b)
		w.wantCommitted(0, 0)
		c := w.happens(0, "c")
		time.Sleep(time.Second)
		w.wantTried(c)
		w.answer(ok)
		time.Sleep(5 * time.Second)
		if got := w.tried(); len(got) != 2 || got[0] != bad || got[1] != second {
			t.Errorf("got %v tried, want %s and then %s", got, bad, second)
		}
		w.wantCommitted(0, 4)
	})
}

// TestGoneDisables: nothing is sent or lost until the settings change.
func TestGoneDisables(t *testing.T) {
	story(t, settingsText, func(w *world) {
		w.answer(func(string, webhook.Message) webhook.Answer { return status(http.StatusGone) })
		time.Sleep(time.Second)
		first := w.happens(0, "a")
		time.Sleep(time.Second)
		w.wantTried(first)
		second := w.happens(0, "b")
		time.Sleep(20 * time.Minute)
		w.wantTried()
		if s := w.stats(); !s.Disabled || s.Pending != 2 || s.Oldest.IsZero() {
			t.Errorf("got %+v, want it disabled and two events kept", s)
		}
		w.wantCommitted(0, 0)
		w.answer(ok)
		w.write(settingsText + "# changed\n")
		time.Sleep(11 * time.Second)
		w.wantTried(first, second)
		w.wantCommitted(0, 2)
		w.answer(func(string, webhook.Message) webhook.Answer { return status(http.StatusGone) })
		third := w.happens(0, "c")
		time.Sleep(time.Second)
		w.wantTried(third)
		w.answer(ok)
		w.n.Reload()
		time.Sleep(time.Second)
		w.wantTried(third)
		if s := w.stats(); s.Disabled || s.Delivered != 3 {
			t.Errorf("got %+v, want all delivered", s)
		}
	})
}

// TestABacklogIsBounded: with 10,000 events that wait the worker stops reading. All are delivered in the end, and nothing is committed
// before that.
func TestABacklogIsBounded(t *testing.T) {
	testenv.Long(t)
	quietStory(t, func(w *world) {
		w.answer(func(string, webhook.Message) webhook.Answer { return status(500) })
		time.Sleep(time.Second)
		const all = defaultMaxPending + 345
		for n := range all {
			w.happens(n%2, fmt.Sprint(n%7000))
		}
		time.Sleep(time.Hour)
		if s := w.stats(); s.Pending != defaultMaxPending {
			t.Errorf("got %d events in memory, want %d", s.Pending, defaultMaxPending)
		}
		w.answer(ok)
		time.Sleep(4 * time.Hour)
		if s := w.stats(); s.Pending != 0 || s.Delivered != all || len(s.Dropped) != 2 || s.Dropped[DroppedExpired] != 0 {
			t.Errorf("got %+v, want all %d delivered", s, all)
		}
		w.wantCommitted(0, (all+1)/2)
		w.wantCommitted(1, all/2)
	})
}

// TestAStormIsOneMessage of 10,000 closes.
func TestAStormIsOneMessage(t *testing.T) {
	story(t, strings.Replace(settingsText, ", digest: off", "", 1), func(w *world) {
		time.Sleep(time.Second)
		var body string
		w.answer(func(_ string, m webhook.Message) webhook.Answer { body = string(m.Body); return status(200) })
		for n := range 10_000 {
			w.happens(n%2, fmt.Sprint(n))
		}
		time.Sleep(time.Minute)
		if got := w.tried(); len(got) != 1 || !strings.Contains(body, "and 9,990 more") || !strings.Contains(body, "10,000 events") {
			t.Errorf("got %d messages, the last\n%s\nwant one of all", len(got), body)
		}
		if s := w.stats(); s.Delivered != 10_000 || s.Digests != 1 {
			t.Errorf("got %+v, want all delivered", s)
		}
		single := w.happens(0, "later")
		time.Sleep(time.Second)
		w.wantTried(single)
	})
}

// TestARebalanceSendsAgainWhatWasNotCommitted, under the same ids, and forgets nothing.
func TestARebalanceSendsAgainWhatWasNotCommitted(t *testing.T) {
	story(t, settingsText, func(w *world) {
		w.answer(func(string, webhook.Message) webhook.Answer { return webhook.Answer{} }) // never answers
		time.Sleep(time.Second)
		first := w.happens(0, "a")
		time.Sleep(time.Second)
		w.wantTried(first)
		w.answer(ok)
		w.rebalance()
		time.Sleep(stopGrace + time.Second)
		w.wantTried(first)
		w.wantCommitted(0, 1)
	})
}

// TestARestartBeginsWhereTheGroupIs, and a new endpoint with the events of the last ten minutes.
func TestARestartBeginsWhereTheGroupIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, settingsText, nil)
		w.happens(0, "old")
		time.Sleep(lookBack + time.Minute)
		recent := w.happens(0, "recent")
		w.run()
		time.Sleep(time.Second)
		w.wantTried(recent)
		w.wantCommitted(0, 2)
		w.stop()
		time.Sleep(20 * time.Hour)
		missed := w.happens(0, "missed")
		w.n = newWorldLike(w)
		w.run()
		time.Sleep(time.Second)
		w.wantTried(missed)
		w.stop()
	})
}

// newWorldLike returns another notifier for a world, as after a restart.
func newWorldLike(w *world) *Notifier {
	w.mu.Lock()
	w.gen = nil
	w.mu.Unlock()
	n := New(w.n.c, w.n.settings)
	n.watch = poll
	return n
}

// TestNothingIsCommittedBeforeTheBeginningIsFound: a worker that is killed while it passes over old events does not deliver them
// later.
func TestNothingIsCommittedBeforeTheBeginningIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, settingsText, nil)
		w.kafka.SetMaxRecords(2)
		for range 10 {
			w.happens(0, "old")
		}
		time.Sleep(lookBack + time.Minute)
		w.happens(0, "recent")
		fetches := 0
		w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpFetch && c.Partition == 0 {
				if fetches++; fetches > 2 {
					return kafkaiotest.Down()
				}
			}
			return kafkaiotest.Fault{}
		})
		w.run()
		time.Sleep(10 * time.Second)
		w.wantTried()
		w.wantCommitted(0, -1)
		w.stop()
	})
}

// TestOfCopiesOneIsDelivered: an analyzer that takes a partition over may write an event again.
func TestOfCopiesOneIsDelivered(t *testing.T) {
	story(t, settingsText, func(w *world) {
		time.Sleep(time.Second)
		e := closed("a", 0)
		for range 3 {
			w.kafka.Append(topic, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: e.Encode()})
		}
		time.Sleep(time.Second)
		w.wantTried(e.ID)
		w.wantCommitted(0, 3)
	})
}

// TestWhatNobodyCanReadStopsNothing: bytes, events of later versions, events that no route wants, a damaged batch, and messages that
// retention took.
func TestWhatNobodyCanReadStopsNothing(t *testing.T) {
	routed := strings.Replace(settingsText, "digest: off", "digest: off, routes: [{types: [closed]}]", 1)
	story(t, routed, func(w *world) {
		time.Sleep(time.Second)
		unwanted := closed("a", 0)
		unwanted.Type = event.Warned
		unwanted.Identify()
		later := closed("a", 1)
		later.Type = "forecast"
		later.Identify()
		for _, value := range [][]byte{nil, {}, []byte("{"), []byte(`{"id":7}`), unwanted.Encode(), later.Encode()} {
			w.kafka.Append(topic, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
		}
		good := w.happens(0, "a")
		time.Sleep(time.Second)
		w.wantTried(good)
		w.wantCommitted(0, 7)
		if s := w.stats(); s.Unreadable != 2 || s.Unknown != 1 || s.Delivered != 1 || s.Lost != 0 {
			t.Errorf("got %+v, want each counted as what it is", s)
		}
		w.kafka.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.Down() })
		time.Sleep(2 * fetchWait) // so that no fetch from before is in flight
		w.happens(0, "lost")
		w.happens(0, "lost")
		w.kafka.Trim(topic, 0, 9)
		kept := w.happens(0, "kept")
		w.kafka.SetFault(nil)
		time.Sleep(5 * time.Second)
		w.wantTried(kept)
		if s := w.stats(); s.Lost != 2 {
			t.Errorf("got %d lost, want 2", s.Lost)
		}
	})
}

// TestATopicThatWasMadeAnewIsRead from its newest events.
func TestATopicThatWasMadeAnewIsRead(t *testing.T) {
	story(t, settingsText, func(w *world) {
		time.Sleep(time.Second)
		for range 5 {
			w.happens(0, "a")
		}
		time.Sleep(time.Second)
		w.tried()
		w.kafka.Recreate(topic)
		fresh := w.happens(0, "b")
		time.Sleep(5 * time.Second)
		w.wantTried(fresh)
		w.wantCommitted(0, 1)
	})
}

func TestATemplateThatFailsIsDroppedAndCounted(t *testing.T) {
	text := strings.Replace(settingsText, "{{json .Text}}", `{{if eq .Event.Rule "bad"}}{{slice .Event.Rule 9}}{{end}}{{json .Text}}`, 1)
	story(t, text, func(w *world) {
		time.Sleep(time.Second)
		e := closed("a", 0)
		e.Rule = "bad"
		e.Identify()
		w.kafka.Append(topic, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: e.Encode()})
		time.Sleep(time.Second)
		w.wantTried()
		w.wantCommitted(0, 1)
		if s := w.stats(); s.Dropped[DroppedTemplate] != 1 {
			t.Errorf("got %+v, want it dropped", s)
		}
	})
}

// TestEventsWithoutACallerGoToo, in the order of their partition.
func TestEventsWithoutACallerGoToo(t *testing.T) {
	story(t, settingsText, func(w *world) {
		time.Sleep(time.Second)
		var want []string
		for n := range 3 {
			e := &event.Event{Type: event.RulesChanged, Time: time.Now().UTC(), Offset: int64(n), RulesFrom: "a", RulesTo: "b"}
			if n == 1 {
				e = &event.Event{Type: event.Control, Time: time.Now().UTC(), Action: "close", Author: "al", Offset: int64(n), Caller: event.CallerOf(schemas.Caller{Kind: "key", ID: "\xff"})}
			}
			e.Identify()
			want = append(want, e.ID)
			w.kafka.Append(topic, 0, kafkaio.Message{Time: time.Now().UnixNano(), Value: e.Encode()})
			time.Sleep(time.Second)
		}
		w.wantTried(want...)
	})
}

// TestAGroupThatCannotBeJoinedEndsTheNotifier, so that somebody sees it; one that cannot be joined now is joined later.
func TestAGroupThatCannotBeJoinedEndsTheNotifier(t *testing.T) {
	want := errors.New("no such right")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, settingsText, func(c *Config) { c.Join = func(string) (Membership, error) { return refusing{want}, nil } })
		if err := w.n.Run(t.Context()); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, settingsText, func(c *Config) {
			c.Join = func(string) (Membership, error) { return refusing{kafkaiotest.ErrDown}, nil }
		})
		w.run()
		time.Sleep(time.Minute)
		if got := w.n.Waits(); got != "waiting for the group of endpoint ops" {
			t.Errorf("got %q, want what it waits for", got)
		}
		w.stop()
	})
}

// refusing is a group that nobody can join.
type refusing struct{ err error }

func (r refusing) Next(context.Context) (*kafkaio.Generation, error) { return nil, r.err }
func (refusing) Close() error                                        { return nil }

// TestAProcessThatIsAloneGoesOnAfterARestart where it has ended: without a group, a file says what was delivered.
func TestAProcessThatIsAloneGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := solo.OffsetsConfig{Path: filepath.Join(t.TempDir(), "offsets.json"), Partitions: 2}
		w := newWorld(t, settingsText, nil)
		start := func() {
			offsets, err := solo.OpenOffsets(c)
			if err != nil {
				t.Fatal(err)
			}
			w.n.c.Join = func(group string) (Membership, error) { return offsets.Join(group), nil }
			w.n = newWorldLike(w)
			w.run()
			time.Sleep(time.Second)
		}
		start()
		first := w.happens(0, "a")
		time.Sleep(time.Second)
		w.wantTried(first)
		w.stop()
		second := w.happens(1, "b")
		start()
		w.wantTried(second)
		w.stop()
	})
}
