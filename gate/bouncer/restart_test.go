package bouncer

import (
	"fmt"
	"testing"
	"time"
)

// TestAKilledServerDeletesNothingThatIsClosed: a server that begins does not know what bouncers hold. One that polls on gets all that is closed
// in "new", and nothing in "deleted". A bouncer that skips what it holds lets an address in at the end that it knows, if that end has
// moved meanwhile: it gets everything again one minute after the restart, two, four and so on. So the address is open for a minute at most, or for
// as long as the old end came after the restart.
func TestAKilledServerDeletesNothingThatIsClosed(t *testing.T) {
	const n, closedFor = 200, 20_000 // addresses, and seconds
	moved := map[string]float64{"10.0.0.7": 90, "10.0.0.8": 300, "10.0.0.9": 4000}
	story(t, func(t *testing.T, w *world) {
		skips, overwrites := &firewall{"skips", false, map[string]time.Time{}}, &firewall{"overwrites", true, map[string]time.Time{}}
		bouncers := []*firewall{skips, overwrites}
		ask := func(f *firewall, query string) stream {
			w.agent = f.agent
			answer := w.get(query)
			f.apply(answer, time.Now())
			return answer
		}
		began := time.Now()
		for i := range n {
			id := fmt.Sprint("10.0.0.", i)
			if until, moves := moved[id]; moves {
				w.decide("r", id, 0, until)
			} else {
				w.decide("r", id, 0, closedFor)
			}
		}
		for _, f := range bouncers {
			ask(f, "startup=true")
		}
		w.pass(20 * time.Second)
		for id := range moved {
			w.decide("r", id, 0, closedFor)
		}
		w.serve(w.options)
		w.beat()
		restarted := time.Now()
		for _, f := range bouncers {
			if answer := ask(f, "startup=false"); len(answer.New) != n || len(answer.Deleted) != 0 {
				t.Errorf("%s: got %d new and %d deleted, want %d that are closed and none", f.agent, len(answer.New), len(answer.Deleted), n)
			}
		}
		repeats := 0
		openUntil := func(end time.Duration) time.Duration { return end + max(time.Minute, end) + 20*time.Second } // and two polls
		for time.Since(began) < closedFor*time.Second/2 {
			w.pass(10 * time.Second)
			for _, f := range bouncers {
				switch answer := ask(f, ""); {
				case len(answer.Deleted) > 0:
					t.Fatalf("%s: got %d deleted, want none", f.agent, len(answer.Deleted))
				case len(answer.New) == n:
					repeats++
				case len(answer.New) > 0:
					t.Fatalf("%s: got %d new, want all or nothing", f.agent, len(answer.New))
				}
				for i := range n {
					id := fmt.Sprint("10.0.0.", i)
					oldEnd, known := moved[id], time.Since(restarted)
					if _, held := f.set[id]; !held && (f.overwrites || oldEnd == 0 || known > openUntil(began.Add(time.Duration(oldEnd)*time.Second).Sub(restarted))) {
						t.Fatalf("%s: %v after the restart: got %s open, want it closed", f.agent, known, id)
					}
				}
			}
		}
		if want := 2 * 8; repeats != want {
			t.Errorf("got everything %d times more, want %d times: after 1, 2, 4, 8, 16, 32, 64 and 128 minutes", repeats, want)
		}
		ask(skips, "startup=true")
		w.pass(30 * time.Second)
		check(t, "to one that has started since", ask(skips, "").String(), "")
	})
}

// TestAnAddressWhoseEndMovesIsGivenAgain: a bouncer that skips what it holds lets an address in at the end that it was given first. From then
// on each poll has the address, for half a minute: the bouncer needs time to work off an answer, and rounds.
func TestAnAddressWhoseEndMovesIsGivenAgain(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.decide("r", "192.0.2.7", 0, 60)
		w.start()
		w.pass(30 * time.Second)
		w.decide("r", "192.0.2.7", 0, 600)
		check(t, "moved to a later end", w.poll(), "+192.0.2.7 10m0s")
		w.pass(28 * time.Second)
		check(t, "the bouncer still holds it", w.poll(), "")
		w.pass(2 * time.Second)
		check(t, "at the first end", w.poll(), "+192.0.2.7 9m30s")
		check(t, "in the same moment", w.poll(), "")
		w.agent = "another/1"
		w.start()
		w.agent = "test/1"
		w.pass(10 * time.Second)
		check(t, "perhaps it held it until now", w.poll(), "+192.0.2.7 9m20s")
		w.pass(25 * time.Second)
		check(t, "for the last time", w.poll(), "+192.0.2.7 8m55s")
		w.pass(10 * time.Second)
		check(t, "it has it", w.poll(), "")
		w.decide("r", "192.0.2.7", 0, 20)
		check(t, "moved to an earlier end", w.poll(), "+192.0.2.7 20s")
		w.pass(21 * time.Second)
		check(t, "which ends it", w.poll(), "-192.0.2.7")
	})
}
