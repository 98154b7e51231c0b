package analyzer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/eventlog"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// TestEventsOfALogThatWasMadeAnewAreWritten: what heartbeats say is about the old log, although the new one has grown as long.
func TestEventsOfALogThatWasMadeAnewAreWritten(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*world){
		"with the old store":    func(*world) {},
		"with the old snapshot": (*world).wipe,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start()
				w.prod.send(time.Now(), "a", "a", "a")
				w.prod.send(time.Now(), "b")
				time.Sleep(11 * time.Minute)
				w.end()

				forget(w)
				w.log.Recreate("requests")
				w.prod.id = schemas.ProducerID{8}
				w.prod.send(time.Now(), "z", "z", "z")
				for range 5 {
					w.prod.send(time.Now(), "y")
				}
				w.atRest()
				all, _ := eventsIn(t, w.log, "events")
				found := false
				for _, e := range all {
					found = found || e.Type == event.Closed && e.Caller.ID == "z"
				}
				if !found {
					t.Errorf("got %d events, none of them that z was closed", len(all))
				}
			})
		})
	}
}

// TestOffsetsThatTheLogNoLongerHasAreAGap: an owner whose topic of events did not answer may have counted them.
func TestOffsetsThatTheLogNoLongerHasAreAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Snapshot = 24 * time.Hour
		w.prod.send(time.Now(), "a")
		w.atRest()
		for range 4 {
			w.prod.send(time.Now(), "a")
		}
		w.log.Trim("requests", 0, 3)
		w.atRest()
		w.atRest() // says nothing again
		all, copies := eventsIn(t, w.log, "events")
		gaps := 0
		for _, e := range all {
			if e.Type == event.Gap {
				if gaps++; e.From != 1 || e.To != 3 {
					t.Errorf("got a gap from %d to %d, want 1 to 3", e.From, e.To)
				}
			}
		}
		if gaps != 1 || copies > 0 {
			t.Errorf("got %d gaps and %d copies, want one gap", gaps, copies)
		}
	})
}

// brokenDisk is a store that takes nothing more once it is broken.
type brokenDisk struct {
	rowStore

	broken *atomic.Bool
}

func (b brokenDisk) Commit(c store.Checkpoint, changes []store.Change) error {
	if b.broken.Load() {
		return errInjected
	}
	return b.rowStore.Commit(c, changes)
}

// TestWhatCouldNotBeCommittedIsToldOnce: the next owner applies a record, or changes rules, at the same offset.
func TestWhatCouldNotBeCommittedIsToldOnce(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a control record": func(w *world) { w.decide(1, schemas.ControlClose, "a") },
		"rules": func(w *world) {
			w.owner.SetRules(mustRules(w.t, strings.Replace(threeAMinute, "limit: 3", "limit: 1", 1)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				w := newWorld(t)
				w.setup = func(o *Owner) {
					o.ledger.openStore = func(dir string, options store.Options) (rowStore, error) {
						s, err := openStore(dir, options)
						return brokenDisk{s, &broken}, err
					}
				}
				w.start()
				w.prod.send(time.Now(), "a", "b", "b")
				time.Sleep(3 * time.Second)
				broken.Store(true)
				change(w)
				if err := <-w.done; !errors.Is(err, errInjected) {
					t.Fatalf("got %v, want %v", err, errInjected)
				}
				told, _ := eventsIn(t, w.log, "events")
				broken.Store(false)
				if name == "rules" {
					w.conf.Rules = mustRules(t, strings.Replace(threeAMinute, "limit: 3", "limit: 1", 1))
				}
				w.atRest()
				again, _ := eventsIn(t, w.log, "events")
				for id := range told {
					if e, ok := again[id]; !ok || !reflect.DeepEqual(e, told[id]) {
						t.Errorf("got event %v told by one owner, and %v by the next", told[id], e)
					}
				}
				if len(again) == 0 {
					t.Error("got no event, want one of the change")
				}
			})
		})
	}
}

// boundedTopic is a producer whose topic takes as many bytes at a time as Kafka does without a setting.
type boundedTopic struct {
	written int
	refused int
}

