package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

func TestTemporary(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("something"), false},
		{ErrNoTopic, false}, {ErrClosed, false}, {ErrNoBrokers, false}, {ErrCorrupt, false}, {ErrTooLarge, false},
		{&RangeError{}, false}, {&CorruptError{}, false},
		{context.Canceled, false}, {context.DeadlineExceeded, true},
		{io.EOF, true}, {io.ErrUnexpectedEOF, true}, {io.ErrClosedPipe, true}, {net.ErrClosed, true},
		{errStale, true}, {errWrongAnswer, true}, {protocol.ErrNoLeader, true},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true}, {syscall.ECONNRESET, true},
		{&net.DNSError{Name: "kafka-0", IsNotFound: true}, true},
		{kafka.NotLeaderForPartition, true}, {kafka.NotEnoughReplicas, true}, {kafka.RequestTimedOut, true},
		{kafka.RebalanceInProgress, true}, {kafka.IllegalGeneration, true}, {kafka.UnknownMemberId, true},
		{kafka.TopicAuthorizationFailed, false}, {kafka.SASLAuthenticationFailed, false}, {kafka.InvalidTimestamp, false},
		{kafka.UnsupportedVersion, false}, {brokerError(int16(kafka.UnknownTopicOrPartition)), false},
		{brokerError(int16(kafka.MessageSizeTooLarge)), false},
		{fmt.Errorf("wrapped: %w", io.EOF), true},
		{&RequestError{Op: "fetch", Err: kafka.LeaderNotAvailable}, true},
	} {
		if got := Temporary(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Outcome
	}{
		{nil, Acked},
		{errors.New("something"), Unknown},
		{ErrClosed, Unsent}, {ErrNoBrokers, Unsent},
		{&RequestError{Outcome: Refused}, Refused},
		{fmt.Errorf("wrapped: %w", &RequestError{Outcome: Unsent, Err: io.EOF}), Unsent},
		{&RequestError{Outcome: Unknown, Err: ErrClosed}, Unknown},
	} {
		if got := OutcomeOf(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
	for o, want := range map[Outcome]string{Unknown: "unknown", Unsent: "unsent", Refused: "refused", Acked: "acked", 9: "outcome 9"} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestEveryErrorCodeHasAnOutcome lists the refusals by number, so that a new one is a decision.
func TestEveryErrorCodeHasAnOutcome(t *testing.T) {
	before := map[int16]bool{2: true, 10: true, 17: true, 18: true, 19: true, 21: true, 29: true, 31: true, 32: true, 35: true, 44: true, 87: true, 89: true}
	either := map[int16]bool{3: true, 5: true, 6: true, 9: true, 74: true, 75: true}
	for code := int16(-1); code < 130; code++ {
		for _, base := range []int64{-1, 0, 7} {
			want := Unknown
			switch {
			case code == 0:
				want = Acked
			case before[code] && base <= 0, either[code] && base < 0: // at 7, a bit has flipped in the code or in the base
				want = Refused
			}
			if got := produceOutcome(code, base); got != want {
				t.Errorf("code %d, %v, base %d: got %v, want %v", code, kafka.Error(code), base, got, want)
			}
		}
		err := brokerError(code)
		if (err == nil) != (code == 0) || code != 0 && !errors.Is(err, kafka.Error(code)) {
			t.Errorf("code %d: got %v, want the code within", code, err)
		}
	}
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	for _, c := range []struct {
		err     error
		want    string
		wantErr error
	}{
		{&RangeError{Offset: 9, Start: 1, End: 5}, "offset out of range: got 9, want 1 to 5", ErrOffsetOutOfRange},
		{&CorruptError{From: 3, To: 4, Detail: "why"}, "corrupt record batch at offsets 3 to 4: why", ErrCorrupt},
		{&RequestError{Op: "fetch", Topic: "t", Partition: 2, Err: io.EOF}, "fetch t/2: EOF", io.EOF},
		{brokerError(29), "not authorized: [29] Topic Authorization Failed: the client is not authorized to access the requested topic", ErrUnauthorized},
		{brokerError(32), "message time refused: [32] Invalid Timestamp: the timestamp of the message is out of acceptable range", ErrTimestamp},
	} {
		if c.err.Error() != c.want || !errors.Is(c.err, c.wantErr) {
			t.Errorf("got %q, want %q, and that it is %v", c.err, c.want, c.wantErr)
		}
	}
}

// What kafka-go asks by itself is refused under the same name as what we ask.
func TestRefusalsHaveOneName(t *testing.T) {
	for _, code := range []kafka.Error{kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed} {
		err := named(fmt.Errorf("list offsets: %w", code))
		if !errors.Is(err, ErrUnauthorized) || !errors.Is(err, code) || Temporary(err) {
			t.Errorf("%v: got %v, want it to be %v too, and not temporary", code, err, ErrUnauthorized)
		}
		if again := named(err); again != err { //nolint:errorlint // the same one
			t.Errorf("%v: got named twice: %v", code, again)
		}
	}
	for _, err := range []error{nil, io.EOF, kafka.LeaderNotAvailable} {
		if got := named(err); got != err { //nolint:errorlint // the same one
			t.Errorf("%v: got %v, want it as it is", err, got)
		}
	}
}

// TestErrorsAreInPlainWords: no name of a Go method, and a partition only where one was asked for.
func TestErrorsAreInPlainWords(t *testing.T) {
	t.Parallel()
	c := startClient(t, Config{Brokers: []string{"127.0.0.1:1"}})
	_, count := c.Partitions(t.Context(), "t")
	_, create := c.EnsureTopics(t.Context(), TopicSpec{Name: "t", Partitions: 1})
	_, check := c.CheckTopics(t.Context(), TopicSpec{Name: "t", Partitions: 1})
	_, identify := c.Identity(t.Context(), "t")
	_, fetch := c.Fetch(t.Context(), FetchRequest{Topic: "t", Partition: 3, Offset: 1})
	for want, err := range map[string]error{
		"count partitions of t: ": count, "create topic t: ": create, "check topic t: ": check, "identify: ": identify, "fetch t/3: ": fetch,
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "kafka.(") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v, want it to begin with %q, and why", err, want)
		}
	}
}
