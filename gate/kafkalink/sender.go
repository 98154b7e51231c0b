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
	task      string // its name in health
	appender  *kafkaio.Appender
	since     time.Time // of the frame that is being sent
	failed    error     // of its last attempt
}

func newSender(s *session, p int) *sender {
	sd := &sender{session: s, partition: p, queue: s.queues[p], task: task("send", p)}
	sd.appender = kafkaio.NewAppender(s.log, kafkaio.AppenderConfig{Topic: s.config.Topics.Requests, Partition: p, Retry: sd.retry})
	return sd
}

// run sends until the queue is closed and empty. After ctx has ended it drops what is left, and counts it.
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

// send sends the entries of a table, and a canary unless it is 0, in as many frames as they need.
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

// add adds an entry to the frame, or to the next one if it is full. requests is how many of the Recorder's requests the entry
// counts.
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

// finish sends the frame, unless it is empty, and starts another.
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

// deliver sends a message until its outcome is known, until Config.Retry has passed, or until ctx ends. It counts the outcome.
func (s *sender) deliver(ctx context.Context, m kafkaio.Message, requests uint64, since time.Time) {
	s.since = since
	_, err := s.appender.Append(ctx, m)
	if err == nil {
		s.noteProduce(nil)
		s.rec.Acked(requests)
		return
	}
	reason, final := Rejection(s.failed) // err may also say that ctx has ended
	switch {
	case kafkaio.OutcomeOf(err) == kafkaio.Unknown: // an attempt may have reached the log
		s.rec.Unknown(requests)
	case final:
		s.rec.Dropped(reason, requests)
	case ctx.Err() != nil:
		s.rec.Dropped(record.Shutdown, requests)
	default:
		s.rec.Dropped(record.Undelivered, requests)
	}
}

// retry notes an attempt that failed, and decides whether there is another.
func (s *sender) retry(err error) bool {
	s.failed = err
	if !errors.Is(err, context.Canceled) { // a stop says nothing about Kafka
		s.noteProduce(err)
	}
	if _, final := Rejection(err); final || time.Since(s.since) >= s.config.Retry {
		return false
	}
	s.counts.retries.Add(1)
	return true
}

// Rejection returns why a frame whose produce returned err is dropped. final reports whether Kafka will never accept the frame.
func Rejection(err error) (reason record.Reason, final bool) {
	switch {
	case errors.Is(err, kafkaio.ErrTimestamp):
		return record.ClockAhead, true
	case errors.Is(err, kafkaio.ErrTooLarge):
		return record.Refused, true
	case kafkaio.OutcomeOf(err) != kafkaio.Refused, kafkaio.Temporary(err):
		return 0, false
	case errors.Is(err, kafkaio.ErrNoTopic), errors.Is(err, kafkaio.ErrUnauthorized):
		return 0, false // an administrator may mend it
	}
	return record.Refused, true
}

// noteProduce notes the outcome of a produce in health. A broker that refuses a frame can be reached, so the link is up.
func (s *sender) noteProduce(err error) {
	s.health.noteClock(errors.Is(err, kafkaio.ErrTimestamp), err)
	if _, final := Rejection(err); final {
		err = nil
	}
	s.health.note(s.task, err)
}
