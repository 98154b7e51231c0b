package analyzer

import (
	"fmt"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// ruleCanary is the rule name of answers to canaries.
const ruleCanary = "_canary"

// signature is the partition, the epoch and the sequence number that records are written under. All batches of a publisher share one.
type signature struct {
	partition int32
	epoch     uint64
	seq       uint64 // of the last record
}

// batch holds the records of one produce request.
type batch struct {
	signature *signature
	now       int64 // Unix nanoseconds
	messages  []kafkaio.Message
	closes    []fold.Change
	spared    []fold.Change // closes that need no decision: they would be over when gates learn of them, or the caller's share covers them
	kinds     [outbox.Kinds]uint64
	err       error // of a record that cannot be encoded
	changed   uint64
	repeated  uint64
}

// decide adds a new decision.
func (b *batch) decide(d *outbox.Item) {
	b.closes = append(b.closes, d.Closes...)
	b.append(&d.Decision)
	b.changed++
	b.kinds[d.Kind]++
}

// observeSpared calls observe, if that is not nil, for each close that needs no decision. The lag of such a close is the time from its
// entry until the batch was made.
func (b *batch) observeSpared(observe func(c fold.Change, lag int64)) {
	for _, c := range b.spared {
		if observe != nil {
			observe(c, b.now-c.At)
		}
	}
}

// repeat adds a decision that is in force.
func (b *batch) repeat(d *schemas.Decision) {
	b.append(d)
	b.repeated++
}

// answer adds the answer to a canary. It closes nothing: the sender of the canary measures by it how long a decision takes.
func (b *batch) answer(e *schemas.Entry) {
	b.append(&schemas.Decision{
		Rule: ruleCanary, Caller: e.Caller(), Mode: schemas.ModeShadow, CloseAt: e.Time, Until: e.Time,
		Evidence: schemas.Evidence{AsOfTime: e.Time},
	})
}

// append encodes a decision under the next sequence number.
func (b *batch) append(d *schemas.Decision) {
	b.signature.seq++
	d.Epoch, d.Seq, d.Partition = b.signature.epoch, b.signature.seq, b.signature.partition
	value, err := pb.AppendDecision(nil, d)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("encode decision about %q: %w", d.Caller, err)
		return
	}
	b.put(value)
}

// beat adds a heartbeat under the next sequence number.
func (b *batch) beat(h *schemas.Heartbeat) {
	b.signature.seq++
	h.Epoch, h.Seq, h.Partition, h.Time = b.signature.epoch, b.signature.seq, b.signature.partition, b.now
	value, err := pb.AppendHeartbeat(nil, h)
	if err != nil {
		b.err = fmt.Errorf("encode heartbeat: %w", err)
		return
	}
	b.put(value)
}

// put adds a record. Its time is one at which gates believe the epoch.
func (b *batch) put(value []byte) {
	b.messages = append(b.messages, kafkaio.Message{Time: schemas.EpochTime(b.signature.epoch, b.now), Value: value})
}
