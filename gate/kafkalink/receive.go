package kafkalink

import (
	"errors"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
)

// receive gives the records of a batch to the Handler. The error is decisions.ErrMoved if one of them shows that the follower
// started behind decisions that count.
func (f *follower) receive(b *kafkaio.Batch) error {
	for _, s := range b.Skipped {
		if s.Reason != kafkaio.SkipGap && s.Reason != kafkaio.SkipControl {
			f.handler.Refused(f.partition, string(s.Reason), uint64(s.To-s.From+1)) // > 0
			f.logger.Error("skipped decisions", "partition", f.partition, "from", s.From, "to", s.To, "reason", s.Reason, "error", s.Err)
		}
	}
	f.batch = f.batch[:0]
	defer f.apply()
	for i := range b.Records {
		now := time.Now()
		r, err := f.judge.Take(&b.Records[i], now.UnixNano())
		switch {
		case err != nil && !errors.Is(err, decisions.ErrMoved):
			f.handler.Refused(f.partition, decisions.Reason(err), 1)
		case r.Heartbeat != nil:
			f.apply() // in the order of the log
			f.handler.Heartbeat(r.Heartbeat, time.Now())
			if err != nil {
				return err
			}
		case r.Decision != nil:
			f.decide(r.Decision, now)
		}
	}
	return nil
}

// decide collects a decision, to apply it together with others.
func (f *follower) decide(d *schemas.Decision, now time.Time) {
	if d.Caller.Kind == schemas.KindCanary {
		if f.canary != nil {
			f.canary(d, now)
		}
		return
	}
	d.Until = min(d.Until, now.Add(schemas.MaxClosure).UnixNano())
	f.batch = append(f.batch, *d)
	if len(f.batch) == maxBatch {
		f.apply()
	}
}

// maxBatch is how many decisions are applied together at most. A Set is locked for other writers meanwhile.
const maxBatch = 1024

// apply gives the decisions that were collected to the Handler.
func (f *follower) apply() {
	if len(f.batch) == 0 {
		return
	}
	f.handler.Decisions(f.partition, f.batch, time.Now())
	clear(f.batch)
	f.batch = f.batch[:0]
}
