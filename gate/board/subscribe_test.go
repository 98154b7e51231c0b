package board

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// drain returns all events that there are now.
func drain(t *testing.T, s *Subscription) (events []Event) {
	t.Helper()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		e, err := s.Next(over)
		if errors.Is(err, context.Canceled) {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
}

// text says the events in short, as "in_force a, current, closed b".
func text(events []Event) string {
	var parts []string
	for _, e := range events {
		part := e.Kind.String()
		if e.Decision.Caller.ID != "" {
			part += " " + e.Decision.Caller.ID
		}
		if e.Missed > 0 {
			part += fmt.Sprint(" ", e.Missed)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func subscribe(t *testing.T, b *Board, after uint64) *Subscription {
	t.Helper()
	s, err := b.Subscribe(after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func wantEvents(t *testing.T, s *Subscription, want string) []Event {
	t.Helper()
	got := drain(t, s)
	if text(got) != want {
		t.Errorf("got %q, want %q", text(got), want)
	}
	return got
}

// TestASubscriberGetsAllAndThenChanges, also one that comes while the board loads: partition by partition, each closure once.
func TestASubscriberGetsAllAndThenChanges(t *testing.T) {
	b := New(Options{FirstChange: 1000})
	early := subscribe(t, b, 0)
	wantEvents(t, early, "")
	b.Resize(2)
	of := func(p int32, d schemas.Decision) []schemas.Decision {
		d.Partition = p
		return []schemas.Decision{d}
	}
	b.Apply(of(0, closing("r", "a", 0, 60)), at(1))
	b.Apply(of(1, closing("r", "b", 0, 60)), at(1))
	b.Apply(of(0, closing("r", "was opened", 0, 60)), at(1))
	b.Apply(of(0, closing("r", "was opened", 1, 1)), at(1))
	wantEvents(t, early, "")
	b.Loaded(1)
	wantEvents(t, early, "in_force b")
	b.Apply(of(0, closing("r", "c", 0, 60)), at(1)) // partition 0 still loads
	b.Apply(of(1, closing("r", "d", 0, 60)), at(1))
	wantEvents(t, early, "closed d")
	b.Loaded(0)
	b.Loaded(0)
	wantEvents(t, early, "in_force a, in_force c, current")
	late := subscribe(t, b, 0)
	b.Apply(of(0, closing("r", "a", 0, 70)), at(2))
	b.Apply(of(0, closing("r", "c", 2, 2)), at(2))
	wantEvents(t, early, "changed a, opened c")
	events := wantEvents(t, late, "changed a, opened c, in_force a, in_force b, in_force d, current")
	b.Apply(of(0, closing("r", "e", 0, 9)), at(3))
	b.Expire(at(100))
	wantEvents(t, late, "closed e, ended e, ended b, ended d, ended a")

	again := subscribe(t, b, events[len(events)-1].Number)
	wantEvents(t, again, "closed e, ended e, ended b, ended d, ended a, current")
	wantEvents(t, subscribe(t, b, b.changed), "current") // it has missed nothing
	wantEvents(t, subscribe(t, b, 1000), "closed d, changed a, opened c, closed e, ended e, ended b, ended d, ended a, current")
	for _, strange := range []uint64{1, 999, b.changed + 1, 1 << 63} { // of another process
		wantEvents(t, subscribe(t, b, strange), "lost, current")
	}
}

// TestASlowSubscriberIsToldThatItLost, how much, and gets all again. A board whose partitions change says so too.
func TestASlowSubscriberIsToldThatItLost(t *testing.T) {
	b := ready(1, Options{})
	slow := subscribe(t, b, 0)
	wantEvents(t, slow, "current")
	for i := range MaxChanges + 7 {
		b.Apply([]schemas.Decision{closing("r", "a", 0, float64(60+i))}, at(1))
	}
	events := wantEvents(t, slow, "lost 7, in_force a, current")
	if got := b.Status().Lost; got != 1 {
		t.Errorf("got %d lost, want 1", got)
	}
	if d := events[1].Decision; d.Until != at(60+MaxChanges+6).UnixNano() {
		t.Errorf("got %+v, want the newest", d)
	}
	for i := range MaxChanges {
		b.Apply([]schemas.Decision{closing("r", "b", 0, float64(60+i))}, at(1))
	}
	if got := drain(t, slow); len(got) != MaxChanges || got[0].Kind != Closed {
		t.Errorf("got %d events, want %d: the ring has room for so many", len(got), MaxChanges)
	}
	b.Resize(2)
	wantEvents(t, slow, "lost")
	b.Loaded(0)
	wantEvents(t, slow, "in_force a, in_force b")
	b.Loaded(1)
	wantEvents(t, slow, "current")
	if got := b.Changes(10); len(got) != 0 {
		t.Errorf("got %v, want none of before", text(got))
	}
}

// TestSubscribersEndInOneState: whatever the order of reading and writing, what a subscriber has collected is what is in force.
func TestSubscribersEndInOneState(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := New(Options{FirstChange: 1 << 60})
		b.Resize(4)
		var subs []*Subscription
		held := []map[Key]schemas.Decision{}
		for step := range 3000 {
			now := at(float64(step))
			switch rng.IntN(40) {
			case 0:
				if len(subs) < 5 {
					subs, held = append(subs, subscribe(t, b, 0)), append(held, map[Key]schemas.Decision{})
				}
			case 1:
				b.Loaded(rng.IntN(4))
			case 2:
				b.Expire(now)
			case 3:
				if rng.IntN(20) == 0 {
					b.Resize(4)
				}
			default:
				d := closing("r", fmt.Sprint(rng.IntN(300)), 0, float64(step)+rng.Float64()*200-20)
				d.Partition = int32(len(d.Caller.ID)) // 1 to 3
				b.Apply([]schemas.Decision{d}, now)
			}
			for i, s := range subs {
				for range rng.IntN(3) {
					if e, wake := s.next(); wake == nil {
						Collect(held[i], &e)
					}
				}
			}
		}
		for p := range 4 {
			b.Loaded(p)
		}
		want := maps.Collect(func(yield func(Key, schemas.Decision) bool) {
			for d := range b.All {
				yield(Key{d.Rule, d.Caller}, d)
			}
		})
		for i, s := range subs {
			for _, e := range drain(t, s) {
				Collect(held[i], &e)
			}
			if !reflect.DeepEqual(held[i], want) {
				t.Fatalf("seed %d: a subscriber has %d closures, want the %d in force", seed, len(held[i]), len(want))
			}
		}
	}
}

// TestSubscribersAreBounded, and one that has closed makes room.
func TestSubscribersAreBounded(t *testing.T) {
	b := ready(1, Options{MaxSubscribers: 2})
	first := subscribe(t, b, 0)
	subscribe(t, b, 0)
	if _, err := b.Subscribe(0); !errors.Is(err, errSubscribers) {
		t.Errorf("got %v, want %v", err, errSubscribers)
	}
	first.Close()
	first.Close()
	subscribe(t, b, 0)
	if got := b.Status().Subscribers; got != 2 {
		t.Errorf("got %d, want 2", got)
	}
}

// TestWaitersWake when what they wait for happens: a change, the end of loading, a heartbeat, the end of a subscription.
func TestWaitersWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		b.Resize(1)
		changes := subscribe(t, b, 0)
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := b.AwaitReady(t.Context()); err != nil {
				t.Error(err)
			}
		})
		wait.Go(func() {
			h, err := b.AwaitHeartbeat(t.Context(), 0, func(h *schemas.Heartbeat) bool { return h.Watermark > 10 })
			if err != nil || h.Watermark != 11 {
				t.Errorf("got %+v and %v", h, err)
			}
		})
		wait.Go(func() {
			for _, want := range []Kind{Current, Closed} {
				if e, err := changes.Next(t.Context()); err != nil || e.Kind != want {
					t.Errorf("got %v and %v, want %v", e.Kind, err, want)
				}
			}
			if _, err := changes.Next(t.Context()); !errors.Is(err, errClosed) {
				t.Errorf("got %v, want %v", err, errClosed)
			}
		})
		for _, what := range []func(){
			func() { b.Loaded(0) },
			func() { b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 1, Watermark: 10}, time.Now()) },
			func() { b.Beat(&schemas.Heartbeat{Epoch: 1, Seq: 2, Watermark: 11}, time.Now()) },
			func() { b.Apply([]schemas.Decision{closing("r", "a", 0, 1e9)}, at(0)) },
			changes.Close,
		} {
			synctest.Wait()
			what()
		}
		wait.Wait()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.AwaitHeartbeat(over, 0, func(*schemas.Heartbeat) bool { return false }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
		if err := New(Options{}).AwaitReady(over); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
	})
}

// TestCollect makes of events what is in force.
func TestCollect(t *testing.T) {
	held := map[Key]schemas.Decision{}
	for i, step := range []struct {
		kind Kind
		id   string
		want int
	}{
		{InForce, "a", 1}, {Closed, "b", 2}, {Changed, "b", 2}, {Current, "", 2}, {Opened, "a", 1}, {Opened, "a", 1}, {Changed, "c", 2}, {Ended, "c", 1}, {Lost, "", 0},
	} {
		e := Event{Kind: step.kind, Decision: closing("r", step.id, 0, 60)}
		if Collect(held, &e); len(held) != step.want {
			t.Errorf("step %d, %v: got %d in force, want %d", i, step.kind, len(held), step.want)
		}
	}
}
