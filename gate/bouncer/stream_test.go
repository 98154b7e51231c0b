package bouncer

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestOverlappingClosuresAreOneItem (crowdsec 1244, caddy-crowdsec-bouncer 129): an address that two rules close is one item,
// with the later end, whichever came first. It is deleted when none of them closes it any more.
func TestOverlappingClosuresAreOneItem(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("short", "203.0.113.9", 0, 60)
		w.decide("long", "203.0.113.9", 0, 90)
		w.decide("shorter", "203.0.113.9", 0, 30)
		check(t, "at the start", w.start(), "+203.0.113.9 1m30s")
		w.pass(40 * time.Second)
		check(t, "one has ended, and another one not", w.poll(), "")
		w.decide("long", "203.0.113.9", 0, 0)
		check(t, "the longest is opened by hand", w.poll(), "+203.0.113.9 20s")
		w.decide("long", "203.0.113.9", 0, 15)
		check(t, "closed by it again, and not for longer", w.poll(), "")
		w.pass(19 * time.Second)
		check(t, "before the end, which may be later than that of what a bouncer holds", w.poll(), "+203.0.113.9 1s")
		w.pass(2 * time.Second)
		check(t, "none is left", w.poll(), "-203.0.113.9")
		check(t, "and that is told once", w.poll(), "")
	})
}

// TestWhatABouncerSees goes through the life of closures. Each step changes something, and then two bouncers look: one that polls, and
// one that has just started.
func TestWhatABouncerSees(t *testing.T) {
	shadow := func(d *schemas.Decision) { d.Mode = schemas.ModeShadow }
	early := func(d *schemas.Decision) { d.Early = true }
	kind := func(d *schemas.Decision) { d.Caller.Kind = "key" }
	next := func(from, until time.Duration, early bool) func(*schemas.Decision) {
		return func(d *schemas.Decision) {
			d.Next = schemas.Span{CloseAt: d.CloseAt + int64(from), Until: d.CloseAt + int64(until), Early: early}
		}
	}
	share := func(d *schemas.Decision) {
		d.Share = &schemas.Share{From: d.CloseAt, Until: d.CloseAt + int64(time.Hour), Period: 1, Demand: 1, DemandUntil: 1}
	}
	story(t, func(t *testing.T, w *world) {
		w.start()
		for _, step := range []struct {
			name      string
			do        func()
			poll, all string
		}{
			{"nothing", func() {}, "", ""},
			{"closed", func() { w.decide("r", "192.0.2.7", 0, 60) }, "+192.0.2.7 1m0s", "+192.0.2.7 1m0s"},
			{"the same again", func() { w.decide("r", "192.0.2.7", 0, 60) }, "", "+192.0.2.7 1m0s"},
			{"extended", func() { w.decide("r", "192.0.2.7", 0, 120) }, "+192.0.2.7 2m0s", "+192.0.2.7 2m0s"},
			{"shortened", func() { w.decide("r", "192.0.2.7", 0, 90) }, "+192.0.2.7 1m30s", "+192.0.2.7 1m30s"},
			{"on trial", func() { w.decide("r", "192.0.2.7", 0, 90, shadow) }, "-192.0.2.7", ""},
			{"in force again", func() { w.decide("r", "192.0.2.7", 0, 90) }, "+192.0.2.7 1m30s", "+192.0.2.7 1m30s"},
			{"opened and closed between two polls", func() { w.decide("r", "192.0.2.7", 0, 0); w.decide("r", "192.0.2.7", 0, 80) }, "+192.0.2.7 1m20s", "+192.0.2.7 1m20s"},
			{"opened", func() { w.decide("r", "192.0.2.7", 0, 0) }, "-192.0.2.7", ""},
			{"closed and opened between two polls", func() { w.decide("r", "192.0.2.8", 0, 60); w.decide("r", "192.0.2.8", 0, 0) }, "", ""},
			{"of another kind", func() { w.decide("r", "192.0.2.9", 0, 60, kind) }, "", ""},
			{"predicted", func() { w.decide("r", "192.0.2.9", 0, 60, early) }, "", ""},
			{"counted, and predicted to go on", func() { w.decide("r", "192.0.2.9", 0, 60, next(60*time.Second, 90*time.Second, true)) }, "+192.0.2.9 1m0s", "+192.0.2.9 1m0s"},
			{"counted to go on", func() { w.decide("r", "192.0.2.9", 0, 60, next(60*time.Second, 90*time.Second, false)) }, "+192.0.2.9 1m30s", "+192.0.2.9 1m30s"},
			{"a share instead", func() { w.decide("r", "192.0.2.9", 0, 0, share) }, "-192.0.2.9", ""},
			{"shorter than a poll", func() { w.decide("r", "192.0.2.10", 0, 9.9) }, "", ""},
			{"as long as a poll", func() { w.decide("r", "192.0.2.10", 0, 10) }, "+192.0.2.10 10s", "+192.0.2.10 10s"},
			{"almost over", func() { w.pass(9500 * time.Millisecond) }, "", ""},
			{"over", func() { w.pass(time.Second) }, "-192.0.2.10", ""},
			{"closed later", func() { w.decide("r", "192.0.2.11", 5, 25) }, "", ""},
			{"now", func() { w.pass(5 * time.Second) }, "+192.0.2.11 20s", "+192.0.2.11 20s"},
			{"with a pause", func() { w.decide("r", "192.0.2.11", 0, 15, next(20*time.Second, 40*time.Second, false)) }, "+192.0.2.11 15s", "+192.0.2.11 15s"},
			{"in the pause", func() { w.pass(16 * time.Second) }, "-192.0.2.11", ""},
			{"after it", func() { w.pass(5 * time.Second) }, "+192.0.2.11 19s", "+192.0.2.11 19s"},
			{"a share keeps the decision", func() { w.decide("r", "192.0.2.11", 0, 12, share) }, "+192.0.2.11 12s", "+192.0.2.11 12s"},
			{"but not the item", func() { w.pass(13 * time.Second) }, "-192.0.2.11", ""},
			{"no address", func() { w.decide("r", "hmac:00", 0, 60) }, "", ""},
			{"an address of a zone", func() { w.decide("r", "fe80::1%eth0", 0, 60) }, "", ""},
			{"not canonical", func() { w.decide("r", "::ffff:192.0.2.1", 0, 60); w.decide("r", "2001:DB8::", 0, 60) }, "", ""},
			{"a network", func() { w.decide("r", "2001:db8:1:2::", 0, 60) }, "+2001:db8:1:2::/64 1m0s", "+2001:db8:1:2::/64 1m0s"},
			{"an address of it", func() { w.decide("r", "2001:db8:1:2::7", 0, 50) }, "+2001:db8:1:2::7 50s", "+2001:db8:1:2::/64 1m0s, +2001:db8:1:2::7 50s"},
			{"closed for ever", func() {
				w.decide("r", "2001:db8:1:2::7", 0, 0)
				w.decide("r", "192.0.2.12", 0, 1e9)
			}, "+192.0.2.12 8784h0m0s, -2001:db8:1:2::7", "+192.0.2.12 8784h0m0s, +2001:db8:1:2::/64 1m0s"},
		} {
			step.do()
			check(t, step.name+", polled", w.poll(), step.poll)
			check(t, step.name+", polled again", w.poll(), "")
			w.agent = "fresh/1"
			check(t, step.name+", started", w.start(), step.all)
			w.agent = "test/1"
		}
		if s := w.Stats(); s.LeftOut["kind"] != 1 || s.LeftOut["shadow"] != 1 || s.LeftOut["early"] != 2 || s.LeftOut["short"] != 1 || s.LeftOut["address"] != 4 {
			t.Errorf("got left out %v", s.LeftOut)
		}
	})
}

