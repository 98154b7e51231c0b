package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// produceLane puts calls of Produce to one broker into few requests: while one is in flight, calls to all partitions wait for the next.
type produceLane struct {
	client *Client
	lane   *lane

	mu      sync.Mutex // protects what follows
	waiting []*produceCall
	flying  bool
}

type produceCall = call[produceQuestion, produceAnswer]

// produceQuestion is a record set, with its length before it, for a partition.
type produceQuestion struct {
	topic     string
	partition int
	set       []byte
	deadline  time.Time // of the caller
}

// produceAnswer is what is known of a record set. Its err is nil if the broker has it, from offset base on.
type produceAnswer struct {
	base    int64
	outcome Outcome
	err     error
}

// maxProduceBytes is how many bytes the record sets of one request have, if there are several: what comes next waits for all of them.
const maxProduceBytes = 2 << 20

// ask sends a record set together with others, and waits for the answer.
func (l *produceLane) ask(ctx context.Context, topic string, partition int, set []byte) produceAnswer {
	era := l.client.currentEra()
	deadline, _ := ctx.Deadline()
	c := &produceCall{q: produceQuestion{topic, partition, set, deadline}, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	if !l.flying {
		l.flying = true
		l.client.wg.Go(l.fly)
	}
	l.mu.Unlock()
	a, began, err := await(ctx, &l.mu, &l.waiting, c)
	switch {
	case err != nil && began:
		a = produceAnswer{-1, Unknown, err}
	case err != nil:
		a = produceAnswer{-1, Unsent, fmt.Errorf("%w: %w", err, errAborted)}
	case a.err != nil && ctx.Err() != nil && !errors.Is(a.err, ctx.Err()):
		a.err = fmt.Errorf("%w: %s", ctx.Err(), a.err.Error()) // and not that the flight was canceled for that
	}
	if a.err != nil {
		l.client.doubt(ctx, era)
	}
	return a
}

// fly makes one request after the other until no call waits.
func (l *produceLane) fly() {
	for {
		runtime.Gosched() // calls that the same event has caused come too
		// It does not wait for long: each request ends when its callers give up.
		s, _ := l.lane.enter(context.Background())
		f := l.take()
		if f != nil {
			f.do(l, s)
		}
		l.lane.leave(s)
		if f == nil {
			return
		}
	}
}

// produceFlight is one request and the calls that it is for.
type produceFlight struct {
	*flight

	calls []*produceCall
}

// take returns the next flight, or nil if no call waits. A second call to one partition waits on.
func (l *produceLane) take() *produceFlight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.flying = false
		return nil
	}
	f := &produceFlight{flight: newFlight(0)}
	partitions := make(map[partitionKey]bool, len(l.waiting))
	size := 0
	l.waiting = slices.DeleteFunc(l.waiting, func(c *produceCall) bool {
		k := partitionKey{c.q.topic, c.q.partition}
		if partitions[k] || size > 0 && size+len(c.q.set) > maxProduceBytes {
			partitions[k] = true // what comes later must not overtake it
			return false
		}
		partitions[k] = true
		size += len(c.q.set)
		f.calls = append(f.calls, c)
		c.flight = f.flight
		return true
	})
	f.callers = len(f.calls)
	return f
}

// do makes the request and answers its calls.
func (f *produceFlight) do(l *produceLane, s *slot) {
	defer f.cancel()
	// Version 3 is the first with record batches.
	x, err := l.client.exchangeAt(f.ctx, s, func() protocol.Message { return f.message() }, 3, nil)
	var answers produceAnswers
	if err == nil {
		answers, err = parseProduces(x.body, x.version)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range f.calls {
		switch {
		case err == nil:
			c.a = answers.about(partitionKey{c.q.topic, c.q.partition})
		case x.sent:
			c.a = produceAnswer{-1, Unknown, err}
		default:
			c.a = produceAnswer{-1, Unsent, err}
		}
		close(c.done)
	}
}

// message is the request on the wire.
func (f *produceFlight) message() *rawproduce.Request {
	r := &rawproduce.Request{Acks: -1}
	at := make(map[string]int, 1)
	timeout := time.Duration(0)
	for _, c := range f.calls {
		i, found := at[c.q.topic]
		if !found {
			i = len(r.Topics)
			at[c.q.topic] = i
			r.Topics = append(r.Topics, rawproduce.RequestTopic{Topic: c.q.topic})
		}
		r.Topics[i].Partitions = append(r.Topics[i].Partitions, rawproduce.RequestPartition{
			Partition: int32(c.q.partition), RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(c.q.set)},
		})
		timeout = max(timeout, time.Until(c.q.deadline), time.Millisecond)
	}
	r.Timeout = int32(timeout / time.Millisecond)
	return r
}

// produceAnswers are a broker's answers about partitions.
type produceAnswers map[partitionKey]produceAnswer

// about returns the answer about a partition that was asked for.
func (as produceAnswers) about(k partitionKey) produceAnswer {
	if a, ok := as[k]; ok {
		return a
	}
	return produceAnswer{-1, Unknown, fmt.Errorf("%w: got none about %s/%d", errWrongAnswer, k.topic, k.partition)}
}

// parseProduces reads an answer about several partitions. One that has a partition twice is wrong altogether.
func parseProduces(body []byte, version int16) (produceAnswers, error) {
	const topicBytes, partitionBytes = 2 + 4, 4 + 2 + 8 + 8
	w := wire{b: body}
	answers := make(produceAnswers)
	for range w.count(topicBytes) {
		topic := w.string()
		for range w.count(partitionBytes) {
			partition, a := producePartition(&w, version)
			k := partitionKey{topic, partition}
			if _, twice := answers[k]; twice {
				return nil, fmt.Errorf("%w: got %s/%d twice", errWrongAnswer, topic, partition)
			}
			answers[k] = a
		}
	}
	if w.err != nil {
		return nil, fmt.Errorf("read produce answer: %w", w.err)
	}
	return answers, nil
}

// producePartition reads what an answer says about one partition.
func producePartition(w *wire, version int16) (partition int, a produceAnswer) {
	partition = int(w.int32())
	code := w.int16()
	a.base = w.int64()
	w.int64() // append time
	if version >= 5 {
		w.int64() // log start
	}
	detail := ""
	if version >= 8 {
		for range w.count(6) {
			w.int32() // index of the record
			detail = w.string()
		}
		if s := w.string(); s != "" {
			detail = s
		}
	}
	a.outcome, a.err = produceOutcome(code, a.base), brokerError(code)
	switch {
	case a.err != nil && detail != "":
		a.err = fmt.Errorf("%w: the broker answered %q", a.err, detail)
	case a.err == nil && a.base < 0:
		a = produceAnswer{-1, Unknown, fmt.Errorf("%w: got base offset %d", errWrongAnswer, a.base)}
	}
	return partition, a
}
