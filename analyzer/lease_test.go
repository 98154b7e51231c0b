package analyzer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// TestDecisionsGoOnWhileTheGroupWaits: one of three analyzers is gone, and when its session runs out another one is gone too, so
// that the group waits for it for a session more. The third goes on to decide all the while: its lease is proved by
// heartbeats, while it waits to join. Then it owns everything.
func TestDecisionsGoOnWhileTheGroupWaits(t *testing.T) {
	testenv.Long(t)
	const bound = 60 * time.Millisecond // of virtual time: three heartbeats of an owner, of which it sends each one
	for _, before := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second} {
		t.Run(before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newVirtualCluster(t)
				c.heartbeat = 20 * time.Millisecond // as something to publish at any time
				var proxies [3]*proxy
				var members [3]*member
				for i := range members {
					proxies[i] = &proxy{dial: c.dial, publish: []byte(c.names.Decisions)}
					client := kafkaio.New(kafkaio.Config{Brokers: c.brokers, Dial: proxies[i].connect})
					t.Cleanup(client.Close)
					members[i] = c.joinBy(client, t.TempDir(), false)
				}
				c.send(100)
				c.await(members[:]...)
				time.Sleep(3 * time.Second)
				third := proxies[0]
				third.mu.Lock()
				third.longest = 0
				third.mu.Unlock()
				proxies[2].setCut(true)
				time.Sleep(c.session - before)
				proxies[1].setCut(true)
				c.send(100)
				began := time.Now()
				c.await(members[0])
				third.mu.Lock()
				longest := third.longest
				third.mu.Unlock()
				t.Logf("owned everything %v after the second was gone; decisions waited at most %v", time.Since(began), longest)
				if longest > bound {
					t.Errorf("decisions waited %v, want at most %v", longest, bound)
				}
				proxies[1].setCut(false)
				proxies[2].setCut(false)
				for _, m := range members {
					c.leave(m)
				}
			})
		})
	}
}

func TestALeaseRunsOutASecondBeforeTheSession(t *testing.T) {
	l := newLease(6 * time.Second)
	if l.valid(time.Now()) {
		t.Error("before the first commit: got a lease, want none")
	}
	l.asked.Store(int64(10 * time.Second)) // sent ten seconds after the start
	for after, want := range map[time.Duration]bool{
		10 * time.Second: true, 14999 * time.Millisecond: true, 15 * time.Second: false, time.Hour: false,
	} {
		if got := l.valid(l.start.Add(after)); got != want {
			t.Errorf("%v after the start: got %v, want %v", after, got, want)
		}
	}
}
