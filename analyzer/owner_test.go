package analyzer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

func TestOwnerClosesAtTheLimitAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		synctest.Wait()
		at := time.Now()
		for range 3 {
			w.prod.send(time.Now(), "noisy", "quiet-"+fmt.Sprint(w.prod.seq))
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		var got []schemas.Decision
		for _, r := range w.log.decisions(t) {
			if r.Decision != nil {
				got = append(got, *r.Decision)
			}
		}
		if len(got) != 1 {
			t.Fatalf("got %d decisions, want 1: %+v", len(got), got)
		}
		d := got[0]
		third := at.Add(2 * time.Millisecond).UnixNano()
		if d.Caller.String() != "key:noisy" || d.Rule != "r" || d.Mode != schemas.ModeEnforce || d.CloseAt != third {
			t.Errorf("got %+v, want key:noisy closed under r at its third request, %d", d, third)
		}
		if want := at.Truncate(time.Minute).Add(time.Minute).UnixNano(); d.Until != max(want, third+int64(30*time.Second)) {
			t.Errorf("until: got %d, want the window's end or 30s later", d.Until)
		}
		e := d.Evidence
		if e.Count != 3 || e.Limit != 3 || e.Window != int64(time.Minute) || e.AsOfTime != third || e.AsOfOffset != 2 {
			t.Errorf("evidence: got %+v", e)
		}
		w.end()
		if got, want := w.counts("r")["noisy"], int64(3); got != want {
			t.Errorf("store: got %d, want %d", got, want)
		}
	})
}

func TestOwnerResumesExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.prod.send(time.Now(), "a", "b")
		w.prod.send(time.Now(), "a")
		time.Sleep(time.Second)
		w.end()
		first := w.epoch()
		if first == 0 {
			t.Error("epoch: got 0, want one that was claimed")
		}
		w.prod.send(time.Now(), "a") // while nobody runs
		w.start()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if got := w.log.follow(t, time.Now().UnixNano()).closed; len(got) != 1 || got["r key:a"] == 0 {
			t.Errorf("closed: got %v, want key:a, whose third request came while no owner ran", got)
		}
		w.end()
		if w.epoch() <= first {
			t.Errorf("epoch: got %d after %d, want a higher one", w.epoch(), first)
		}
		if got, want := w.counts("r"), (map[string]int64{"a": 3, "b": 1}); !maps.Equal(got, want) {
			t.Errorf("store: got %v, want %v", got, want)
		}
	})
}

// A gate that starts at any time, or that has followed from the first record, believes the same.
func TestAGateThatStartsNowBelievesWhatTheOthersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Repeat = 10 * time.Second
		rnd := rand.New(rand.NewPCG(7, 7))
		w.start()
		for i := range 60 {
			for range rnd.IntN(8) {
				w.prod.send(time.Now(), fmt.Sprint("c", rnd.IntN(5)))
			}
			time.Sleep(time.Duration(500+rnd.IntN(1500)) * time.Millisecond)
			if i%20 == 19 {
				w.end()
				w.start()
				time.Sleep(3 * time.Second)
			}
			now := time.Now().UnixNano()
			all := make(map[string]int64) // as followed from the first record on
			var fence schemas.Fence
			for _, r := range w.log.decisions(t) {
				switch {
				case r.Claim != nil:
					fence.Claim(r.Claim.Epoch)
				case r.Heartbeat != nil:
					fence.Heartbeat(r.Heartbeat.Epoch, r.Heartbeat.Seq)
				case fence.Decision(r.Decision.Epoch, r.Decision.Seq):
					all[r.Decision.Rule+" "+r.Decision.Caller.String()] = r.Decision.Until
				}
			}
			maps.DeleteFunc(all, func(_ string, until int64) bool { return until <= now })
			if late := w.log.follow(t, now).closed; !maps.Equal(late, all) {
				t.Fatalf("step %d: a gate that starts now believes %v, one that was always there %v", i, late, all)
			}
		}
		w.end()
	})
}