func (b *boundedTopic) Produce(_ context.Context, _ string, _ int, messages ...kafkaio.Message) (int64, error) {
	bytes := 0
	for _, m := range messages {
		bytes += len(m.Key) + len(m.Value)
	}
	if bytes > 1<<20 {
		b.refused++
		return -1, kafkaio.ErrTooLarge
	}
	b.written += len(messages)
	return int64(b.written - len(messages)), nil
}

// TestIDsThatJSONEscapesDoNotStopEvents: strangers choose ids. Where JSON makes six bytes of each, a produce must still
// be one that the topic takes.
func TestIDsThatJSONEscapesDoNotStopEvents(t *testing.T) {
	for name, b := range map[string]string{"an angle bracket": "<", "a control character": "\x01", "no UTF-8": "\xff"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := eventlog.NewQueue()
				for i := range 2 * maxEventsSent {
					at, number := time.Unix(int64(i), 0).UTC(), fmt.Sprint(i)
					e := event.Event{
						Type: event.Closed, Time: at, Offset: int64(i), Rule: strings.Repeat("r", 64), Mode: "enforce", CloseAt: at, Until: at.Add(time.Minute),
						Caller: event.CallerOf(schemas.Caller{Kind: "key", ID: number + strings.Repeat(b, schemas.MaxCallerID-len(number))}),
					}
					e.Identify()
					q.Add(&e)
				}
				topic := &boundedTopic{}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go newEventWriter(topic, OwnerConfig{Events: "events"}, q).run(ctx)
				time.Sleep(time.Minute)
				if !q.Empty() || topic.written != 2*maxEventsSent || topic.refused > 0 {
					t.Errorf("got %d events written, and %d produces refused; want %d and none", topic.written, topic.refused, 2*maxEventsSent)
				}
			})
		})
	}
}

// TestAnOwnerWaitsForNoTopicThatIsAway: it ends at once if events have been refused for a while, after awayEvents if they just began
// to be, and when they are written if the topic is only slow.
func TestAnOwnerWaitsForNoTopicThatIsAway(t *testing.T) {
	t.Parallel()
	events := func(f kafkaiotest.Fault) func(kafkaiotest.Call) kafkaiotest.Fault {
		return func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpProduce && c.Topic == "events" {
				return f
			}
			return kafkaiotest.Fault{}
		}
	}
	for name, c := range map[string]struct {
		fault   kafkaiotest.Fault
		failing time.Duration // before the owner ends
		longest time.Duration // that it takes to end
		told    bool
	}{
		"fine":         {kafkaiotest.Fault{}, 0, 100 * time.Millisecond, true},
		"slow":         {kafkaiotest.Slow(700 * time.Millisecond), 0, 900 * time.Millisecond, true},
		"just refused": {kafkaiotest.Down(), time.Millisecond, awayEvents + 100*time.Millisecond, false},
		"long refused": {kafkaiotest.Down(), time.Minute, 100 * time.Millisecond, false},
		"no answer":    {kafkaiotest.Silent(), 0, lastEvents + 100*time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start()
				time.Sleep(time.Second)
				w.log.SetFault(events(c.fault))
				w.prod.send(time.Now(), "z", "z", "z")
				time.Sleep(100 * time.Microsecond)
				synctest.Wait()
				time.Sleep(c.failing)
				began := time.Now()
				w.end()
				if took := time.Since(began); took > c.longest {
					t.Errorf("got an end after %v, want at most %v", took, c.longest)
				}
				all, _ := eventsIn(t, w.log, "events")
				closed := func(e event.Event) bool { return e.Type == event.Closed && e.Caller.ID == "z" }
				told := slices.ContainsFunc(slices.Collect(maps.Values(all)), closed)
				if told != c.told {
					t.Errorf("got the closure told: %t, want %t", told, c.told)
				}
				w.log.SetFault(nil)
				w.atRest()
				if all, _ = eventsIn(t, w.log, "events"); !slices.ContainsFunc(slices.Collect(maps.Values(all)), closed) {
					t.Errorf("got %d events in the end, want the closure among them: it was in the store", len(all))
				}
			})
		})
	}
}