// TestADeltaNeverFails (cs-firewall-bouncer 369): one 5xx, and the bouncer flushes its set. Whatever happens to Kafka, the owners or
// this process, a delta has status 200, and takes nothing away.
func TestADeltaNeverFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, Options{})
		check(t, "before Kafka answered once", w.poll(), "")
		w.load(1)
		w.decide("r", "192.0.2.7", 0, 60)
		w.decide("r", "192.0.2.8", 0, 20)
		check(t, "to one that did not start", w.poll(), "+192.0.2.7 1m0s, +192.0.2.8 20s")
		w.dead[0] = true
		w.pass(10 * time.Second)
		w.decide("r", "192.0.2.9", 0, 60)
		w.decide("r", "192.0.2.7", 0, 0)
		check(t, "stale: nothing is new and nothing is deleted", w.poll(), "")
		w.pass(20 * time.Second)
		check(t, "nor by time", w.poll(), "")
		check(t, "but one that starts has what is known", w.start(), "+192.0.2.7 30s")
		w.board.Resize(2)
		check(t, "partitions were added", w.poll(), "")
		w.load(2)
		w.pass(2 * time.Second)
		check(t, "fresh again", w.poll(), "+192.0.2.9 38s, -192.0.2.7, -192.0.2.8")
	})
}

// TestAStalePartitionFreezesItsOwnCallers and no others.
func TestAStalePartitionFreezesItsOwnCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, Options{})
		second := func(d *schemas.Decision) { d.Partition = 1 }
		w.decide("r", "192.0.2.7", 0, 20)
		w.decide("r", "192.0.2.8", 0, 20, second)
		w.start()
		w.dead[1] = true
		w.pass(10 * time.Second)
		w.decide("r", "192.0.2.9", 0, 60)
		check(t, "the other partition closes", w.poll(), "+192.0.2.9 1m0s")
		w.pass(15 * time.Second)
		check(t, "and opens", w.poll(), "-192.0.2.7")
		w.dead[1] = false
		w.pass(2 * time.Second)
		check(t, "the owner is back", w.poll(), "-192.0.2.8")
	})
}

