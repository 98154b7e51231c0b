package kafkalink

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// Bugs that others of this kind had, as far as they would be a link's. Two more stand beside what they are about:
// TestOneServerErrorDoesNotWipeEnforcement and TestTheLogSenderNeverBlocksRequestGoroutines.

// TestPullByTimeMissesAMinute (CrowdSec 1565): its bouncer asked for what had changed since it last asked, by the clock,
// and never heard of what fell between. Here a link reads by offset: whenever, and for how long, it is cut off or not
// running, it hears of every decision.
func TestPullByTimeMissesAMinute(t *testing.T) {
	testenv.Long(t)
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 5))
				w, o := following(t, Config{})
				const minutes = 30
				for i := range minutes * 6 { // a decision every ten seconds, and on the minute
					switch rng.IntN(8) {
					case 0:
						w.kafka.SetFault(down)
					case 1:
						w.kafka.SetFault(blackHole)
					case 2:
						w.shutdown()
						pass(time.Duration(rng.IntN(120)) * time.Second)
						w.start()
					default:
						w.kafka.SetFault(nil)
					}
					pass(time.Until(time.Now().Truncate(10 * time.Second).Add(10 * time.Second)))
					o.decide(fmt.Sprint("key-", i), 24*time.Hour)
					if i%6 == 0 {
						o.beat()
					}
				}
				w.kafka.SetFault(nil)
				pass(time.Minute)
				for i := range minutes * 6 {
					if id := fmt.Sprint("key-", i); !w.keys.Closed(id) {
						t.Errorf("%s: got open, want closed: its decision was missed", id)
					}
				}
				w.shutdown()
			})
		})
	}
}

// TestStaleStateOvertakesNewer (gubernator 3982e50): an owner's answer that was on its way for long, and comes after its
// successor's, changes nothing; neither does its repetition.
func TestStaleStateOvertakesNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := following(t, Config{})
		o.decide("k", time.Hour)
		old := *o
		successor := &owner{k: w.kafka, epoch: o.epoch + 1}
		successor.claim()
		successor.beat()
		successor.decide("k", 0)
		w.wantClosed("k", false)
		for range 3 {
			old.decide("k", time.Hour)
			old.beat()
			w.wantClosed("k", false)
		}
		successor.seq-- // sent again, under the number that it had
		successor.decide("k", time.Hour)
		w.wantClosed("k", false)
		if got := w.link.Stats().Refused["fenced"]; got != 7 {
			t.Errorf("got %d records refused as fenced, want 7", got)
		}
		w.shutdown()
	})
}

// TestAChildsBlockedCallsAreNotTheParents (Gloo 10613): what a key's closed gate refuses is recorded as blocked for the
// key, and not at all for the address behind it, whatever the log says it is.
func TestAChildsBlockedCallsAreNotTheParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		stop := s.run()
		if err := s.link.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.owners()("child")
		pass(time.Second)
		for range 10 {
			if got := s.ask("child"); got != 429 {
				t.Errorf("got status %d, want 429", got)
			}
		}
		pass(time.Second)
		stop()
		n := s.logged(func(e *schemas.Entry) {
			if e.Kind != "key" || e.ID != "child" || !e.Blocked || e.Response {
				t.Errorf("got %+v in the log, want the child's blocked requests only", *e)
			}
		})
		if n != 10 {
			t.Errorf("got %d requests in the log, want 10", n)
		}
		s.close()
	})
}
