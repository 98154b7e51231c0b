package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Errors of a Client. Test with errors.Is.
var (
	// ErrClosed says that the client or group was closed.
	ErrClosed = errors.New("client is closed")
	// ErrNoBrokers says that Config.Brokers is empty.
	ErrNoBrokers = errors.New("no brokers given")
	// ErrOffsetOutOfRange says that the partition does not hold the offset; the error is a *RangeError.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrNoTopic says that the cluster has no such topic or partition.
	ErrNoTopic = errors.New("no such topic or partition")
	// ErrCorrupt says that a batch failed its checksum or cannot be what a broker would send; the error is a *CorruptError.
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrTooLarge says that an answer is longer than MaxResponse, or a message longer than the topic takes.
	ErrTooLarge = errors.New("too large")
	// ErrDecompressedTooLarge is the reason of a Skip: the batch is over Config.MaxDecompressed once unpacked.
	ErrDecompressedTooLarge = errors.New("batch too large once unpacked")
	// ErrTimestamp says that the broker refused a message's time: the clock of this machine runs ahead of the broker's by
	// more than message.timestamp.after.max.ms.
	ErrTimestamp = errors.New("message time refused")
	// ErrUnauthorized says that the broker knows us and does not let us.
	ErrUnauthorized = errors.New("not authorized")
)

// Errors that stay inside.
var (
	errStale    = errors.New("connection was closed by the broker")
	errNotAsked = errors.New("answer is not to what was asked")
	errAborted  = errors.New("request was given up before it was sent")
	errPartial  = errors.New("answer holds no whole batch")
)

// RangeError says that a partition holds [Start, End) and so not Offset. It is ErrOffsetOutOfRange.
type RangeError struct {
	Offset, Start, End int64
}

// Error says which offset was asked for and which there are.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%v: got %d, want %d to %d", ErrOffsetOutOfRange, e.Offset, e.Start, e.End)
}

// Unwrap makes a RangeError an ErrOffsetOutOfRange.
func (*RangeError) Unwrap() error { return ErrOffsetOutOfRange }

// CorruptError says where a batch is corrupt. It is ErrCorrupt. From was asked for; To is the last offset of the batch by
// its own word, which is not to be trusted, or From. Whoever decides to go on does so at To+1, and reports the gap.
type CorruptError struct {
	From, To int64
	Detail   string
}

// Error says where and what.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v at offsets %d to %d: %s", ErrCorrupt, e.From, e.To, e.Detail)
}

// Unwrap makes a CorruptError an ErrCorrupt.
func (*CorruptError) Unwrap() error { return ErrCorrupt }

// RequestError is a request that failed: what was asked of which partition, what is known of its effect, and why.
type RequestError struct {
	Op        string // "fetch", "produce", …
	Topic     string // empty where it is about none
	Partition int
	Outcome   Outcome
	Err       error
}

// Error says what was asked and why it failed.
func (e *RequestError) Error() string {
	if e.Topic == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s %s/%d: %v", e.Op, e.Topic, e.Partition, e.Err)
}

// Unwrap returns why.
func (e *RequestError) Unwrap() error { return e.Err }

// Outcome is what is known of a produce.
type Outcome uint8

// Outcomes. The zero value claims nothing.
const (
	Unknown Outcome = iota // it may be in the log, once
	Unsent                 // no broker has seen all of it: it is not in the log
	Refused                // a broker answered that it was not appended
	Acked                  // it is in the log
)

// String returns "unknown", "unsent", "refused" or "acked".
func (o Outcome) String() string {
	switch o {
	case Unknown:
		return "unknown"
	case Unsent:
		return "unsent"
	case Refused:
		return "refused"
	case Acked:
		return "acked"
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// OutcomeOf returns what is known of a Produce that returned err: Acked for nil, Unknown for errors it does not know.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Acked
	}
	if r, ok := errors.AsType[*RequestError](err); ok {
		return r.Outcome
	}
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrNoBrokers) {
		return Unsent
	}
	return Unknown
}

// Temporary reports whether the same call may succeed later though nobody changes anything here: networks, elections,
// restarts, timeouts. ErrNoTopic is not temporary (topics are made by people or at the start), nor is ErrCorrupt.
func Temporary(err error) bool {
	switch {
	case err == nil, errors.Is(err, ErrNoTopic), errors.Is(err, ErrClosed), errors.Is(err, context.Canceled):
		return false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errStale), errors.Is(err, errNotAsked),
		errors.Is(err, errAborted), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed), errors.Is(err, protocol.ErrNoLeader):
		return true
	}
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return code.Temporary() || temporaryGroup(code)
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return true // refused, reset, unreachable: the network's
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true // names come and go with their pods
	}
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// temporaryGroup reports whether joining again mends it.
func temporaryGroup(code kafka.Error) bool {
	switch code {
	case kafka.RebalanceInProgress, kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.MemberIDRequired,
		kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable:
		return true
	}
	return false
}

// brokerError turns an error code of a broker into an error that is both the code and, where there is one, ours.
func brokerError(code int16) error {
	if code == 0 {
		return nil
	}
	e := kafka.Error(code)
	switch e {
	case kafka.UnknownTopicOrPartition:
		return fmt.Errorf("%w: %w", ErrNoTopic, e)
	case kafka.InvalidTimestamp:
		return fmt.Errorf("%w: %w", ErrTimestamp, e)
	case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge:
		return fmt.Errorf("%w: %w", ErrTooLarge, e)
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed:
		return fmt.Errorf("%w: %w", ErrUnauthorized, e)
	}
	return e
}

// named adds our name to an error that kafka-go's own requests return, where we have one for it.
func named(err error) error {
	code, ok := errors.AsType[kafka.Error](err)
	if !ok || errors.Is(err, ErrUnauthorized) {
		return err
	}
	switch code {
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed:
		return fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	return err
}

// produceOutcome says what a broker's answer to a produce means. Some errors come only from checks before the append.
// Others come also from a leader that appended and then lost its place: Kafka keeps the base offset in those
// (DelayedProduce sets the error alone), and answers -1 where nothing was appended.
func produceOutcome(code int16, base int64) Outcome {
	switch kafka.Error(code) {
	case 0:
		return Acked
	case kafka.InvalidMessage, kafka.MessageSizeTooLarge, kafka.InvalidTopic, kafka.RecordListTooLarge,
		kafka.NotEnoughReplicas, kafka.InvalidRequiredAcks, kafka.TopicAuthorizationFailed,
		kafka.ClusterAuthorizationFailed, kafka.InvalidTimestamp, kafka.UnsupportedVersion, kafka.PolicyViolation,
		kafka.InvalidRecord, kafka.ThrottlingQuotaExceeded:
		return Refused
	case kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition,
		kafka.ReplicaNotAvailable, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch:
		if base < 0 {
			return Refused
		}
	}
	return Unknown
}