func TestADecisionThatMayHaveBeenPublishedIsPublishedAgainUnderItsOldNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		time.Sleep(100 * time.Millisecond)
		rnd := rand.New(rand.NewPCG(1, 2))
		lost := 0
		w.log.SetFault(produces("decisions", func() kafkaiotest.Fault {
			switch {
			case rnd.IntN(4) == 0:
				lost++
				return kafkaiotest.LostAnswer()
			case rnd.IntN(4) == 0:
				return kafkaiotest.LostRequest()
			}
			return kafkaiotest.Fault{}
		}))
		for i := range 200 {
			k := fmt.Sprint("c", i)
			w.prod.send(time.Now(), k, k, k)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		w.log.SetFault(nil)
		time.Sleep(2 * time.Second)
		f := w.log.follow(t, time.Now().UnixNano())
		if len(f.closed) != 200 {
			t.Errorf("closed: got %d callers, want 200", len(f.closed))
		}
		if lost == 0 || f.refused == 0 {
			t.Errorf("got %d acknowledgements lost and %d copies refused, want some of both", lost, f.refused)
		}
		w.end()
	})
}

func TestAnOwnerThatWasReplacedStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		time.Sleep(100 * time.Millisecond)
		value, err := pb.AppendClaim(nil, &schemas.Claim{Epoch: w.epoch() + 1, Nonce: 9, Owner: "another"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.log.Produce(t.Context(), "decisions", 0, kafkaio.Message{Value: value}); err != nil {
			t.Fatal(err)
		}
		w.prod.send(time.Now(), "a", "a", "a")
		if err := <-w.done; !errors.Is(err, errFenced) {
			t.Errorf("owner: got %v, want %v", err, errFenced)
		}
		if f := w.log.follow(t, time.Now().UnixNano()); f.applied != 0 {
			t.Errorf("a gate applied %d of its decisions, want none under the other's epoch", f.applied)
		}
		w.stop()
	})
}

func TestOfTwoClaimsTheFirstWinsAndTheOtherClaimsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		other := &world{t: t, log: w.log, prod: w.prod, conf: w.conf}
		other.conf.Dir = t.TempDir() + "/0"
		other.start()
		time.Sleep(3 * time.Second)
		w.prod.send(time.Now(), "a", "a", "a")
		time.Sleep(3 * time.Second)
		lower, higher := w, other
		if w.epoch() > other.epoch() {
			lower, higher = other, w
		}
		if lower.epoch() == higher.epoch() {
			t.Fatalf("both own epoch %d", w.epoch())
		}
		if err := <-lower.done; !errors.Is(err, errFenced) {
			t.Errorf("the owner of the lower epoch: got %v, want %v", err, errFenced)
		}
		if f := w.log.follow(t, time.Now().UnixNano()); len(f.closed) != 1 {
			t.Errorf("closed: got %v, want the winner's one decision", f.closed)
		}
		higher.end()
		lower.stop()
	})
}

func TestWithoutALeaseNothingIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var lost time.Time
		begun := time.Now()
		w.conf.Lease = func(now time.Time) bool { return now.Before(lost) || now.Sub(begun) > time.Minute }
		lost = begun.Add(10 * time.Second)
		w.start()
		time.Sleep(11 * time.Second)
		before := len(w.log.decisions(t))
		w.prod.send(time.Now(), "a", "a", "a")
		time.Sleep(40 * time.Second)
		if n := len(w.log.decisions(t)); n != before {
			t.Errorf("got %d records while there was no lease, want none", n-before)
		}
		time.Sleep(15 * time.Second)
		if n := len(w.log.decisions(t)); n == before {
			t.Error("got nothing published when the lease was back, want what was pending")
		}
		w.end()
	})
}

func TestACanaryIsAnsweredAndCountedNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		time.Sleep(100 * time.Millisecond)
		sent := time.Now()
		w.prod.send(sent, "canary")
		time.Sleep(100 * time.Millisecond)
		answers := 0
		for _, r := range w.log.decisions(t) {
			if r.Decision == nil {
				continue
			}
			answers++
			d := r.Decision
			if d.Rule != ruleCanary || d.Evidence.AsOfTime != sent.UnixNano() || d.ClosedAt(sent.UnixNano()) || d.Mode != schemas.ModeShadow {
				t.Errorf("answer: got %+v, want an echo that closes nothing", d)
			}
		}
		if answers != 1 {
			t.Errorf("got %d answers, want 1", answers)
		}
		w.end()
		if n := w.owner.Stats().Fold.Entries; n != 0 {
			t.Errorf("fold: got %d entries counted, want 0", n)
		}
	})
}

