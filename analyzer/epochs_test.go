package analyzer

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
)

// RepairEpochs claims where gates refuse the owner, and nowhere else.
func TestRepairEpochs(t *testing.T) {
	claim := func(epoch uint64) pb.Record {
		return pb.Record{Claim: &schemas.Claim{Epoch: epoch, Nonce: 1, Owner: "by"}}
	}
	beat := func(epoch, seq uint64) pb.Record {
		return pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: epoch, Seq: seq}}
	}
	elsewhere := pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: 7, Seq: 9, Partition: 1}}
	tests := map[string]struct {
		log  []pb.Record
		want EpochReport // Claimed is 1 where a claim is wanted
	}{
		"an empty log":                      {nil, EpochReport{}},
		"an owner":                          {[]pb.Record{claim(5), beat(5, 1), beat(5, 2)}, EpochReport{Owner: 5, Highest: 5, By: "by"}},
		"a takeover that is still going on": {[]pb.Record{claim(5), beat(5, 1), claim(6)}, EpochReport{Owner: 5, Highest: 6, By: "by"}},
		"a claim before the owner":          {[]pb.Record{claim(9), claim(5), beat(5, 1)}, EpochReport{Owner: 5, Highest: 9, By: "by", Claimed: 1}},
		"a heartbeat before the owner":      {[]pb.Record{beat(9, 1), claim(5), beat(5, 1)}, EpochReport{Owner: 5, Highest: 9, Claimed: 1}},
		"what no gate believes":             {[]pb.Record{claim(math.MaxUint64), beat(1<<63, 1), claim(5), beat(5, 1)}, EpochReport{Refused: 2, Owner: 5, Highest: 5, By: "by"}},
		"another partition's":               {[]pb.Record{claim(5), beat(5, 1), elsewhere}, EpochReport{Owner: 5, Highest: 5, By: "by"}},
		"a decision of a high epoch":        {[]pb.Record{claim(5), {Decision: strayDecision(9, 1)}, beat(5, 1)}, EpochReport{Owner: 5, Highest: 5, By: "by"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newTestLog()
				log.say(t, test.log...)
				got, err := RepairEpochs(t.Context(), log, OwnerConfig{Requests: "requests", Decisions: "decisions"})
				if err != nil {
					t.Fatal(err)
				}
				records := log.decisions(t)[len(test.log):]
				if want := test.want.Claimed; len(records) != int(want) || (got.Claimed > got.Highest) != (want == 1) {
					t.Errorf("got %+v and %d new records, want %d claims above the highest", got, len(records), want)
				}
				if got.Claimed = test.want.Claimed; got != test.want {
					t.Errorf("got %+v, want %+v", got, test.want)
				}
			})
		})
	}
}

// The highest epoch that gates believe now is followed a moment later, when they believe the next.
func TestRepairEpochsAboveTheLastBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newTestLog()
		last := lastBelieved(time.Now())
		log.sayAt(t, math.MaxInt64, pb.Record{Claim: &schemas.Claim{Epoch: last, Nonce: 1}})
		log.say(t, pb.Record{Heartbeat: &schemas.Heartbeat{Epoch: 5, Seq: 1}})
		began := time.Now()
		got, err := RepairEpochs(t.Context(), log, OwnerConfig{Requests: "requests", Decisions: "decisions"})
		if err != nil || got.Claimed != last+1 || time.Since(began) > time.Second {
			t.Errorf("got %+v, %v after %v; want a claim of %d within a second", got, err, time.Since(began), last+1)
		}
		fence := schemas.Fence{}
		r := log.Records("decisions", 0)[2]
		rec, err := pb.Decode(r.Value)
		if err != nil || !believed(&rec, r.Time) || !fence.Claim(rec.Claim.Epoch) {
			t.Errorf("got a claim %+v of time %d that no gate takes: %v", rec.Claim, r.Time, err)
		}
	})
}
