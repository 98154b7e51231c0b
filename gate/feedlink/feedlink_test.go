package feedlink

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// TestAServerWithoutKafka counts its requests and closes its gates, and says what it did.
func TestAServerWithoutKafka(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.owner.beat()
		w.owner.decide("before", time.Hour)
		w.serve(gate.Options{}, Config{})
		if err := w.link.Ready(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantClosed("at the start", map[string]bool{"before": true, "after": false})
		for i := range 1000 {
			w.request(fmt.Sprint("key-", i%50))
		}
		w.owner.decide("after", 15*time.Second)
		w.owner.decide("before", 0)
		w.owner.beat()
		pass(time.Second)
		w.wantClosed("then", map[string]bool{"before": false, "after": true})
		pass(14 * time.Second)
		w.wantClosed("as late as gates with Kafka open: jitter is not added twice", map[string]bool{"after": w.side.set.Gate("key").Closed("after")})
		pass(2 * time.Second)
		w.wantClosed("in the end", map[string]bool{"after": false})
		byID, total := w.counted()
		if s := w.conserve(); s.Acked != 1000 || total != 1000 || byID["key-7"] != 20 {
			t.Errorf("got %+v and %d counted, want 1000", s, total)
		}
		s := w.link.Stats()
		if !s.Connected || s.Partitions != 4 || s.Frames != 4 || s.Decisions != 3 || s.Heartbeats == 0 || s.Canaries != 0 || s.Lag.Samples != 0 {
			t.Errorf("got %+v", s)
		}
		if st := w.set.Status(); st.Partitions[0].Watermark != 0 || st.Cold != 3 || st.Stale != 1 {
			t.Errorf("got %+v, want partition 0 stale, as its owner was last heard 17 s ago", st)
		}
	})
}

// TestTheSidecarIsKilled, and what is decided meanwhile holds within a second of its return: closures stay, and those that were ended
// meanwhile end. What was recorded meanwhile is counted.
func TestTheSidecarIsKilled(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.owner.beat()
		w.serve(gate.Options{}, Config{})
		w.owner.decide("stays", time.Hour)
		w.owner.decide("ends", 5*time.Second)
		w.owner.decide("opened", time.Hour)
		w.request("k")
		pass(time.Second)
		w.kill()
		w.owner.decide("opened", 0)
		w.owner.decide("closed", time.Hour)
		for range 8 {
			w.request("k")
			pass(time.Second)
		}
		w.wantClosed("while it is dead", map[string]bool{"stays": true, "ends": false, "opened": true, "closed": false})
		if s := w.link.Stats(); s.Connected || w.set.Status().Stale != 1 {
			t.Errorf("got %+v, want a link that is down, and a stale partition", s)
		}
		w.begin()
		w.owner.beat()
		pass(time.Second)
		w.wantClosed("when it is back", map[string]bool{"stays": true, "ends": false, "opened": false, "closed": true})
		pass(time.Second)
		if byID, _ := w.counted(); byID["k"] != 9 || w.conserve().Acked != 9 || !w.link.Stats().Connected {
			t.Errorf("got %v counted and %+v, want 9", byID, w.conserve())
		}
		if up, down := strings.Count(w.logs.String(), "link is up"), strings.Count(w.logs.String(), "link is down"); up != 2 || down != 1 {
			t.Errorf("got %d and %d lines, want 2 ups and 1 down in\n%s", up, down, w.logs)
		}
	})
}

// TestALostConnectionIsTakenUpAgain behind the last line that was read: at once, and only what has changed comes.
func TestALostConnectionIsTakenUpAgain(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.owner.beat()
		for i := range 100 {
			w.owner.decide(fmt.Sprint("k", i), time.Hour)
		}
		w.serve(gate.Options{}, Config{})
		pass(2 * time.Second)
		var asked []string
		w.setFault(func(_ http.ResponseWriter, r *http.Request) bool { asked = append(asked, r.URL.RawQuery); return false })
		before := w.link.Stats().Decisions
		w.side.feed.Close() // cuts all streams, now and later
		w.owner.decide("k7", 0)
		synctest.Wait()
		w.setFault(nil)
		if len(asked) != 1 || !strings.Contains(asked[0], "since=") {
			t.Errorf("got the questions %q, want one at once, with a cursor", asked)
		}
		w.mu.Lock()
		w.side.feed = feed.New(feed.Options{Board: w.side.board, Frames: w.side.frames})
		w.mu.Unlock()
		pass(2 * time.Second)
		w.wantClosed("after it", map[string]bool{"k7": false, "k8": true})
		if n := w.link.Stats().Decisions - before; n != 1 {
			t.Errorf("got %d decisions, want the one that has changed", n)
		}
	})
}

