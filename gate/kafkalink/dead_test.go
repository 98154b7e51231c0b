package kafkalink

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// never is a local limiter that allows nothing.
type never struct{}

func (never) Allow(string, uint64, time.Time) bool { return false }

// All analyzers are dead. Closures run to their end, and then all is open, or as the policy has it; servers
// notice within three heartbeats; the link goes on counting.
func TestAllAnalyzersAreDead(t *testing.T) {
	const beats = 3 // what DefaultStaleAfter is
	for _, p := range []struct {
		policy gate.Policy
		stale  string // who is refused once decisions are stale
		ended  string // and when the closure has ended as well
	}{
		{gate.Hold, "noisy", ""},
		{gate.Open, "", ""},
		{gate.Closed, "noisy quiet", "noisy quiet"},
		{gate.Local, "noisy quiet", "noisy quiet"},
	} {
		t.Run(p.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, 1, Config{}, gate.Options{Stale: p.policy, Local: never{}, MaxJitter: -1})
				w.start()
				pass(time.Second)
				refused := func() string {
					var closed []string
					for _, id := range []string{"noisy", "quiet"} {
						var c gate.Callers
						c.Add(w.keys, id)
						v := w.set.Check(&c)
						if v.Closed != w.keys.Closed(id) || v.Closed && v.RetryAfter <= 0 {
							t.Errorf("%s: Check says %+v, Closed %v", id, v, w.keys.Closed(id))
						}
						w.rec.Record(&c, v, record.Request{})
						if v.Closed {
							closed = append(closed, id)
						}
					}
					return strings.Join(closed, " ")
				}
				want := func(when, want string) {
					t.Helper()
					if got := refused(); got != want {
						t.Errorf("%s: got %q refused, want %q", when, got, want)
					}
				}
				want("cold", "")
				o := &owner{k: w.kafka, epoch: 1}
				o.claim()
				o.beat()
				o.decide("noisy", time.Minute)
				for range 10 {
					pass(time.Second)
					o.beat()
				}
				synctest.Wait()
				want("fresh", "noisy") // and now they die
				pass(beats*time.Second - time.Millisecond)
				want("just before it counts as stale", "noisy")
				pass(time.Millisecond)
				want("three heartbeats late", p.stale)
				if s := w.set.Status(); s.Stale != 1 {
					t.Errorf("got %+v, want the partition stale", s)
				}
				pass(tickInterval)
				if !strings.Contains(w.logs.String(), "gate decisions are stale") {
					t.Errorf("got logs %s, want a word about it", w.logs)
				}
				pass(time.Minute)
				want("after the closure", p.ended)
				o.beat() // somebody took over
				pass(10 * time.Millisecond)
				want("fresh again", "")
				w.shutdown()
				if s := w.conserve(); s.Acked == 0 || s.Queued != 0 {
					t.Errorf("got %+v, want requests counted all the while", s)
				}
			})
		})
	}
}

// Clocks that are an hour off close nobody whom no decision names, and nobody for longer than decided; and
// freshness goes by when a heartbeat is received.
func TestAnOwnersClockIsAnHourOff(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, Config{})
				w.start()
				pass(time.Second)
				o := &owner{k: w.kafka, epoch: 1}
				o.claim()
				beat := func() {
					o.seq++
					o.write(pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: o.epoch, Seq: o.seq, Time: time.Now().Add(off).UnixNano()}})
				}
				beat()
				o.seq++
				closeAt := time.Now().Add(off)
				o.write(pb.Record{Decision: &schemas.Decision{
					Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "noisy"}, Mode: schemas.ModeEnforce, Epoch: o.epoch, Seq: o.seq,
					CloseAt: closeAt.UnixNano(), Until: closeAt.Add(time.Minute).UnixNano(),
				}})
				closed := 0
				for range 3700 {
					pass(time.Second)
					beat()
					if w.keys.Closed("noisy") {
						closed++
					}
					if w.keys.Closed("quiet") {
						t.Fatal("an innocent was closed")
					}
				}
				if closed > 60 || off < 0 && closed > 0 {
					t.Errorf("got closed for %d s, want at most the minute that was decided, and not in the past", closed)
				}
				if s := w.set.Status(); s.Fresh != 1 || s.Age > time.Second {
					t.Errorf("got %+v, want fresh, by this clock", s)
				}
				w.shutdown()
			})
		})
	}
}

// 100 000 callers reopen at once. Each is told when, and is let in then and not before; in no tenth of a
// second are there more than twice as many as in the mean.
func TestManyCallersReopenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, slot = 100_000, 100 * time.Millisecond
		w := newWorldOf(t, 1, Config{}, gate.Options{})
		w.start()
		pass(time.Second)
		o := &owner{k: w.kafka, epoch: 1}
		o.claim()
		o.beat()
		until := time.Now().Add(2 * time.Minute)
		var ds []kafkaio.Message
		for i := range callers {
			ds = append(ds, kafkaio.Message{Value: encode(pb.Record{Decision: &schemas.Decision{
				Rule: "r", Caller: schemas.Caller{Kind: "key", ID: fmt.Sprint("key-", i)}, Mode: schemas.ModeEnforce,
				CloseAt: time.Now().UnixNano(), Until: until.UnixNano(), Epoch: o.epoch, Seq: o.seq + uint64(i) + 1,
			}})})
		}
		w.kafka.Append("floodgate.decisions", 0, ds...)
		pass(10 * time.Second)
		if s := w.set.Status(); s.Closed != callers {
			t.Fatalf("got %d closed, want %d", s.Closed, callers)
		}
		<-time.After(time.Until(until) - 2*time.Second)
		opens := make([]time.Time, callers)
		slots := make([]int, gate.DefaultMaxJitter/slot)
		for i := range opens {
			var c gate.Callers
			c.Add(w.keys, fmt.Sprint("key-", i))
			v := w.set.Check(&c)
			opens[i] = v.Until
			announced := time.Now().Add(v.RetryAfter).Sub(v.Until) // the clock behind it beats ten times a second
			if !v.Closed || announced < 0 || announced > 100*time.Millisecond || opens[i].Before(until) {
				t.Fatalf("got %+v at %v, want closed until %v or later, and told so", v, time.Now(), until)
			}
			slots[opens[i].Sub(until)/slot]++
		}
		for i, n := range slots {
			if n > 2*callers/len(slots) {
				t.Errorf("%v after: got %d let in, want at most twice the mean of %d", time.Duration(i)*slot, n, callers/len(slots))
			}
		}
		for step := 1; step < callers; step = step*3 + 1 { // some of them keep the time that they were told
			id := fmt.Sprint("key-", step)
			if wait := time.Until(opens[step]); wait > 0 {
				<-time.After(wait - 1)
				early := w.keys.Closed(id)
				<-time.After(1)
				if late := w.keys.Closed(id); !early || late {
					t.Errorf("%s: got closed %v before and %v at the time it was told, want true and false", id, early, late)
				}
			}
		}
		w.shutdown()
	})
}
