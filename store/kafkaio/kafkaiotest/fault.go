package kafkaiotest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"syscall"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Op is the kind of a Call.
type Op string

// The requests that can fail.
const (
	OpFetch      Op = "fetch"
	OpProduce    Op = "produce"
	OpRange      Op = "range"
	OpPartitions Op = "partitions"
)

// Call is a request that the cluster got.
type Call struct {
	Op        Op
	Topic     string
	Partition int               // 0 for OpPartitions
	Messages  []kafkaio.Message // of OpProduce; not to be kept
	N         int               // 1 for the first call of all, and so on
	InFlight  int               // calls of this Op to this partition that have no answer yet, this one included
}

// Fault says what goes wrong with one Call. The zero value is no fault.
type Fault struct {
	Delay time.Duration   // before the cluster acts on the request
	Until <-chan struct{} // the cluster acts once it is closed; nil is at once
	Err   error           // what the call returns, with the Outcome that a Client knows then; a *kafkaio.RequestError keeps its own
	Acted bool            // the cluster acts on the request although the call returns Err: only its answer is lost
}

// Connection errors of faults. Test with errors.Is.
var (
	// ErrDown is the error of calls while the cluster is away. It is syscall.ECONNREFUSED.
	ErrDown = fmt.Errorf("cluster is away: %w", syscall.ECONNREFUSED)
	// errLost is the error of calls whose request or answer is lost. It is io.ErrUnexpectedEOF.
	errLost = fmt.Errorf("connection was closed before the answer: %w", io.ErrUnexpectedEOF)
)

// Down is a cluster that is away: no connection, so that a produce is kafkaio.Unsent.
func Down() Fault { return Fault{Err: ErrDown} }

// LostRequest is a connection that ends before the cluster has the request. The caller cannot know that: a produce is
// kafkaio.Unknown.
func LostRequest() Fault { return Fault{Err: errLost} }

// LostAnswer is a connection that ends after the cluster has acted: a produce is in the log, and kafkaio.Unknown.
func LostAnswer() Fault { return Fault{Err: errLost, Acted: true} }

// Silent is a network that loses everything without an error: the call ends with its context, or after
// kafkaio.DefaultTimeout.
func Silent() Fault { return Fault{Delay: kafkaio.DefaultTimeout, Err: context.DeadlineExceeded} }

// Slow is a cluster that acts after a delay.
func Slow(d time.Duration) Fault { return Fault{Delay: d} }

// NotLeader is a broker that no longer leads the partition: a produce is kafkaio.Refused.
func NotLeader() Fault { return Fault{Err: kafka.NotLeaderForPartition} }

// NoSpace is a broker whose disk is full. It does not say whether it appended: a produce is kafkaio.Unknown.
func NoSpace() Fault { return Fault{Err: kafka.KafkaStorageError} }

// Unauthorized is a cluster that refuses the caller for lack of rights: a produce is kafkaio.Refused.
func Unauthorized() Fault { return Fault{Err: kafkaio.ErrUnauthorized} }

// Returns is a call that fails with err and has no effect.
func Returns(err error) Fault { return Fault{Err: err} }

// faults decides which calls fail and how, and counts calls.
type faults struct {
	mu     sync.Mutex
	decide func(Call) Fault // guarded by mu
	calls  map[Op]int       // guarded by mu
	total  int              // guarded by mu
	flying map[flight]int   // guarded by mu

	deciding sync.Mutex // one call of decide at a time
}

type flight struct {
	op        Op
	topic     string
	partition int
}

// SetFault sets the function that decides about each Call from now on; nil lets all calls succeed. The function is called
// for one Call after the other, so that it may use a random source of its own. It must not block: use Fault.Delay and
// Fault.Until.
func (k *Kafka) SetFault(decide func(Call) Fault) {
	k.faults.mu.Lock()
	defer k.faults.mu.Unlock()
	k.faults.decide = decide
}

// SetDown is SetFault of Down for all calls, or of no fault.
func (k *Kafka) SetDown(down bool) {
	if down {
		k.SetFault(func(Call) Fault { return Down() })
	} else {
		k.SetFault(nil)
	}
}

// Calls returns how many calls of each Op there were.
func (k *Kafka) Calls() map[Op]int {
	k.faults.mu.Lock()
	defer k.faults.mu.Unlock()
	return maps.Clone(k.faults.calls)
}

// begin counts a call, and applies the part of its fault that comes before the cluster acts. An error ends the call. The
// caller calls end when the call is answered.
func (k *Kafka) begin(ctx context.Context, c Call) (f Fault, end func(), err error) {
	w := &k.faults
	at := flight{c.Op, c.Topic, c.Partition}
	w.mu.Lock()
	if w.calls == nil {
		w.calls, w.flying = make(map[Op]int), make(map[flight]int)
	}
	w.calls[c.Op]++
	w.total++
	w.flying[at]++
	c.N, c.InFlight = w.total, w.flying[at]
	decide := w.decide
	w.mu.Unlock()
	end = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.flying[at]--
	}
	if err := ctx.Err(); err != nil {
		return Fault{}, end, failed(c, kafkaio.Unsent, err)
	}
	if decide != nil {
		w.deciding.Lock()
		f = decide(c)
		w.deciding.Unlock()
	}
	if err := f.wait(ctx); err != nil {
		return f, end, failed(c, kafkaio.Unknown, err)
	}
	if f.Err != nil && !f.Acted {
		return f, end, f.failed(c)
	}
	return f, end, nil
}

// wait waits until the cluster acts, or ctx ends.
func (f *Fault) wait(ctx context.Context) error {
	if f.Until != nil {
		select {
		case <-f.Until:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.Delay <= 0 {
		return nil
	}
	return kafkaio.Sleep(ctx, f.Delay)
}

// failed returns the error of a fault.
func (f *Fault) failed(c Call) error {
	if r, ok := errors.AsType[*kafkaio.RequestError](f.Err); ok {
		own := *r
		return &own
	}
	return failed(c, outcomeOf(f.Err), f.Err)
}

func failed(c Call, o kafkaio.Outcome, err error) error {
	return &kafkaio.RequestError{Op: string(c.Op), Topic: c.Topic, Partition: c.Partition, Outcome: o, Err: err}
}

// outcomeOf returns what a Client knows of a produce that ended with err, if err comes from a broker or the network.
func outcomeOf(err error) kafkaio.Outcome {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return kafkaio.Unsent
	case errors.Is(err, kafkaio.ErrTimestamp), errors.Is(err, kafkaio.ErrTooLarge), errors.Is(err, kafkaio.ErrUnauthorized),
		errors.Is(err, kafkaio.ErrNoTopic), errors.Is(err, kafka.NotLeaderForPartition):
		return kafkaio.Refused
	}
	return kafkaio.Unknown
}
