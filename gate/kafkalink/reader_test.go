package kafkalink

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// following is a world with one partition whose link runs, and the owner of its decisions.
func following(t *testing.T, c Config) (*world, *owner) {
	t.Helper()
	w := newWorld(t, 1, c)
	w.start()
	pass(time.Second)
	o := &owner{k: w.kafka, epoch: 10}
	o.claim()
	o.beat()
	return w, o
}

func (w *world) wantClosed(id string, want bool) {
	w.t.Helper()
	pass(10 * time.Millisecond)
	if got := w.keys.Closed(id); got != want {
		w.t.Errorf("%s: got closed %v, want %v", id, got, want)
	}
}

func TestADecisionClosesAndOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []schemas.Decision
		w, o := following(t, Config{Observe: func(d schemas.Decision, applied time.Time) {
			mu.Lock()
			defer mu.Unlock()
			if lag := applied.UnixNano() - d.CloseAt; lag < 0 || lag > int64(time.Millisecond) {
				t.Errorf("applied %v after it was decided, want at once", time.Duration(lag))
			}
			seen = append(seen, d)
		}})
		o.decide("noisy", time.Minute)
		w.wantClosed("noisy", true)
		w.wantClosed("quiet", false)
		o.decide("noisy", 0)
		w.wantClosed("noisy", false)
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 2 || seen[0].Caller.ID != "noisy" || seen[1].Caller.ID != "noisy" {
			t.Errorf("got %+v observed, want two decisions about noisy", seen)
		}
		if s := w.link.Stats(); s.Decisions != 2 || s.Heartbeats != 1 {
			t.Errorf("got %+v, want 2 decisions and 1 heartbeat", s)
		}
		w.shutdown()
	})
}

func TestALinkThatStartsFindsWhatIsInForce(t *testing.T) {
	for _, noise := range []int{0, 100, 5000} { // records after the heartbeat
		t.Run(fmt.Sprint(noise), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, Config{})
				o := &owner{k: w.kafka, epoch: 10}
				o.claim()
				o.decide("long ago, not repeated", time.Hour)
				for range 700 {
					o.decide("padding", 0)
				}
				o.beat()
				o.from = o.decide("first of the cycle", time.Hour)
				for range 700 {
					o.decide("padding", 0)
				}
				o.beat()
				for range noise {
					o.decide("padding", 0)
				}
				o.decide("after the heartbeat", time.Hour)
				w.start()
				if err := w.link.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.wantClosed("first of the cycle", true)
				w.wantClosed("after the heartbeat", true)
				w.wantClosed("long ago, not repeated", false)
				if s := w.link.Stats(); len(s.Refused) != 0 {
					t.Errorf("got %v refused, want none", s.Refused)
				}
				w.shutdown()
			})
		})
	}
}

func TestAnOwnerThatTookOverWithoutRepeatingIsUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{})
		old := &owner{k: w.kafka, epoch: 10}
		old.claim()
		old.beat()
		from := old.decide("closed by the old owner", time.Hour)
		heir := &owner{k: w.kafka, epoch: 11, from: from}
		heir.claim()
		heir.decide("closed by the heir", time.Hour)
		heir.beat()
		w.start()
		w.wantClosed("closed by the old owner", true)
		w.wantClosed("closed by the heir", true)
		w.shutdown()
	})
}

// The record of an owner that was paused and replaced (a zombie) is fenced by every gate, also by one that starts when it is the last in the log.
func TestAZombieIsFenced(t *testing.T) {
	for _, start := range []string{"before", "after"} {
		t.Run("gate started "+start, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, Config{})
				if start == "before" {
					w.start()
				}
				zombie := &owner{k: w.kafka, epoch: 10}
				zombie.claim()
				zombie.beat()
				heir := &owner{k: w.kafka, epoch: 11}
				heir.claim()
				heir.decide("guilty", time.Hour)
				heir.beat()
				pass(time.Second)
				zombie.decide("guilty", 0)
				zombie.decide("innocent", time.Hour)
				zombie.beat()
				if start == "after" {
					w.start()
				}
				pass(time.Second)
				w.wantClosed("guilty", true)
				w.wantClosed("innocent", false)
				if s := w.link.Stats(); s.Refused["fenced"] != 3 {
					t.Errorf("got %v refused, want 3 fenced", s.Refused)
				}
				w.shutdown()
			})
		})
	}
}

