package analyzer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// claim takes the partition over: it appends a claim under an epoch higher than any other, and waits to read it back.
// Where another claim of the same or a higher epoch came first, it claims again.
func (o *Owner) claim(ctx context.Context) error {
	at, err := o.tail(ctx)
	if err != nil {
		return err
	}
	o.beat = at.beat
	epoch := max(at.fence.Epoch, o.store.Checkpoint().Epoch)
	for {
		if epoch == math.MaxUint64 {
			return fmt.Errorf("%w: someone claimed epoch %d, the last there is; the topic of decisions must be made anew", ErrFenced, epoch)
		}
		epoch = max(epoch+1, uint64(time.Now().UnixMilli())) // after 1970
		nonce := newNonce()
		base, err := o.appendClaim(ctx, epoch, nonce)
		if err != nil {
			return err
		}
		failpoint.Here(failpoint.ClaimAppended)
		won := false
		at.next, err = o.scan(ctx, at.next, base+1, func(r pb.Record) {
			switch {
			case r.Claim != nil && r.Claim.Nonce == nonce && r.Claim.Epoch == epoch:
				won = at.fence.Claim(epoch) || won
			case r.Claim != nil:
				at.fence.Claim(r.Claim.Epoch)
			case r.Heartbeat != nil:
				at.fence.Heartbeat(r.Heartbeat.Epoch, r.Heartbeat.Seq)
			}
		})
		if err != nil {
			return err
		}
		if won && at.fence.Epoch == epoch {
			o.claimed = epoch
			o.publisher.claimed(epoch, base+1)
			o.states.epoch = epoch
			o.states.complete.Store(at.beat.State)
			failpoint.Here(failpoint.Claimed)
			return nil
		}
		epoch = max(epoch, at.fence.Epoch)
	}
}

// appendClaim produces a claim until it is acknowledged. One that was appended twice is the same claim. Without a lease
// it waits: a claim would shut out the rightful owner, for nobody's good.
func (o *Owner) appendClaim(ctx context.Context, epoch, nonce uint64) (int64, error) {
	p := o.config.Fold.Partition
	value, err := pb.AppendClaim(nil, &schemas.Claim{
		Partition: int32(p), Epoch: epoch, Nonce: nonce, Owner: o.config.Name, // a partition number
	})
	if err != nil {
		return 0, fmt.Errorf("encode claim: %w", err)
	}
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		for ctx.Err() == nil && !o.config.Lease(time.Now()) {
			sleep(ctx, leasePoll)
		}
		base, err := o.log.Produce(ctx, o.config.Decisions, p, kafkaio.Message{Time: time.Now().UnixNano(), Value: value})
		if err == nil {
			return base, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		o.config.Logger.Warn("cannot claim", "error", err)
		sleep(ctx, wait)
	}
}

func newNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}

// readDecisions returns what gates believe before this owner says anything: the decisions in force by the last complete
// cycle and all since, without those that gates refuse.
func (o *Owner) readDecisions(ctx context.Context) (map[decisionKey]schemas.Decision, error) {
	at, err := o.tail(ctx)
	if err != nil {
		return nil, err
	}
	told := make(map[decisionKey]schemas.Decision)
	var fence schemas.Fence
	announced := fence.Claim(at.beat.Epoch) // whose cycle it is that reading begins with
	_, err = o.scan(ctx, at.from, at.next, func(r pb.Record) {
		switch d := r.Decision; {
		case r.Claim != nil:
			fence.Claim(r.Claim.Epoch)
		case r.Heartbeat != nil:
			fence.Heartbeat(r.Heartbeat.Epoch, r.Heartbeat.Seq)
		case d != nil:
			if !announced { // no heartbeat is left in the log, and perhaps no claim
				fence.Claim(d.Epoch)
			}
			if fence.Decision(d.Epoch, d.Seq) && d.Caller.Kind != schemas.KindCanary {
				told[keyOf(d)] = *d
			}
		}
	})
	return told, err
}
