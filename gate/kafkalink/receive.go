package kafkalink

import (
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// receive applies what a fetch returned. The error is errMoved if it shows that the follower started too late.
func (f *follower) receive(b *kafkaio.Batch) error {
	for _, s := range b.Skipped {
		if s.Reason != kafkaio.SkipGap && s.Reason != kafkaio.SkipControl {
			f.counts.refuse(string(s.Reason), 1)
		}
	}
	f.batch = f.batch[:0]
	defer f.apply()
	for i := range b.Records {
		r, err := pb.Decode(b.Records[i].Value)
		switch {
		case err != nil:
			f.counts.refuse(pb.Reason(err), 1)
		case !f.mine(&r):
			f.counts.refuse(refusedPartition, 1)
		case r.Claim != nil:
			f.fence.Claim(r.Claim.Epoch)
		case r.Heartbeat != nil:
			if err := f.beat(r.Heartbeat); err != nil {
				return err
			}
		case r.Decision != nil && b.Records[i].Offset >= f.at.apply:
			f.decide(r.Decision)
		}
	}
	return nil
}

// beat takes a heartbeat. One that raises the epoch without a claim that was read, and whose cycle began before this
// follower did, shows that there are decisions of its owner which were passed over.
func (f *follower) beat(h *schemas.Heartbeat) error {
	epoch := f.fence.Epoch
	if !f.fence.Heartbeat(h.Epoch, h.Seq) {
		f.counts.refuse(refusedFenced, 1)
		return nil
	}
	f.apply() // in the order of the log
	f.counts.heartbeats.Add(1)
	f.set.Heartbeat(*h, time.Now())
	if epoch == 0 || h.Epoch <= max(epoch, f.moved) || h.From >= f.at.apply {
		return nil
	}
	f.moved, f.fence = h.Epoch, schemas.Fence{}
	return errMoved
}

// decide takes a decision, to be applied with others.
func (f *follower) decide(d *schemas.Decision) {
	if !f.fence.Decision(d.Epoch, d.Seq) {
		f.counts.refuse(refusedFenced, 1)
		return
	}
	now := time.Now()
	if d.Caller.Kind == schemas.KindCanary {
		f.canaries.answer(d, now)
		return
	}
	d.Until = min(d.Until, now.Add(schemas.MaxClosure).UnixNano())
	f.batch = append(f.batch, *d)
	if len(f.batch) == maxBatch {
		f.apply()
	}
}

// maxBatch is the most decisions that are applied together. The Set is locked for other writers meanwhile.
const maxBatch = 1024

// apply applies the decisions taken so far.
func (f *follower) apply() {
	if len(f.batch) == 0 {
		return
	}
	f.set.Apply(f.batch)
	f.counts.decisions.Add(uint64(len(f.batch)))
	if f.config.Observe != nil {
		now := time.Now()
		for i := range f.batch {
			f.config.Observe(f.batch[i], now)
		}
	}
	clear(f.batch)
	f.batch = f.batch[:0]
}