// TestPartitionsChange: callers hash elsewhere from then on, and nobody opens.
func TestPartitionsChange(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.owner.beat()
		w.owner.decide("a", time.Hour)
		w.serve(gate.Options{}, Config{})
		w.request("x")
		pass(time.Second)
		w.kafka.Create(5, requests, decisions)
		for range 60 {
			w.request("x")
			pass(time.Second)
			w.wantClosed("throughout", map[string]bool{"a": true})
		}
		s := w.link.Stats()
		if byID, _ := w.counted(); s.Partitions != 5 || byID["x"] != 61 || s.Requests.Acked != 61 {
			t.Errorf("got %+v and %v counted, want 5 partitions and 61", s, byID)
		}
	})
}

// faults are what a sidecar, or a program in its place, can do.
func faults() map[string]func(http.ResponseWriter, *http.Request) bool {
	says := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	return map[string]func(http.ResponseWriter, *http.Request) bool{
		"hangs":                 hang,
		"cuts each connection":  func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"wants another key":     says(401, "no"),
		"has no frames":         says(404, "not found"),
		"breaks":                says(500, "oops"),
		"is too busy":           says(503, "later"),
		"knows nothing":         says(504, `{"reason":"unknown","error":"?"}`),
		"is another program":    says(200, "<html>welcome</html>\n"),
		"sends the server away": says(302, ""),
		"has another version":   says(200, `{"type":"start","version":2}`+"\n"),
		"writes without end":    func(w http.ResponseWriter, _ *http.Request) bool { endless(w); return true },
	}
}

func hang(_ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return true
}

func endless(w http.ResponseWriter) {
	_, _ = io.WriteString(w, `{"type":"start","version":1}`+"\n")
	for b := make([]byte, 64<<10); ; {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}

// TestAServerDoesNotNotice what happens to its sidecar: no request waits, nothing is lost without being counted, closures stay, memory is
// bounded, and when the sidecar is back, so is the link.
func TestAServerDoesNotNotice(t *testing.T) {
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.owner.beat()
				w.owner.decide("closed", time.Hour)
				w.serve(gate.Options{}, Config{Backlog: 1024})
				w.request("first")
				pass(time.Second)
				w.setFault(fault)
				w.kill()
				w.begin()
				for i := range 500 { // 20 s; more callers than there is room for
					for j := range 4 {
						w.request(fmt.Sprint("key-", 4*i+j))
					}
					if !w.request("closed") {
						t.Fatal("got open, want closed")
					}
					if i%100 == 0 {
						w.conserve()
					}
					pass(40 * time.Millisecond)
				}
				if s := w.link.Stats(); s.Connected || s.Backlog > 1024 || s.Requests.DroppedTotal() == 0 {
					t.Errorf("got %+v, want a link that is down, and drops: there was no room for all", s)
				}
				w.setFault(nil)
				pass(40 * time.Second)
				if s := w.link.Stats(); !s.Connected || s.Requests.Queued != 0 {
					t.Errorf("got %+v after the sidecar came back, want nothing queued", s)
				}
				w.link.Close()
				s := w.conserve()
				if _, total := w.counted(); total < s.Acked || total > s.Acked+s.Unknown || s.Accepted != 2501 {
					t.Errorf("got %d counted, want those of %+v", total, s)
				}
			})
		})
	}
}

