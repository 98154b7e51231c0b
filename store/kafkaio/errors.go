package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
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
	// ErrNoTopic says that the cluster shows us no such topic or partition: it is missing, or ACLs hide it from us.
	ErrNoTopic = errors.New("no such topic or partition, or hidden by ACLs")
	// ErrCorrupt says that a batch has a wrong checksum, or a header that no broker would send; the error is a
	// *CorruptError.
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrTooLarge says that a message is longer than the topic allows. It is also the error of a Skip for a batch that is
	// longer than 64 MiB.
	ErrTooLarge = errors.New("too large")
	// ErrDecompressedTooLarge is the error of a Skip: a record is over Config.MaxDecompressed, or a batch unpacks to more
	// than its length allows.
	ErrDecompressedTooLarge = errors.New("batch too large once unpacked")
	// ErrTimestamp says that the broker refused a message's time: the clock of this machine runs ahead of the broker's by
	// more than message.timestamp.after.max.ms.
	ErrTimestamp = errors.New("message time refused")
	// ErrUnauthorized says that the broker has identified the client, and that the client lacks the access right.
	ErrUnauthorized = errors.New("not authorized")
)

// Errors that callers do not see by name.
var (
	errStale       = errors.New("connection was closed by the broker")
	errWrongAnswer = errors.New("answer does not match the request")
	errAborted     = errors.New("request was cancelled before it was sent")
	errPartial     = errors.New("answer holds no whole batch")
	errLong        = errors.New("batch is too long to be read")
)

// RangeError says that a partition holds [Start, End) and so not Offset. It is ErrOffsetOutOfRange.
type RangeError struct {
	Offset, Start, End int64
}

// Error says which offset was requested and which offsets the partition holds.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%v: got %d, want %d to %d", ErrOffsetOutOfRange, e.Offset, e.Start, e.End)
}

// Unwrap makes a RangeError an ErrOffsetOutOfRange.
func (*RangeError) Unwrap() error { return ErrOffsetOutOfRange }

// CorruptError says where a batch is corrupt. It is ErrCorrupt. From is the requested offset. To is the last offset of the
// batch as its header says, which cannot be trusted, or From. A reader that continues does so at To+1, and reports the gap.
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

// RequestError is a request that failed: which request, on which partition, what is known of its effect, and why it failed.
type RequestError struct {
	Op        string // "fetch", "produce", …
	Topic     string // empty for a request that has no topic
	Partition int    // less than 0 for a request about the whole topic
	Outcome   Outcome
	Err       error
}

// Error says which request failed and why.
func (e *RequestError) Error() string {
	switch {
	case e.Topic == "":
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	case e.Partition < 0:
		return fmt.Sprintf("%s %s: %v", e.Op, e.Topic, e.Err)
	}
	return fmt.Sprintf("%s %s/%d: %v", e.Op, e.Topic, e.Partition, e.Err)
}

// Unwrap returns the cause.
func (e *RequestError) Unwrap() error { return e.Err }

// Outcome says what is known of the effect of a produce.
type Outcome uint8

// Outcomes. The zero value is Unknown, which claims nothing.
const (
	Unknown Outcome = iota // it may be in the log, once
	Unsent                 // no broker has received all of it: it is not in the log
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

// Temporary reports whether the same call may succeed later without any change in this program: after failures of the
// network, elections, restarts, timeouts. ErrNoTopic is not temporary (topics are made by people or at the start), nor is
// ErrCorrupt.
func Temporary(err error) bool {
	switch {
	case err == nil, errors.Is(err, ErrNoTopic), errors.Is(err, ErrClosed), errors.Is(err, context.Canceled):
		return false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errStale), errors.Is(err, errWrongAnswer),
		errors.Is(err, errAborted), errors.Is(err, ErrNoLease), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed), errors.Is(err, protocol.ErrNoLeader):
		return true
	}
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return code.Temporary() || temporaryGroup(code)
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return true // refused, reset, unreachable: errors of the network
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true // names appear and disappear with their pods
	}
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// temporaryGroup reports whether it helps to join again.
func temporaryGroup(code kafka.Error) bool {
	switch code {
	case kafka.RebalanceInProgress, kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.MemberIDRequired,
		kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable:
		return true
	}
	return false
}

// brokerError turns an error code of a broker into an error that is both the code and, if this package has an error for
// that code, that error.
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

// withoutMethod returns an error of kafka-go without the name of the Go method that it begins with.
func withoutMethod(err error) error {
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "kafka.(*Client).") {
		return inner
	}
	return err
}

// named wraps an error of kafka-go's own requests in this package's error for it, if there is one.
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

// produceOutcome says what a broker's answer to a produce means. Some errors come only from checks before the append. Answers have no
// checksum: if such an error comes with the offset of an append, a bit has flipped in one of the two, and nothing is known. (An offset of 0
// is no sign of an append: other brokers than Kafka may leave the field empty.)
// Others also come from a broker that appended and then ceased to be the leader: in those answers Kafka keeps the base
// offset (DelayedProduce sets the error alone). If nothing was appended the base offset is -1.
func produceOutcome(code int16, base int64) Outcome {
	switch kafka.Error(code) {
	case 0:
		return Acked
	case kafka.InvalidMessage, kafka.MessageSizeTooLarge, kafka.InvalidTopic, kafka.RecordListTooLarge,
		kafka.NotEnoughReplicas, kafka.InvalidRequiredAcks, kafka.TopicAuthorizationFailed,
		kafka.ClusterAuthorizationFailed, kafka.InvalidTimestamp, kafka.UnsupportedVersion, kafka.PolicyViolation,
		kafka.InvalidRecord, kafka.ThrottlingQuotaExceeded:
		if base <= 0 {
			return Refused
		}
	case kafka.UnknownTopicOrPartition, kafka.LeaderNotAvailable, kafka.NotLeaderForPartition,
		kafka.ReplicaNotAvailable, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch:
		if base < 0 {
			return Refused
		}
	}
	return Unknown
}
