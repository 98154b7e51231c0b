package analyzer

import (
	"context"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// EpochReport says which epochs a partition of the decisions topic contains, and whose they are.
type EpochReport struct {
	Partition int
	Refused   int    // claims and heartbeats whose epoch no gate believes
	Owner     uint64 // epoch of the newest heartbeat; 0: there is none
	Highest   uint64 // the epoch that a gate believes when it has read the whole partition
	By        string // the owner's name in the claim of Highest, as its writer gave it; empty if a heartbeat set Highest
	Claimed   uint64 // epoch of the claim that RepairEpochs appended; 0: none was needed
}

// stuck reports whether gates refuse the owner: a record of a higher epoch comes before its newest heartbeat.
func (r EpochReport) stuck(highestAt, ownerAt int64) bool {
	return r.Owner < r.Highest && ownerAt > highestAt
}

// RepairEpochs reads all of decisions[p], where p is c.Fold.Partition. If gates that have read it refuse the owner's decisions, it appends
// a claim of a higher epoch. An owner that runs then takes the partition back, with an epoch above that, within about a Heartbeat. If none
// runs, the next owner does so when it starts. Analyzers and gates may run meanwhile.
//
// An owner that starts reads only the end of the partition, so that it does not see what somebody else wrote before. RepairEpochs is for
// that case. It waits for as long as the brokers are away, or until ctx ends. Other reasons why it cannot read are errors.
func RepairEpochs(ctx context.Context, log kafkaio.Log, c OwnerConfig) (EpochReport, error) {
	c = c.withDefaults()
	report := EpochReport{Partition: c.Fold.Partition}
	r := &decisionsReader{kafkaio.NewCursor(log, kafkaio.CursorConfig{
		Topic: c.Decisions, Partition: report.Partition, Offset: kafkaio.Earliest, MaxBytes: fetchBytes, Logger: c.Logger,
	}), &c}
	_, end, err := r.Range(ctx)
	if err != nil {
		return report, err
	}
	var fence schemas.Fence
	var highestAt, ownerAt int64
	err = r.each(ctx, end, func(at *kafkaio.Record, rec *pb.Record) {
		switch {
		case rec.Decision != nil:
		case !believed(rec, at.Time):
			report.Refused++
		case rec.Claim != nil && fence.Claim(rec.Claim.Epoch):
			report.By, highestAt = rec.Claim.Owner, at.Offset
		case rec.Heartbeat != nil:
			report.Owner, ownerAt = rec.Heartbeat.Epoch, at.Offset
			if rec.Heartbeat.Epoch > fence.Epoch {
				report.By, highestAt = "", at.Offset
			}
			fence.Heartbeat(rec.Heartbeat.Epoch, rec.Heartbeat.Seq)
		}
	})
	report.Highest = fence.Epoch
	if err != nil || !report.stuck(highestAt, ownerAt) {
		return report, err
	}
	epoch := max(fence.Epoch+1, uint64(time.Now().UnixMilli())) // after 1970
	claimer := claimer{log, &c}
	if err := claimer.awaitEpoch(ctx, epoch); err != nil {
		return report, err
	}
	if _, err := claimer.append(ctx, epoch, newNonce()); err != nil {
		return report, fmt.Errorf("append claim to %s/%d: %w", c.Decisions, report.Partition, err)
	}
	report.Claimed = epoch
	return report, nil
}
