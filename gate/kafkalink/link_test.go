package kafkalink

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// Each fault that Kafka can have: a request never notices, nothing is lost without being counted, memory stays what it
// is, and when Kafka is back so is the link.
func TestAServerDoesNotNoticeWhatHappensToKafka(t *testing.T) {
	faults := map[string]func(kafkaiotest.Call) kafkaiotest.Fault{
		"down": down, "black hole": blackHole, "slow": slow,
		"one partition down": func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Partition == 1 {
				return kafkaiotest.Down()
			}
			return kafkaiotest.Fault{}
		},
		"every other call fails": func() func(kafkaiotest.Call) kafkaiotest.Fault {
			n := 0
			return func(c kafkaiotest.Call) kafkaiotest.Fault {
				if n++; n%2 == 0 {
					return kafkaiotest.Fault{Err: errServer, Acted: c.Op == kafkaiotest.OpProduce && n%4 == 0}
				}
				return kafkaiotest.Fault{}
			}
		}(),
	}
	for name, f := range faults {
		for _, when := range []string{"at start", "after warm-up"} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 2, Config{Backlog: 1024})
					if when == "at start" {
						w.kafka.SetFault(f)
					}
					w.start() // returns at once
					w.request("first")
					pass(2 * time.Second)
					w.kafka.SetFault(f)
					for i := range 4000 { // 20 s; more callers than there is room for
						w.request(fmt.Sprint("key-", i))
						w.request("noisy")
						if i%500 == 0 {
							w.conserve()
						}
						pass(5 * time.Millisecond)
					}
					s := w.link.Stats()
					if s.Backlog > 1024 {
						t.Errorf("got a backlog of %d entries, want at most %d", s.Backlog, 1024)
					}
					if away := name == "down" || name == "black hole"; away && s.Requests.DroppedTotal() == 0 {
						t.Errorf("got %+v, want drops: there was no room for all", s.Requests)
					}
					w.kafka.SetFault(nil)
					pass(time.Minute)
					if s := w.conserve(); s.Queued != 0 {
						t.Errorf("got %+v a minute after Kafka came back, want nothing queued", s)
					}
					if !w.link.Stats().Connected {
						t.Errorf("the link is down a minute after Kafka came back")
					}
					w.request("last")
					pass(time.Second)
					w.shutdown()
					settled := w.conserve()
					var logged uint64
					for _, n := range w.kafka.requests(t) {
						logged += n
					}
					if logged < settled.Acked || logged > settled.Acked+settled.Unknown {
						t.Errorf("got %d requests in the log, want the %d acked and at most %d unknown",
							logged, settled.Acked, settled.Unknown)
					}
					if settled.Accepted != 8002 || w.kafka.requests(t)["last"] != 1 {
						t.Errorf("got %+v, want 8002 accepted and the last in the log", settled)
					}
				})
			})
		}
	}
}

// wso2/product-apim issue 3125: threads that served requests waited for the log sender.
func TestTheLogSenderNeverBlocksRequestGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{Backlog: 256})
		w.kafka.SetFault(blackHole)
		w.start()
		for i := range 20_000 { // everything is full long before the end
			w.request(fmt.Sprint("key-", i)) // fails the test if virtual time passes
		}
		pass(time.Hour)
		for i := range 1000 {
			w.request(fmt.Sprint("later-", i))
		}
		if s := w.conserve(); s.DroppedTotal() == 0 {
			t.Error("nothing was dropped: the test did not fill anything")
		}
		if took := w.shutdown(); took > DefaultDrain {
			t.Errorf("shutdown took %v, want at most %v", took, DefaultDrain)
		}
	})
}

func TestMemoryIsBoundedHoweverLongKafkaIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heap := func() int64 { // less than before if other tests have left something
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		empty := heap()
		w := newWorld(t, 4, Config{})
		w.start()
		pass(time.Second)
		w.kafka.SetFault(down)
		fill := func(round int) {
			for i := range 30_000 {
				w.request(fmt.Sprint("round-", round, "-key-", i))
			}
			pass(time.Minute)
		}
		const grown = 6 // rounds: Retry drops what is in flight after two minutes, so the second table of each queue fills later than the first
		for round := range grown {
			fill(round)
		}
		before := heap()
		for round := range 3 * grown {
			fill(grown + round)
		}
		if after := heap(); after > before+64<<10 {
			t.Errorf("got %d bytes more after %d more rounds, want no growth", after-before, 3*grown)
		}
		if used := heap() - empty; used > 16<<20 {
			t.Errorf("got %d bytes in use, want at most 16 MiB", used)
		}
		w.shutdown()
	})
}

func TestShutdownDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, Config{})
		w.start()
		pass(time.Second)
		w.request("just before the end")
		if took := w.shutdown(); took > 10*time.Millisecond {
			t.Errorf("shutdown took %v, want no longer than sending", took)
		}
		if s := w.conserve(); s.Acked != 1 {
			t.Errorf("got %+v, want 1 acked", s)
		}
	})
}

