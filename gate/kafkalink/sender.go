package kafkalink

import (
	"context"
	"errors"
	"time"

	"github.com/509da70d/floodgate/gate/internal/merge"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// sender sends one partition's queue, one frame after the other.
type sender struct {
	*session
	partition int
	queue     *queue
	encoder   schemas.FrameEncoder
	requests  uint64 // in the encoder
	frame     []byte
	fails     string // who fails, for health
}

func newSender(s *session, p int) *sender {
	return &sender{session: s, partition: p, queue: s.queues[p], fails: who("send", p)}
}

// run sends until the queue is closed and empty. When ctx ends it drops what is left.
func (s *sender) run(ctx context.Context) {
	for {
		t, canary := s.queue.take()
		if t == nil {
			return
		}
		s.send(ctx, t, canary)
		s.queue.done(t)
	}
}

// send sends what is in a table, in as many frames as it takes.
func (s *sender) send(ctx context.Context, t *merge.Table, canary int64) {
	s.encoder.Reset(false)
	var e schemas.Entry
	for i := range t.Len() {
		t.Read(i, &e)
		s.add(ctx, &e, uint64(e.Count))
	}
	if canary != 0 {
		s.counts.canaries.Add(1)
		s.add(ctx, &schemas.Entry{
			Time: canary, Kind: schemas.KindCanary, ID: s.canaryIDs[s.partition], Count: 1, Cost: s.canaries.last(),
		}, 0)
	}
	s.finish(ctx)
}

// add adds an entry, which stands for this many requests of the Recorder's, to the frame, or to the next if it is full.
func (s *sender) add(ctx context.Context, e *schemas.Entry, requests uint64) {
	err := s.encoder.Add(e)
	if errors.Is(err, schemas.ErrFrameFull) {
		s.finish(ctx)
		err = s.encoder.Add(e)
	}
	if err != nil {
		s.rec.Dropped(record.Invalid, requests)
		return
	}
	s.requests += requests
}

// finish sends the frame as it is and starts another.
func (s *sender) finish(ctx context.Context) {
	requests := s.requests
	s.requests = 0
	if s.encoder.Len() == 0 {
		return
	}
	defer s.encoder.Reset(false)
	if ctx.Err() != nil {
		s.rec.Dropped(record.Shutdown, requests)
		return
	}
	s.seqs[s.partition]++
	now := time.Now()
	head := schemas.Frame{
		Producer: s.producer, Seq: s.seqs[s.partition], Flushed: now.UnixNano(),
		Partitions: uint32(s.partitions), Fingerprint: s.config.PartitionKey.Fingerprint(),
	}
	var err error
	if s.frame, err = s.encoder.AppendTo(s.frame[:0], &head); err != nil {
		panic("BUG: " + err.Error()) // the header is ours and the entries were checked
	}
	s.counts.frames.Add(1)
	s.deliver(ctx, kafkaio.Message{Time: now.UnixNano(), Value: s.frame}, requests, now)
}

// deliver sends a message until its outcome is known, it is given up, or ctx ends, and says what became of it.
func (s *sender) deliver(ctx context.Context, m kafkaio.Message, requests uint64, since time.Time) {
	var wait backoff
	doubt := false // an attempt may have reached the log
	for {
		_, err := s.client.Produce(ctx, s.config.Topics.Requests, s.partition, m)
		if ctx.Err() == nil || err == nil {
			s.noteProduce(err)
		}
		doubt = doubt || kafkaio.OutcomeOf(err) == kafkaio.Unknown
		reason, final := verdict(err)
		switch {
		case err == nil:
			s.rec.Acked(requests)
			return
		case final:
		case ctx.Err() != nil:
			reason, final = record.Shutdown, true
		case time.Since(since) >= s.config.Retry:
			reason, final = record.Undelivered, true
		}
		if final {
			s.giveUp(doubt, reason, requests)
			return
		}
		s.counts.retries.Add(1)
		_ = wait.pause(ctx) // when ctx has ended the next attempt fails at once
	}
}

// verdict returns why a frame is dropped, if the error says that Kafka will never take it.
func verdict(err error) (reason record.Reason, final bool) {
	switch {
	case errors.Is(err, kafkaio.ErrTimestamp):
		return record.ClockAhead, true
	case errors.Is(err, kafkaio.ErrTooLarge):
		return record.Refused, true
	case kafkaio.OutcomeOf(err) != kafkaio.Refused, kafkaio.Temporary(err):
		return 0, false
	case errors.Is(err, kafkaio.ErrNoTopic), errors.Is(err, kafkaio.ErrUnauthorized):
		return 0, false // somebody may mend it
	}
	return record.Refused, true
}

func (s *sender) giveUp(doubt bool, reason record.Reason, requests uint64) {
	if doubt {
		s.rec.Unknown(requests)
		return
	}
	s.rec.Dropped(reason, requests)
}

// noteProduce tells health how a produce went. A broker that refuses a frame is there.
func (s *sender) noteProduce(err error) {
	s.health.noteClock(errors.Is(err, kafkaio.ErrTimestamp), err)
	if _, final := verdict(err); final {
		err = nil
	}
	s.health.note(s.fails, err)
}
