package kafkaio

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// leasePoll is how long an Appender waits before it asks again whether it has a lease.
const leasePoll = 50 * time.Millisecond

// ErrNoLease says that an Appender has no lease. It is temporary, and nothing was sent.
var ErrNoLease = errors.New("no lease")

// AppenderConfig says where an Appender writes, and how. Topic is needed.
type AppenderConfig struct {
	Topic     string
	Partition int
	// Lease reports whether the caller may still write to the partition. It is called before each attempt. Without a lease
	// the attempt fails with ErrNoLease, and the next one comes 50 ms later. Nil means that there always is a lease.
	Lease func(now time.Time) bool
	// Stamp returns the time that all messages get before each attempt, in Unix nanoseconds. Nil leaves them their own time, so
	// that each attempt sends the same bytes.
	Stamp func() int64
	// Retry decides what follows a failed attempt, also one that failed with ErrNoLease; nil is Temporary.
	Retry Retry
	// Logger logs the first failed attempt of a call, and each tenth. Nil logs nothing.
	Logger *slog.Logger
}

// Appender appends to one partition, in order and with one request in flight, and waits for as long as the brokers are away.
// Make one with NewAppender. One goroutine may use it at a time.
type Appender struct {
	log    Producer
	config AppenderConfig
}

// NewAppender returns an appender. It does no I/O.
func NewAppender(log Producer, c AppenderConfig) *Appender {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("topic", c.Topic, "partition", c.Partition)
	return &Appender{log: log, config: c}
}

// Append appends msgs as one batch, all or none, and returns the offset of the first, or -1 if there are no messages. If an
// attempt fails it tries again, as AppenderConfig.Retry says, until ctx ends. After an attempt whose outcome is unknown,
// the partition may hold the batch more than once: readers must recognize copies.
//
// The error is that of ctx, or that of the last attempt if Retry wants no other one. OutcomeOf returns for it the outcome
// of all attempts together: Unknown if one of them may be in the log.
func (a *Appender) Append(ctx context.Context, msgs ...Message) (base int64, err error) {
	if len(msgs) == 0 {
		return -1, nil
	}
	tries := newAttempts(a.config.Retry, a.config.Logger, "append")
	unknown := false
	for {
		base, err := a.once(ctx, msgs)
		if err == nil {
			tries.succeeded()
			return base, nil
		}
		unknown = unknown || OutcomeOf(err) == Unknown
		if err := tries.again(ctx, err); err != nil {
			if unknown && OutcomeOf(err) != Unknown {
				err = a.failed(Unknown, err)
			}
			return -1, err
		}
	}
}

// once makes one attempt.
func (a *Appender) once(ctx context.Context, msgs []Message) (int64, error) {
	if a.config.Lease != nil && !a.config.Lease(time.Now()) {
		return -1, a.failed(Unsent, ErrNoLease)
	}
	if a.config.Stamp != nil {
		now := a.config.Stamp()
		for i := range msgs {
			msgs[i].Time = now
		}
	}
	return a.log.Produce(ctx, a.config.Topic, a.config.Partition, msgs...)
}

func (a *Appender) failed(o Outcome, err error) error {
	return &RequestError{Op: "append to", Topic: a.config.Topic, Partition: a.config.Partition, Outcome: o, Err: err}
}

// Producer appends to partitions. A *Client is a Producer. Produce is safe for concurrent use, and returns the errors that
// Client.Produce returns.
type Producer interface {
	Produce(ctx context.Context, topic string, partition int, msgs ...Message) (base int64, err error)
}