// TestStartupWaitsForDecisions, ten seconds at most.
func TestStartupWaitsForDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, Options{})
		begun := time.Now()
		status, body := w.ask(http.MethodGet, "/v1/decisions/stream?startup=true")
		if want := `{"message":"floodgate has not read all decisions yet: try again"}`; status != http.StatusServiceUnavailable || body != want {
			t.Errorf("got %d %s, want 503 %s", status, body, want)
		}
		if took := time.Since(begun); took != startupWait {
			t.Errorf("got an answer after %v, want it after %v", took, startupWait)
		}
		w.board.Resize(1)
		w.decide("r", "192.0.2.7", 0, 60)
		time.AfterFunc(9*time.Second, func() { w.board.Loaded(0) })
		check(t, "loaded in time", w.start(), "+192.0.2.7 51s")
		if s := w.Stats(); s.Errors["not_ready"] != 1 || s.Requests["startup"].Count != 2 || s.Requests["startup"].Sum != 19 || s.Requests["startup"].Buckets[10] != 2 || s.Requests["startup"].Buckets[2.5] != 0 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestPollsMissNothing (crowdsec 1565): a pull by time missed what came between two clocks. Changes are numbered, so it does not
// matter when a bouncer polls, how often, or what its clock says.
func TestPollsMissNothing(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.start()
		held := map[string]bool{}
		for i := range 500 {
			w.decide("r", fmt.Sprintf("192.0.2.%d", i%250), -3600, 3600)
			if i >= 250 {
				w.decide("r", fmt.Sprintf("192.0.2.%d", i%250), 0, 0)
			}
			if i%7 == 0 {
				w.jump += time.Duration(i%3-1) * time.Minute
				w.beat()
			}
			if i%3 == 0 || i == 499 {
				s := w.get("")
				for _, d := range s.Deleted {
					delete(held, d.Value)
				}
				for _, d := range s.New {
					held[d.Value] = true
				}
				if want := min(i+1, 499-i); len(held) != want {
					t.Fatalf("after %d changes: got %d held, want %d", i, len(held), want)
				}
			}
		}
	})
}

// TestEachInstanceHasItsDeltas: what one was given, another one still gets. One whose answer was lost gets everything.
func TestEachInstanceHasItsDeltas(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("r", "192.0.2.7", 0, 3600)
		instances := []func(){
			func() { w.agent, w.address = "firewall/1", "192.0.2.1:1000" },
			func() { w.agent, w.address = "script/1", "192.0.2.1:1001" },
			func() { w.agent, w.address = "firewall/1", "192.0.2.2:1000" },
			func() { w.agent, w.address = "firewall/1", "@" },
		}
		for i, as := range instances {
			as()
			check(t, fmt.Sprint(i, " starts"), w.start(), "+192.0.2.7 1h0m0s")
		}
		w.decide("r", "192.0.2.8", 0, 3600)
		for i, as := range instances {
			as()
			w.address = strings.Replace(w.address, ":100", ":200", 1) // another connection
			check(t, fmt.Sprint(i, " polls"), w.poll(), "+192.0.2.8 1h0m0s")
		}
		w.pass(9 * time.Minute)
		check(t, "after nine minutes", w.poll(), "")
		w.pass(11 * time.Minute)
		w.decide("r", "192.0.2.8", 0, 0)
		check(t, "after more than ten", w.poll(), "+192.0.2.7 40m0s, -192.0.2.8")
		instances[0]()
		check(t, "another one", w.poll(), "+192.0.2.7 40m0s")
		check(t, "once more", w.poll(), "")
		if n := w.Stats().Instances; n != 2 {
			t.Errorf("got %d instances, want those that asked lately", n)
		}
	})
}

// TestALostAnswerIsMadeGood: a bouncer that was cut off in the middle gets everything the next time.
func TestALostAnswerIsMadeGood(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("r", "192.0.2.7", 0, 60)
		w.start()
		w.decide("r", "192.0.2.8", 0, 60)
		r := request("/v1/decisions/stream")
		r.RemoteAddr = w.address
		r.Header.Set("User-Agent", w.agent)
		w.ServeHTTP(broken{header: http.Header{}}, r)
		check(t, "after the cut", w.poll(), "+192.0.2.7 1m0s, +192.0.2.8 1m0s")
		check(t, "after that", w.poll(), "")
		if n := w.Stats().Errors["cut"]; n != 1 {
			t.Errorf("got %d answers cut, want 1", n)
		}
	})
}

// broken is a connection that takes nothing.
type broken struct{ header http.Header }

func (b broken) Header() http.Header     { return b.header }
func (broken) WriteHeader(int)           {}
func (broken) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }
