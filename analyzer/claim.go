package analyzer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
)

// claim is the result of taking a partition over.
type claim struct {
	epoch  uint64
	before uint64   // the highest epoch that was claimed before
	end    int64    // the offset of decisions[p] behind our claim
	view   gateView // what gates believed before the claim
}

// claimer takes a partition over.
type claimer struct {
	log    kafkaio.Log
	config *OwnerConfig
}

// claim appends a claim under an epoch higher than any other that gates believe, and waits to read it back. If another
// claim of the same or a higher epoch came first, it claims again. stored is the epoch of the store.
func (c *claimer) claim(ctx context.Context, stored uint64) (claim, error) {
	view, err := newDecisionsReader(c.log, c.config, 0).view(ctx)
	if err != nil {
		return claim{}, err
	}
	epoch := view.follower.Epoch()
	if now := time.Now().UnixNano(); schemas.CheckEpoch(stored, now, now) == nil {
		epoch = max(epoch, stored)
	}
	for {
		before := view.follower.Epoch()
		epoch = max(epoch+1, uint64(time.Now().UnixMilli())) // after 1970
		if err := c.awaitEpoch(ctx, epoch); err != nil {
			return claim{}, err
		}
		nonce := newNonce()
		base, err := c.append(ctx, epoch, nonce)
		if err != nil {
			return claim{}, err
		}
		failpoint.Here(failpoint.ClaimAppended)
		won, err := c.readBack(ctx, &view, base+1, nonce)
		if errors.Is(err, decisions.ErrMoved) {
			view, err = newDecisionsReader(c.log, c.config, 0).view(ctx)
		}
		if err != nil {
			return claim{}, err
		}
		if won && view.follower.Epoch() == epoch {
			failpoint.Here(failpoint.Claimed)
			return claim{epoch, before, base + 1, view}, nil
		}
		epoch = max(epoch, view.follower.Epoch())
	}
}

// readBack reads the records up to our own claim, and reports whether our claim took the partition over. If it returns
// true, gates believe no later record of others, unless they claim a higher epoch.
func (c *claimer) readBack(ctx context.Context, view *gateView, end int64, nonce uint64) (won bool, err error) {
	r := newDecisionsReader(c.log, c.config, view.next)
	err = r.Scan(ctx, end, func(b *kafkaio.Batch) error {
		for i := range b.Records {
			rec, err := view.follower.Take(&b.Records[i], gateClock().UnixNano())
			if errors.Is(err, decisions.ErrMoved) {
				return err
			}
			if err != nil {
				continue // gates refuse it too
			}
			view.take(&rec)
			won = won || rec.Claim != nil && rec.Claim.Nonce == nonce
		}
		return nil
	})
	view.next = r.Offset()
	return won && err == nil, err
}

// epochPoll is how often awaitEpoch looks at the clock.
const epochPoll = 20 * time.Millisecond

// awaitEpoch waits until gates believe a claim of the epoch. Only an epoch above the highest one that they believe now must
// wait.
func (c *claimer) awaitEpoch(ctx context.Context, epoch uint64) error {
	for logged := false; ; logged = true {
		now := time.Now().UnixNano()
		err := schemas.CheckEpoch(epoch, schemas.EpochTime(epoch, now), now)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if !logged {
			c.config.Logger.Warn("waiting to claim", "error", err)
		}
		if err := kafkaio.Sleep(ctx, epochPoll); err != nil {
			return err
		}
	}
}

// append appends a claim, and returns its offset. A claim that was appended twice counts once. Without a lease append
// waits: the claim would replace the rightful owner, which could then not publish.
func (c *claimer) append(ctx context.Context, epoch, nonce uint64) (int64, error) {
	p := c.config.Fold.Partition
	value, err := pb.AppendClaim(nil, &schemas.Claim{
		Partition: int32(p), Epoch: epoch, Nonce: nonce, Owner: c.config.Name, // a partition number
	})
	if err != nil {
		return 0, fmt.Errorf("encode claim: %w", err)
	}
	return kafkaio.NewAppender(c.log, kafkaio.AppenderConfig{
		Topic: c.config.Decisions, Partition: p, Lease: c.config.Lease, Retry: kafkaio.Always, Logger: c.config.Logger,
		Stamp: func() int64 { return schemas.EpochTime(epoch, time.Now().UnixNano()) },
	}).Append(ctx, kafkaio.Message{Value: value})
}

func newNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}