func TestShutdownKeepsItsDeadline(t *testing.T) {
	for name, f := range map[string]func(kafkaiotest.Call) kafkaiotest.Fault{"down": down, "black hole": blackHole} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, Config{Drain: 3 * time.Second})
				w.start()
				pass(time.Second)
				w.kafka.SetFault(f)
				w.request("in flight")
				pass(100 * time.Millisecond)
				for i := range 100 {
					w.request(fmt.Sprint("waiting-", i))
				}
				if took := w.shutdown(); took < 2*time.Second || took > 3*time.Second+10*time.Millisecond {
					t.Errorf("shutdown took %v, want the 3 s it was given", took)
				}
				s := w.conserve()
				if s.Queued != 0 || s.Acked != 0 || s.Dropped[record.Shutdown] == 0 {
					t.Errorf("got %+v, want everything settled, and most dropped at shutdown", s)
				}
				if hole := name == "black hole"; hole != (s.Unknown > 0) {
					t.Errorf("got %d unknown, want some only of a black hole", s.Unknown)
				}
				if !strings.Contains(w.logs.String(), "could not send everything") {
					t.Errorf("got logs %s, want a word about what was lost", w.logs)
				}
			})
		})
	}
}

func TestShutdownBeforeKafkaWasEverThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, Config{})
		w.kafka.SetFault(blackHole)
		w.start()
		w.request("k")
		pass(time.Second)
		if took := w.shutdown(); took > 0 {
			t.Errorf("shutdown took %v, want none: there is nobody to send to", took)
		}
		if s := w.conserve(); s.Dropped[record.Shutdown] != 1 {
			t.Errorf("got %+v, want 1 dropped at shutdown", s)
		}
		if !strings.Contains(w.logs.String(), "could not send everything before it ended\" requests=1") {
			t.Errorf("got logs %s, want the number of requests that were lost", w.logs)
		}
	})
}

func TestTheLogHearsOfChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, Config{})
		w.start()
		for range 2 {
			w.kafka.SetFault(nil)
			pass(time.Minute)
			w.kafka.SetFault(down)
			for range 60 {
				w.request("k")
				pass(time.Second)
			}
		}
		w.shutdown()
		if up, down := strings.Count(w.logs.String(), "link is up"), strings.Count(w.logs.String(), "link is down"); up != 2 || down != 2 {
			t.Errorf("got %d up and %d down, want 2 of each in:\n%s", up, down, w.logs)
		}
	})
}

func TestMorePartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, Config{})
		w.start()
		w.request("k")
		pass(time.Second)
		w.kafka.Create(5, "floodgate.requests", "floodgate.decisions")
		pass(watchInterval + time.Second)
		for i := range 100 {
			w.request(fmt.Sprint("key-", i))
		}
		pass(time.Second)
		if s := w.conserve(); s.Acked != 101 || w.link.Stats().Partitions != 5 {
			t.Errorf("got %+v and %d partitions, want all acked over 5", s, w.link.Stats().Partitions)
		}
		w.kafka.frames(t) // checks that each entry is in its partition
		w.shutdown()
	})
}

func TestTopicsThatDoNotMatchAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, Config{})
		w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpPartitions && c.Topic == "floodgate.decisions" {
				return kafkaiotest.Returns(kafkaio.ErrNoTopic)
			}
			return kafkaiotest.Fault{}
		})
		w.start()
		pass(time.Minute)
		if s := w.link.Stats(); s.Connected || s.Partitions != 0 {
			t.Errorf("got %+v, want a link that is down", s)
		}
		w.kafka.SetFault(nil)
		pass(2 * kafkaio.DefaultMaxPause)
		if s := w.link.Stats(); !s.Connected || s.Partitions != 2 {
			t.Errorf("got %+v, want a link that is up", s)
		}
		w.shutdown()
	})
}

func TestOpenWithoutBrokers(t *testing.T) {
	if _, err := Open(gate.New(gate.Options{}), record.New(record.Options{}), Config{}); !errors.Is(err, kafkaio.ErrNoBrokers) {
		t.Errorf("got %v, want %v", err, kafkaio.ErrNoBrokers)
	}
}

// A server that closes its link before it has answered all requests: the log warns once, and the counts say where they are.
func TestRequestsAfterCloseAreReportedOnce(t *testing.T) {
	for _, kafka := range []string{"there", "away"} {
		t.Run(kafka, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, Config{})
				if kafka == "away" {
					w.kafka.SetFault(down)
				}
				w.start()
				pass(time.Second)
				w.request("in time")
				w.shutdown()
				const word = "recorded after the link was closed"
				if strings.Contains(w.logs.String(), word) {
					t.Errorf("got logs %s before a request was late", w.logs)
				}
				for range 5 {
					w.request("late")
				}
				if s := w.conserve(); s.Queued != 5 {
					t.Errorf("got %+v, want the 5 late requests queued", s)
				}
				if n := strings.Count(w.logs.String(), word); n != 1 {
					t.Errorf("got %d warnings, want one in:\n%s", n, w.logs)
				}
				another := newLink(w.set, w.rec, w.link.config)
				w.kafka.SetFault(nil)
				another.start()
				pass(time.Second)
				another.Close()
				if s := w.conserve(); s.Queued != 0 {
					t.Errorf("got %+v, want what was queued sent by the next link", s)
				}
			})
		})
	}
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, Config{})
		w.kafka.SetFault(down)
		w.start()
		ctx, cancel := contextWithTimeout(t, time.Second)
		defer cancel()
		if w.link.Ready(ctx) == nil {
			t.Error("ready while Kafka is down")
		}
		w.kafka.SetFault(nil)
		if err := w.link.Ready(t.Context()); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 { // a probe asks in this way, and must not get an answer by chance
			if err := w.link.Ready(over); err != nil {
				t.Fatalf("got %v, want that it is ready", err)
			}
		}
		w.shutdown()
	})
}
