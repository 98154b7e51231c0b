package kafkalink

import (
	"context"
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// FrameError says why a frame was not confirmed, by Forward or by a Source.
type FrameError struct {
	Reason FrameReason
	Err    error // what was got, and what was wanted
}

// Error returns the text of Err.
func (e *FrameError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FrameError) Unwrap() error { return e.Err }

// FrameReason says whether a frame is to be sent again: one that is Unsent or Unknown is, the others are dropped.
type FrameReason string

// Reasons. The zero value is treated as Unknown.
const (
	FrameMalformed  FrameReason = "malformed"  // it is no frame, or not one of a server's requests
	FrameKey        FrameReason = "key"        // made with another partition key
	FramePartitions FrameReason = "partitions" // made for another number of partitions
	FrameMisplaced  FrameReason = "misplaced"  // it has entries of several partitions
	FrameTime       FrameReason = "time"       // Kafka refuses its time, which is ahead
	FrameRefused    FrameReason = "refused"    // Kafka refuses it for another reason
	FrameUnsent     FrameReason = "unsent"     // Kafka does not have it
	FrameUnknown    FrameReason = "unknown"    // Kafka may have it
)

func refuse(reason FrameReason, format string, args ...any) error {
	return &FrameError{reason, fmt.Errorf("frame: "+format, args...)}
}

// Forward appends a frame of another server to the topic of requests, as it is, and returns when Kafka has it. Its producer and its
// sequence number are those of its sender, so a frame that is sent twice, also by two processes, counts once. It goes through the Link's own
// client, which joins what goes to one broker in one request. The error is a *FrameError. Any goroutine may call Forward between Open and
// Close.
func (l *Link) Forward(ctx context.Context, frame []byte) error {
	partition, flushed, err := l.examine(frame)
	if err != nil {
		return err
	}
	_, err = l.log.Produce(ctx, l.config.Topics.Requests, partition, kafkaio.Message{Time: flushed, Value: frame})
	if err == nil {
		return nil
	}
	reason := FrameUnsent
	switch why, final := rejection(err); {
	case final && why == record.ClockAhead:
		reason = FrameTime
	case final:
		reason = FrameRefused
	case kafkaio.OutcomeOf(err) == kafkaio.Unknown:
		reason = FrameUnknown
	}
	return &FrameError{reason, err}
}

// examine reads a frame, and returns the partition that all of its entries belong to, and when it was flushed.
func (l *Link) examine(frame []byte) (partition int, flushed int64, err error) {
	n := int(l.counts.partitions.Load())
	if n == 0 {
		return 0, 0, refuse(FrameUnsent, "the number of partitions is not known yet")
	}
	f, ok := l.frames.Get().(*schemas.Frame)
	if !ok {
		f = new(schemas.Frame)
	}
	defer l.frames.Put(f)
	if err := f.Decode(frame); err != nil {
		return 0, 0, refuse(FrameMalformed, "%w", err)
	}
	switch {
	case f.Source || len(f.Entries) == 0:
		return 0, 0, refuse(FrameMalformed, "got source %v and %d entries, want the entries of a server's requests", f.Source, len(f.Entries))
	case f.Fingerprint != l.config.PartitionKey.Fingerprint():
		return 0, 0, refuse(FrameKey, "got one of the partition key with fingerprint %016x, want one of this process's key", f.Fingerprint)
	case int64(f.Partitions) != int64(n):
		return 0, 0, refuse(FramePartitions, "got one for %d partitions, want %d", f.Partitions, n)
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		p := schemas.Partition(l.config.PartitionKey.Hash(e.Kind, e.ID), n)
		switch {
		case schemas.ReservedKind(e.Kind):
			return 0, 0, refuse(FrameMalformed, "entry %d: got a caller of kind %s, want none of floodgate's own: only who has Kafka sends them", i, e.Kind)
		case i > 0 && p != partition:
			return 0, 0, refuse(FrameMisplaced, "entry %d: got one of partition %d behind those of %d, want one partition", i, p, partition)
		}
		partition = p
	}
	return partition, f.Flushed, nil
}

// sourceLog is a Source as the log that frames are appended to.
type sourceLog struct{ Source }

// Produce sends a frame. Its errors say what those of kafkaio.Client.Produce say.
func (s sourceLog) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (base int64, err error) {
	for i := range msgs {
		if err := s.Send(ctx, msgs[i].Value); err != nil {
			outcome, err := judge(err)
			return -1, &kafkaio.RequestError{Op: "send a frame of", Topic: topic, Partition: partition, Outcome: outcome, Err: err}
		}
	}
	return 0, nil
}

// judge returns what the error of a Source means for a frame.
func judge(err error) (kafkaio.Outcome, error) {
	refused, ok := errors.AsType[*FrameError](err)
	if !ok {
		return kafkaio.Unknown, err
	}
	switch refused.Reason {
	case FrameTime:
		return kafkaio.Refused, fmt.Errorf("%w: %w", kafkaio.ErrTimestamp, err)
	case FrameUnsent:
		return kafkaio.Unsent, err
	case FrameUnknown, "":
		return kafkaio.Unknown, err
	}
	return kafkaio.Refused, err
}
