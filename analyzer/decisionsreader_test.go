package analyzer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// TestAnOwnerDoesNotClaimByPartOfTheDecisions: the newest heartbeat was found, and retention removes decisions before they are
// read. An owner that went on with the rest would never open closures that gates believe.
func TestAnOwnerDoesNotClaimByPartOfTheDecisions(t *testing.T) {
	beat := func(seq uint64, from int64) pb.Record {
		return pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: 5, Seq: seq, From: from}}
	}
	closed := func(seq uint64) pb.Record {
		return pb.Record{Decision: &schemas.Decision{
			Rule: "r", Caller: schemas.Caller{Kind: "key", ID: "a"}, Mode: schemas.ModeEnforce, Until: 100, Epoch: 5, Seq: seq,
		}}
	}
	log := newTestLog()
	log.say(t, pb.Record{Claim: &schemas.Claim{Epoch: 5, Nonce: 1}}, closed(1), beat(2, 1))
	cycle := newTestLog()
	cycle.say(t, beat(3, 1), closed(4), beat(5, 4))
	fetches := 0
	log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
		if c.Op == kafkaiotest.OpFetch {
			fetches++
		}
		if c.Op == kafkaiotest.OpFetch && fetches == 3 { // the first of the replay; the owner has begun another cycle
			for _, r := range cycle.Records("decisions", 0) {
				log.Append("decisions", 0, kafkaio.Message{Time: r.Time, Value: r.Value})
			}
			log.Trim("decisions", 0, 3)
		}
		return kafkaiotest.Fault{}
	})
	conf := OwnerConfig{Requests: "requests", Decisions: "decisions"}.withDefaults()
	if v, err := newDecisionsReader(log, &conf, 0).view(t.Context()); !errors.Is(err, kafkaio.ErrOffsetOutOfRange) {
		t.Errorf("got %+v and %v after %d fetches, want %v", v, err, fetches, kafkaio.ErrOffsetOutOfRange)
	}
	if v, err := newDecisionsReader(log, &conf, 0).view(t.Context()); err != nil || len(v.published) != 1 || v.follower.Epoch() != 5 {
		t.Errorf("got %+v and %v, want the closure that was repeated, of epoch 5", v, err)
	}
}

// TestARepairThatMayNotReadEnds: a person waits for it.
func TestARepairThatMayNotReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newTestLog()
		log.say(t, pb.Record{Claim: &schemas.Claim{Epoch: 5, Nonce: 1}})
		log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
			if c.Op == kafkaiotest.OpFetch {
				return kafkaiotest.Unauthorized()
			}
			return kafkaiotest.Fault{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := RepairEpochs(ctx, log, OwnerConfig{Requests: "requests", Decisions: "decisions"})
		if !errors.Is(err, kafkaio.ErrUnauthorized) || ctx.Err() != nil {
			t.Errorf("got %v, want %v at once", err, kafkaio.ErrUnauthorized)
		}
	})
}