// The zombie says so much that the owner's heartbeat is out of sight for a gate that starts: the next one corrects it.
func TestAZombieThatShoutsIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{})
		zombie, heir := &owner{k: w.kafka, epoch: 10}, &owner{k: w.kafka, epoch: 11}
		zombie.claim()
		heir.claim()
		heir.decide("guilty", time.Hour)
		heir.beat()
		for range 1000 {
			zombie.decide("innocent", time.Hour)
		}
		zombie.from = 900
		zombie.beat()
		w.start()
		pass(time.Second)
		heir.beat()
		pass(time.Second)
		w.wantClosed("guilty", true)
		heir.decide("innocent", 0) // the owner repairs what the log says
		w.wantClosed("innocent", false)
		w.shutdown()
	})
}

func TestNothingIsAppliedBeforeTheEpochIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{})
		w.start()
		o := &owner{k: w.kafka, epoch: 10}
		o.decide("k", time.Hour)
		w.wantClosed("k", false)
		o.beat()
		o.decide("k", time.Hour)
		w.wantClosed("k", true)
		w.shutdown()
	})
}

// cs-firewall-bouncer issue 369: one 5xx from the control plane wiped every ban.
func TestOneServerErrorDoesNotWipeEnforcement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := following(t, Config{})
		o.decide("noisy", time.Hour)
		w.wantClosed("noisy", true)
		n := 0
		w.kafka.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if n++; c.Op == kafkaiotest.OpFetch && n == 1 {
				return kafkaiotest.Returns(errServer)
			}
			return kafkaiotest.Fault{}
		})
		for range 100 {
			pass(10 * time.Millisecond)
			w.wantClosed("noisy", true)
		}
		w.kafka.SetFault(down)
		pass(10 * time.Minute)
		w.wantClosed("noisy", true)
		pass(50 * time.Minute)
		w.wantClosed("noisy", false) // it ends by itself, feed or no feed
		w.shutdown()
	})
}

func TestStaleAndFreshAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := following(t, Config{})
		want := func(f gate.Freshness) {
			t.Helper()
			if got := w.set.Status().Partitions[0].Freshness; got != f {
				t.Errorf("got %v, want %v", got, f)
			}
		}
		pass(2 * time.Second)
		want(gate.Fresh)
		pass(2 * time.Second)
		want(gate.Stale) // all analyzers are dead
		if age := w.link.Stats().Age; age < 4*time.Second || age > 5*time.Second {
			t.Errorf("got decisions %v old, want 4 s", age)
		}
		o.beat()
		pass(time.Second)
		want(gate.Fresh)
		w.kafka.SetFault(blackHole) // Kafka is away, and the analyzer with it
		pass(10 * time.Second)
		want(gate.Stale)
		w.kafka.SetFault(nil)
		o.beat()
		pass(kafkaio.DefaultMaxPause)
		want(gate.Fresh)
		w.shutdown()
	})
}

func TestInvalidRecordsAreCountedAndPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := following(t, Config{})
		for _, garbage := range []string{"", "\x00\xff", "no message of ours"} {
			w.kafka.Append("floodgate.decisions", 0, kafkaio.Message{Value: []byte(garbage)})
		}
		w.kafka.Append("floodgate.decisions", 0, kafkaio.Message{Value: encode(pb.Record{Decision: &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "stray"}, Mode: schemas.ModeEnforce,
			Until: math.MaxInt64, Partition: 7, Epoch: o.epoch, Seq: o.seq + 1,
		}})})
		usurper := owner{k: w.kafka, epoch: math.MaxUint64}
		usurper.decide("usurped", time.Hour) // without a claim
		o.decide("k", time.Hour)
		w.wantClosed("k", true)
		w.wantClosed("stray", false)
		w.wantClosed("usurped", false)
		s := w.link.Stats()
		if s.Refused["partition"] != 1 || s.Refused["fenced"] != 1 || s.Refused["malformed"]+s.Refused["unknown"] != 3 {
			t.Errorf("got %v refused, want 1 by partition, 1 fenced, and 3 that cannot be read", s.Refused)
		}
		w.shutdown()
	})
}

// Whoever may write decisions announces the last epoch there is. A gate that follows already, and one that starts after it,
// count that as refused and go on with the owner.
func TestAnEpochThatNoOwnerTakesIsRefused(t *testing.T) {
	for name, record := range map[string]pb.Record{
		"a claim":     {Claim: &schemas.Claim{Epoch: math.MaxUint64, Nonce: 1, Owner: "a vandal"}},
		"a heartbeat": {Heartbeat: &schemas.Heartbeat{Epoch: math.MaxUint64, Seq: math.MaxUint64, From: 1 << 40}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := following(t, Config{})
				w.kafka.Append("floodgate.decisions", 0, kafkaio.Message{Time: math.MaxInt64, Value: encode(record)})
				o.decide("after", time.Hour)
				w.wantClosed("after", true)
				if s := w.link.Stats(); s.Refused["epoch"] != 1 {
					t.Errorf("got %v refused, want 1 for its epoch", s.Refused)
				}
				w.shutdown()

				late := newWorld(t, 1, Config{})
				late.kafka.Edit("floodgate.decisions", 0, func([]kafkaio.Record) []kafkaio.Record { return w.kafka.Records("floodgate.decisions", 0) })
				late.start()
				late.wantClosed("after", true)
				late.shutdown()
			})
		})
	}
}

func TestAnAbsurdUntilIsClamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := following(t, Config{})
		o.seq++
		o.write(pb.Record{Decision: &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "k"}, Mode: schemas.ModeEnforce,
			CloseAt: time.Now().UnixNano(), Until: math.MaxInt64, Epoch: o.epoch, Seq: o.seq,
		}})
		w.wantClosed("k", true)
		w.shutdown() // a year of virtual time is cheaper without polls
		pass(schemas.MaxClosure)
		w.wantClosed("k", false)
	})
}

func TestALogThatStartsAnewIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := following(t, Config{})
		for range 10 {
			o.decide("old", time.Hour)
		}
		w.wantClosed("old", true)
		w.kafka.Recreate("floodgate.decisions")
		pass(2 * time.Second)
		heir := &owner{k: w.kafka, epoch: 12}
		heir.claim()
		heir.decide("new", time.Hour)
		heir.beat()
		pass(2 * time.Second)
		w.wantClosed("new", true)
		w.wantClosed("old", true)
		if s := w.link.Stats(); s.Restarts == 0 || !s.Connected {
			t.Errorf("got %+v, want a restart and a link that is up", s)
		}
		w.shutdown()
	})
}

func TestRetentionOvertakesAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := following(t, Config{})
		o.decide("k", time.Hour)
		w.wantClosed("k", true)
		w.kafka.SetFault(down)
		pass(time.Second)
		for range 100 {
			o.decide("padding", 0)
		}
		o.from = o.decide("repeated", time.Hour)
		o.beat()
		w.kafka.Trim("floodgate.decisions", 0, 50)
		w.kafka.SetFault(nil)
		pass(2 * kafkaio.DefaultMaxPause)
		w.wantClosed("repeated", true)
		w.wantClosed("k", true)
		w.shutdown()
	})
}

// TestATopicThatWasDeletedAndMadeAnew has records at the offsets that the follower waits for, but they are others: it starts
// anew at the newest heartbeat.
func TestATopicThatWasDeletedAndMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := following(t, Config{})
		for range 10 {
			o.decide("old", time.Hour)
		}
		w.wantClosed("old", true)
		w.kafka.Delete("floodgate.decisions")
		pass(10 * time.Second)
		if w.link.Stats().Connected {
			t.Error("got a link that is up, want down: the topic is missing")
		}
		w.kafka.Create(1, "floodgate.decisions")
		heir := &owner{k: w.kafka, epoch: 12}
		heir.claim()
		heir.decide("new", time.Hour)
		for range 50 {
			heir.decide("padding", 0)
		}
		heir.beat()
		pass(5 * time.Second)
		w.wantClosed("new", true)
		w.wantClosed("old", true)
		if s := w.link.Stats(); s.Restarts == 0 || !s.Connected {
			t.Errorf("got %+v, want a restart and a link that is up", s)
		}
		w.shutdown()
	})
}

func TestADamagedPlaceIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{})
		o := &owner{k: w.kafka, epoch: 10}
		o.claim()
		o.beat()
		o.decide("before", time.Hour)
		w.start()
		pass(time.Second)
		w.kafka.Corrupt("floodgate.decisions", 0, kafkaiotest.Corruption{From: 3, To: 3})
		o.decide("lost", time.Hour)
		o.decide("after", time.Hour)
		pass(time.Second)
		w.wantClosed("before", true)
		w.wantClosed("lost", false)
		w.wantClosed("after", true)
		if s := w.link.Stats(); s.Refused["corrupt"] != 1 || !s.Connected {
			t.Errorf("got %+v, want 1 corrupt and a link that is up", s)
		}
		w.shutdown()
	})
}

func TestALogThatIsDamagedWhereTheLinkStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, Config{})
		o := &owner{k: w.kafka, epoch: 10}
		o.claim()
		o.beat()
		o.decide("k", time.Hour)
		w.kafka.Corrupt("floodgate.decisions", 0, kafkaiotest.Corruption{From: 0, To: 0})
		w.start()
		pass(10 * time.Second)
		o.beat()
		w.wantClosed("k", true)
		w.shutdown()
	})
}
