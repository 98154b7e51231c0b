package notify

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// closed returns the event that a caller was closed at an offset.
func closed(id string, offset int64) *event.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := &event.Event{
		Type: event.Closed, Time: at, Offset: offset, Caller: event.CallerOf(schemas.Caller{Kind: schemas.KindIP, ID: id}), Rule: "per-ip",
		Mode: schemas.ModeEnforce.String(), CloseAt: at, Until: at.Add(time.Minute), Count: 10, Limit: 10, Nth: 1,
	}
	e.Identify()
	return e
}

// desk is a queue and a clock.
type desk struct {
	*queue

	t   *testing.T
	now time.Time
	n   int64
}

func newDesk(t *testing.T, d endpoint.Digest) *desk {
	t.Helper()
	return &desk{queue: newQueue(d, 10_000), t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// comes adds one event for each caller.
func (d *desk) comes(callers ...string) {
	for _, c := range callers {
		e := closed(c, d.n)
		d.n++
		d.add(&item{event: e, key: keyOf(e), written: d.now}, d.now)
	}
}

// sends wants one call now, of these callers.
func (d *desk) sends(callers ...string) *call {
	d.t.Helper()
	c, _ := d.next(d.now)
	if c == nil {
		d.t.Fatalf("got no call, want one of %v", callers)
	}
	var got []string
	for _, i := range c.items {
		got = append(got, i.event.Caller.ID)
	}
	if strings.Join(got, " ") != strings.Join(callers, " ") {
		d.t.Fatalf("got a call of %v, want %v", got, callers)
	}
	return c
}

// waits wants no call, and the next one after some time; 0: nobody knows when.
func (d *desk) waits(after time.Duration) {
	d.t.Helper()
	c, at := d.next(d.now)
	if c != nil {
		d.t.Fatalf("got a call of %s, want none", c.items[0].event.Caller)
	}
	if after == 0 && !at.IsZero() || after > 0 && !at.Equal(d.now.Add(after)) {
		d.t.Fatalf("got the next at %v, want it after %v", at.Sub(d.now), after)
	}
}

func (d *desk) later(after time.Duration) { d.now = d.now.Add(after) }

func TestWithoutDigestsAnEventGoesAtOnce(t *testing.T) {
	d := newDesk(t, endpoint.Digest{})
	d.waits(0)
	d.comes("a", "b")
	a := d.sends("a")
	d.sends("b")
	d.waits(0)
	d.done(a, d.now)
	if d.pending != 1 {
		t.Errorf("got %d pending, want 1", d.pending)
	}
}

// TestTheEventsOfACallerKeepTheirOrder: while one waits, later ones wait too, and other callers do not.
func TestTheEventsOfACallerKeepTheirOrder(t *testing.T) {
	d := newDesk(t, endpoint.Digest{})
	d.comes("a", "a", "b", "a")
	a := d.sends("a")
	b := d.sends("b")
	d.waits(0)
	d.done(b, d.now)
	d.failed(a, d.now.Add(5*time.Second))
	d.comes("b")
	d.sends("b")
	d.waits(5 * time.Second)
	d.later(5 * time.Second)
	again := d.sends("a")
	if again != a {
		t.Fatal("got another call, want the one that failed")
	}
	d.done(again, d.now)
	second := d.sends("a")
	if second.items[0].event.Offset != 1 {
		t.Fatalf("got offset %d, want the second event", second.items[0].event.Offset)
	}
	d.waits(0)
	d.done(second, d.now)
	if third := d.sends("a"); third.items[0].event.Offset != 3 {
		t.Fatalf("got offset %d, want the last event", third.items[0].event.Offset)
	}
}

func TestAStormIsOneDigest(t *testing.T) {
	d := newDesk(t, endpoint.Digest{Over: 3, Every: 10 * time.Second})
	d.comes("a", "b", "c")
	d.waits(linger)
	d.comes("d", "e")
	d.waits(10 * time.Second)
	d.later(9 * time.Second)
	d.comes("f")
	d.waits(time.Second)
	d.later(time.Second)
	c := d.sends("a", "b", "c", "d", "e", "f")
	d.waits(0)
	if c.notice.Type != endpoint.TypeDigest || c.notice.Count != 6 {
		t.Errorf("got %+v, want a digest of 6", c.notice)
	}
}

// TestAStormOf10000IsOneCall: "and 9,990 more".
func TestAStormOf10000IsOneCall(t *testing.T) {
	d := newDesk(t, endpoint.Digest{Over: endpoint.DefaultOver, Every: endpoint.DefaultEvery})
	for n := range 10_000 {
		d.comes(fmt.Sprintf("10.0.%d.%d", n/256, n%256))
	}
	c, _ := d.next(d.now) // it is full, so nothing waits
	if c == nil || len(c.items) != 10_000 || !strings.HasSuffix(c.notice.Text(), "\nand 9,990 more") || len(c.notice.Events) != 10 {
		t.Fatalf("got %v, want one call of all", c)
	}
	d.waits(0)
}

func TestWithoutAStormEventsGoOneByOne(t *testing.T) {
	d := newDesk(t, endpoint.Digest{Over: 3, Every: 10 * time.Second})
	for range 20 {
		d.comes("a")
		d.waits(linger)
		d.later(linger)
		d.done(d.sends("a"), d.now)
		d.later(4 * time.Second)
	}
}

// TestWhatIsBehindADigestWaitsForTheNext: a storm of the same callers is one message in each Every, however fast the endpoint answers.
func TestWhatIsBehindADigestWaitsForTheNext(t *testing.T) {
	d := newDesk(t, endpoint.Digest{Over: 2, Every: 10 * time.Second})
	d.comes("a", "b", "c")
	d.later(10 * time.Second)
	c := d.sends("a", "b", "c")
	d.comes("a", "b", "c", "a")
	d.waits(0)
	d.done(c, d.now)
	d.waits(10 * time.Second)
	d.later(10 * time.Second)
	d.sends("a", "b", "c", "a")
}

func TestOtherSettingsMakeAllCallsDue(t *testing.T) {
	d := newDesk(t, endpoint.Digest{})
	d.comes("a", "b")
	for _, c := range []*call{d.sends("a"), d.sends("b")} {
		d.failed(c, d.now.Add(time.Hour))
	}
	d.waits(time.Hour)
	d.change(endpoint.Digest{Over: 1, Every: time.Second}, d.now)
	d.sends("a")
	d.sends("b")
}

// TestTheQueueAtRandom: whatever fails and comes, each event is in one call at a time, no two calls have one caller, each caller's
// events are done in order, and all are done in the end.
func TestTheQueueAtRandom(t *testing.T) {
	for _, digest := range []endpoint.Digest{{}, {Over: 5, Every: time.Second}} {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 0))
		d := newDesk(t, digest)
		last, finished := map[string]int64{}, 0
		sent := map[*call]bool{}
		for step := 0; step < 20_000 || d.pending > 0; step++ {
			if step < 20_000 && d.pending < 500 {
				d.comes(fmt.Sprint("c", rnd.IntN(30)))
			}
			d.later(time.Duration(rnd.IntN(100)) * time.Millisecond)
			if c, at := d.next(d.now); c != nil {
				for other := range sent {
					for _, i := range other.items {
						for _, j := range c.items {
							if i.key == j.key {
								t.Fatalf("seed %d: got two calls of %s", seed, i.key)
							}
						}
					}
				}
				sent[c] = true
			} else if !at.IsZero() && !at.After(d.now) {
				t.Fatalf("seed %d: got a time that has passed", seed)
			}
			for c := range sent {
				if rnd.IntN(4) > 0 {
					continue
				}
				delete(sent, c)
				if rnd.IntN(3) == 0 {
					d.failed(c, d.now.Add(time.Duration(rnd.IntN(1000))*time.Millisecond))
					continue
				}
				for _, i := range c.items {
					finished++
					if offset, known := last[i.key]; known && offset >= i.event.Offset {
						t.Fatalf("seed %d: %s: got %d after %d", seed, i.key, i.event.Offset, offset)
					}
					last[i.key] = i.event.Offset
				}
				d.done(c, d.now)
			}
		}
		if int64(finished) != d.n || len(d.busy) != 0 || len(d.gather) != 0 || d.due.Len() != 0 {
			t.Errorf("seed %d: got %d of %d done, and %d, %d, %d left", seed, finished, d.n, len(d.busy), len(d.gather), d.due.Len())
		}
	}
}