// TestWhatKafkaRefusesIsDropped, and counted by its reason. What Kafka may have is sent again, and counts once.
func TestWhatKafkaRefusesIsDropped(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		reason record.Reason
	}{
		"the clock is ahead":     {400, `{"reason":"time","error":"e"}`, record.ClockAhead},
		"another key":            {400, `{"reason":"key","error":"e"}`, record.Refused},
		"too large":              {413, "", record.Refused},
		"a later word for it":    {400, `{"reason":"later","error":"e"}`, record.Refused},
		"no word: it tries on":   {400, "<html>bad request</html>", record.Undelivered},
		"the key is not known":   {401, "", record.Undelivered},
		"Kafka is away for long": {503, `{"reason":"unsent","error":"e"}`, record.Undelivered},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.serve(gate.Options{}, Config{})
				w.setFault(func(rw http.ResponseWriter, r *http.Request) bool {
					if r.Method == http.MethodPost {
						http.Error(rw, test.body, test.status)
					}
					return r.Method == http.MethodPost
				})
				w.request("k")
				pass(3 * time.Minute)
				if s := w.conserve(); s.Dropped[test.reason] != 1 {
					t.Errorf("got %+v, want one dropped as %v", s, test.reason)
				}
			})
		})
	}
	inWorld(t, 1, func(w *world) {
		w.serve(gate.Options{}, Config{})
		n := 0
		w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpProduce {
				if n++; n < 4 {
					return kafkaiotest.LostAnswer()
				}
			}
			return kafkaiotest.Fault{}
		})
		w.request("k")
		pass(time.Minute)
		_, total := w.counted()
		if s := w.conserve(); s.Acked != 1 || total != 1 || len(w.kafka.Records(requests, 0)) != 4 {
			t.Errorf("got %+v, %d counted of %d messages, want one of 4 copies", s, total, len(w.kafka.Records(requests, 0)))
		}
	})
}

// TestConservation: whatever happens to Kafka, the sidecar and the connections, at random, each request has one outcome at all times, and what
// was confirmed is in the log, once.
func TestConservation(t *testing.T) {
	for range 2 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		inWorld(t, 3, func(w *world) {
			random := rand.New(rand.NewPCG(seed, 0))
			w.serve(gate.Options{}, Config{Backlog: 1024, Retry: 10 * time.Second})
			var list []func(http.ResponseWriter, *http.Request) bool
			for _, f := range faults() {
				list = append(list, f)
			}
			for range 300 {
				switch random.IntN(12) {
				case 0:
					w.kill()
				case 1:
					w.kill()
					w.begin()
				case 2:
					w.setFault(list[random.IntN(len(list))])
				case 3, 4:
					w.setFault(nil)
				case 5:
					odds := random.IntN(4)
					w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
						if c.Op != kafkaiotest.OpProduce || c.Partition >= odds {
							return kafkaiotest.Fault{}
						}
						return []kafkaiotest.Fault{kafkaiotest.LostAnswer(), kafkaiotest.Silent(), kafkaiotest.Down()}[c.Partition]
					})
				case 6, 7:
					w.kafka.SetFault(nil)
				}
				for range random.IntN(50) {
					w.request(fmt.Sprint("key-", random.IntN(40)))
				}
				pass(time.Duration(random.IntN(3000)) * time.Millisecond)
				w.conserve()
			}
			w.setFault(nil)
			w.kafka.SetFault(nil)
			w.kill()
			w.begin()
			pass(time.Minute)
			w.link.Close()
			s := w.conserve()
			if _, total := w.counted(); s.Queued != 0 || total < s.Acked || total > s.Acked+s.Unknown || s.Acked == 0 {
				t.Errorf("got %d counted, want those of %+v", total, s)
			}
		})
	}
}

// TestCloseSendsWhatIsLeft, for as long as Drain.
func TestCloseSendsWhatIsLeft(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.serve(gate.Options{}, Config{})
		pass(2 * time.Second) // the feed knows how many partitions there are with the first heartbeat at the latest
		w.request("k")
		w.link.Close()
		if _, total := w.counted(); total != 1 || w.conserve().Acked != 1 {
			t.Errorf("got %d counted, want the last request", total)
		}
	})
	inWorld(t, 1, func(w *world) {
		w.serve(gate.Options{}, Config{Drain: 300 * time.Millisecond})
		pass(2 * time.Second)
		w.setFault(hang)
		w.request("k")
		began := time.Now()
		w.link.Close()
		if took := time.Since(began); took > 400*time.Millisecond || w.conserve().Unknown != 1 {
			t.Errorf("got %+v after %v, want that the request's outcome is unknown after 300 ms", w.conserve(), took)
		}
	})
}

// TestWhatAFeedLinkNeeds: an address that there can be, and kinds that there can be.
func TestWhatAFeedLinkNeeds(t *testing.T) {
	for _, c := range []Config{
		{}, {Address: "unix:"}, {Address: "http://127.0.0.1:9095"}, {Address: "127.0.0.1:9095/v1"}, {Address: "unix:/s", Kinds: []string{"IP"}},
	} {
		if _, err := Open(gate.New(gate.Options{}), record.New(record.Options{}), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: got %v, want ErrConfig", c, err)
		}
	}
}