// Whoever may write decisions may announce the last epoch that there is, or the last that gates believe, by a claim or by
// a heartbeat. The first changes nothing; above the second there is always another a moment later. The owner decides,
// and gates follow it.
func TestNoEpochThatIsAnnouncedStopsAPartition(t *testing.T) {
	t.Parallel()
	for name, announce := range map[string]func(now time.Time) pb.Record{
		"a claim of the last epoch": func(time.Time) pb.Record { return pb.Record{Claim: &schemas.Claim{Epoch: math.MaxUint64, Nonce: 1}} },
		"the one before": func(time.Time) pb.Record {
			return pb.Record{Claim: &schemas.Claim{Epoch: math.MaxUint64 - 1, Nonce: 1}}
		},
		"a heartbeat of the last epoch": func(time.Time) pb.Record {
			return pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: math.MaxUint64, Seq: 1}}
		},
		"a claim of the last believed": func(now time.Time) pb.Record {
			return pb.Record{Claim: &schemas.Claim{Epoch: lastBelieved(now), Nonce: 1}}
		},
		"a claim of one more": func(now time.Time) pb.Record {
			return pb.Record{Claim: &schemas.Claim{Epoch: lastBelieved(now) + 1, Nonce: 1}}
		},
		"a heartbeat of the last": func(now time.Time) pb.Record {
			return pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: lastBelieved(now), Seq: math.MaxUint64}}
		},
		"a higher epoch, by a heartbeat": func(now time.Time) pb.Record {
			return pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: uint64(now.UnixMilli()) + 1e6, Seq: 1}}
		},
		"a decision of the last epoch":    func(time.Time) pb.Record { return pb.Record{Decision: strayDecision(math.MaxUint64, 1)} },
		"a decision of the last sequence": func(time.Time) pb.Record { return pb.Record{Decision: strayDecision(1, math.MaxUint64)} },
	} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, before the owner starts %v", name, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { announced(t, announce, before) })
			})
		}
	}
}

// lastBelieved returns the highest epoch that a gate believes now, of a record as far ahead as brokers may let it be.
func lastBelieved(now time.Time) uint64 {
	return uint64(now.Add(schemas.MaxRecordLead+schemas.MaxEpochLead).UnixNano() / int64(time.Millisecond))
}

func strayDecision(epoch, seq uint64) *schemas.Decision {
	return &schemas.Decision{Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "stray"}, Mode: schemas.ModeEnforce, Epoch: epoch, Seq: seq}
}

// announced tells the story: what is announced has the latest time that there is.
func announced(t *testing.T, announce func(time.Time) pb.Record, before bool) {
	t.Helper()
	w := newWorld(t)
	if before {
		w.log.sayAt(t, math.MaxInt64, announce(time.Now()))
		w.start()
	} else {
		w.start()
		time.Sleep(1500 * time.Millisecond)
		w.log.sayAt(t, math.MaxInt64, announce(time.Now()))
	}
	time.Sleep(2 * time.Second)
	select {
	case err := <-w.done: // as an Analyzer does
		if before || !errors.Is(err, errFenced) {
			t.Fatalf("owner: got %v, want it to run, or %v after it ran", err, errFenced)
		}
		w.start()
	default:
	}
	w.prod.send(time.Now(), "a", "a", "a")
	time.Sleep(2 * time.Second)
	if got := w.log.follow(t, time.Now().UnixNano()); len(got.closed) != 1 {
		t.Errorf("closed: got %v, want the owner's one decision", got.closed)
	}
	w.end()
}

// Somebody writes under the owner's own epoch, with a sequence number that hides all that the owner says after it. The
// owner notices, and another takes a higher epoch.
func TestAnOwnerNoticesRecordsOfOthersUnderItsEpoch(t *testing.T) {
	for name, say := range map[string]func(epoch uint64) pb.Record{
		"a heartbeat": func(epoch uint64) pb.Record {
			return pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: epoch, Seq: math.MaxUint64}}
		},
		"a decision": func(epoch uint64) pb.Record { return pb.Record{Decision: strayDecision(epoch, math.MaxUint64)} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start()
				time.Sleep(1500 * time.Millisecond)
				w.log.say(t, say(w.epoch()))
				if err := <-w.done; !errors.Is(err, errFenced) {
					t.Fatalf("owner: got %v, want %v", err, errFenced)
				}
				w.start()
				w.prod.send(time.Now(), "a", "a", "a")
				time.Sleep(2 * time.Second)
				if got := w.log.follow(t, time.Now().UnixNano()); len(got.closed) != 1 {
					t.Errorf("closed: got %v, want the owner's one decision", got.closed)
				}
				w.end()
			})
		})
	}
}
