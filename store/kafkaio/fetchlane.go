package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	// gatherWait is how long a flight waits for readers that have just got records, and will ask for more.
	gatherWait = time.Millisecond
	// longWait is how long a broker waits for records at most: then readers that came meanwhile can join those that wait.
	longWait = DefaultMaxWait
	// shortWait is how long a broker waits for records if another request for records is in flight. Then those that are in flight soon
	// become one again, and a reader that finds no room waits no longer.
	shortWait = 10 * time.Millisecond
)

// fetchLane puts the calls of Fetch to one broker into few requests. A call that has got nothing goes on to the next request, until its
// time is over. In each request those that have waited longest come first, because a broker fills its answer in that order.
//
// One flight is in the air nearly always, and has all partitions that wait. A reader that comes back while it is in the air needs a
// second one. Both end soon after, and become one.
type fetchLane struct {
	client *Client
	back   chan struct{} // receives when as many calls wait as the flight that gathers wants

	mu        sync.Mutex   // protects what follows
	waiting   []*fetchCall // in the order in which they are to be asked for
	free      []*slot      // that no flight uses
	short     int          // flights in the air that wait for shortWait at most
	gathering bool         // one of the flights is not in the air yet
	wanted    int          // calls that it waits for
}

type fetchCall = call[fetchQuestion, fetched]

// fetchQuestion is a FetchRequest and its size.
type fetchQuestion struct {
	FetchRequest

	maxBytes int
	began    time.Time
	last     time.Time // when it began, or came back from a flight
	paused   bool      // it was in no flight for longer than maxPause: a witness must doubt
}

// pausedDrops is what Batch.drops is more after a pause.
const pausedDrops = 1 << 63

// fetched is what a broker has answered about one partition.
type fetched struct {
	batch   Batch
	set     []byte
	missing bool // it said nothing; err says so, too
	alone   bool // the request must be repeated alone: the answer was too long
	err     error
}

// ask sends a request together with others, and waits for its answer. An error of the broker is in the answer.
func (l *fetchLane) ask(ctx context.Context, r FetchRequest, maxBytes int) (fetched, error) {
	era := l.client.currentEra()
	c := &fetchCall{q: fetchQuestion{FetchRequest: r, maxBytes: maxBytes, began: time.Now(), last: time.Now()}, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	l.board()
	l.mu.Unlock()
	a, _, err := await(ctx, &l.mu, &l.waiting, c)
	if err == nil {
		err = a.err
	}
	if err != nil && ctx.Err() != nil {
		l.client.doubt(ctx, era)
		if !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %s", ctx.Err(), err.Error()) // and not that the flight was canceled for that
		}
	}
	return a, err
}

// board makes sure that a flight takes those that wait, if there may be another. The caller has the lock.
func (l *fetchLane) board() {
	switch {
	case l.gathering && len(l.waiting) >= l.wanted:
		select {
		case l.back <- struct{}{}:
		default:
		}
	case !l.gathering && len(l.free) > 0:
		last := len(l.free) - 1 // its connection was used last
		s := l.free[last]
		l.free = l.free[:last]
		l.gathering, l.wanted = true, math.MaxInt
		l.client.wg.Go(func() { l.fly(s) })
	}
}

// fly makes one request after the other at a slot, while there are calls that wait.
func (l *fetchLane) fly(s *slot) {
	runtime.Gosched() // readers that the same event has woken come too
	for {
		f := l.take(time.Now(), s)
		if f == nil {
			return
		}
		answers, err := f.do(l.client)
		if !l.land(f, answers, err) {
			return
		}
	}
}

// fetchFlight is one request and the calls that it is for.
type fetchFlight struct {
	*flight

	slot  *slot
	parts []fetchPart
	at    map[partitionKey]int // in parts
	wait  time.Duration
	short bool
}

// fetchPart is a partition in a request. Its calls want the same offset.
type fetchPart struct {
	fetchQuestion

	calls []*fetchCall
}

type partitionKey struct {
	topic     string
	partition int
}

// take returns the next flight, or nil if no call waits. A call for a partition that is in the flight with another offset waits on.
func (l *fetchLane) take(now time.Time, s *slot) *fetchFlight {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathering = false
	if len(l.waiting) == 0 {
		l.free = append(l.free, s)
		return nil
	}
	f := &fetchFlight{
		flight: newFlight(0), slot: s, wait: longWait, short: len(l.free) == 0,
		parts: make([]fetchPart, 0, len(l.waiting)), at: make(map[partitionKey]int, len(l.waiting)),
	}
	var left []*fetchCall
	for _, c := range l.waiting {
		k := partitionKey{c.q.Topic, c.q.Partition}
		i, found := f.at[k]
		switch {
		case !found:
			i = len(f.parts)
			f.at[k] = i
			f.parts = append(f.parts, fetchPart{fetchQuestion: c.q})
		case f.parts[i].Offset != c.q.Offset || f.parts[i].maxBytes != c.q.maxBytes:
			left = append(left, c)
			continue
		}
		f.parts[i].calls = append(f.parts[i].calls, c)
		f.wait = min(f.wait, c.q.MaxWait-now.Sub(c.q.began))
		f.callers++
		c.flight = f.flight
		c.q.paused = c.q.paused || now.Sub(c.q.last) > maxPause
	}
	l.waiting = left
	if f.wait = max(f.wait, 0); f.short {
		f.wait = min(f.wait, shortWait)
		l.short++
	}
	if len(left) > 0 {
		l.board()
	}
	return f
}

// land gives the calls of a flight their answers. It reports whether the flight goes on, which then has waited for those that come back.
func (l *fetchLane) land(f *fetchFlight, answers []fetched, err error) bool {
	answered := l.settle(f, answers, err)
	l.mu.Lock()
	if f.short {
		l.short--
	}
	if l.gathering { // another flight takes those that wait
		l.free = append(l.free, f.slot)
		l.board()
		l.mu.Unlock()
		return false
	}
	wait, more := gatherWait, answered
	if answered == 0 && l.short > 0 { // another flight will land in a moment, and both become one
		wait, more = 2*shortWait, 1
	}
	l.gathering, l.wanted = true, len(l.waiting)+more
	select {
	case <-l.back: // of an earlier flight
	default:
	}
	l.mu.Unlock()
	if more > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-l.back:
		case <-t.C:
		}
	}
	return true
}

// settle answers the calls that have got something, or whose time is over, and returns how many. The others wait again, before all that
// came meanwhile.
func (l *fetchLane) settle(f *fetchFlight, answers []fetched, err error) (answered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer f.cancel()
	now := time.Now()
	full := false
	for i := range answers {
		full = full || len(answers[i].set) > 0
	}
	var again []*fetchCall
	for i, p := range f.parts {
		a := fetched{alone: errors.Is(err, ErrTooLarge), err: err}
		if err == nil {
			a = answers[i]
		}
		empty := a.err == nil && len(a.set) == 0 && !a.alone
		starved := full && (a.missing || empty && a.batch.HighWater > p.Offset) // the answer had no room for it
		for _, c := range p.calls {
			// Half of the time is enough: calls that end together come back together.
			if c.gone || !starved && (!empty || now.Sub(c.q.began) >= c.q.MaxWait/2) {
				if !c.gone {
					answered++
				}
				if c.a = a; c.q.paused {
					c.a.batch.drops = pausedDrops
				}
				close(c.done)
				continue
			}
			c.flight, c.q.last = nil, now
			again = append(again, c)
		}
	}
	l.waiting = append(again, l.waiting...)
	return answered
}

// do makes the request, and returns an answer for each part.
func (f *fetchFlight) do(c *Client) ([]fetched, error) {
	x, err := c.exchangeAt(f.ctx, f.slot, func() protocol.Message { return f.message() }, 4, nil)
	if err != nil {
		return nil, err
	}
	return f.parse(x.body, x.version)
}

// message is the request on the wire. Its answer has no more bytes than the largest of its parts may have, or one batch.
func (f *fetchFlight) message() *fetch.Request {
	var topics []fetch.RequestTopic
	size := 0
	at := make(map[string]int, 1)
	for _, p := range f.parts {
		i, found := at[p.Topic]
		if !found {
			i = len(topics)
			at[p.Topic] = i
			topics = append(topics, fetch.RequestTopic{Topic: p.Topic})
		}
		topics[i].Partitions = append(topics[i].Partitions, p.onWire(p.maxBytes))
		size = max(size, p.maxBytes)
	}
	return fetchMessage(f.wait, size, topics)
}

// parse returns the answers in the order of the parts. An answer that has a partition twice, or that was not asked for, is wrong
// altogether: one flipped bit makes one partition's records another's.
func (f *fetchFlight) parse(body []byte, version int16) ([]fetched, error) {
	none := fetched{missing: true, err: fmt.Errorf("%w: got none about the partition", errWrongAnswer)}
	answers := slices.Repeat([]fetched{none}, len(f.parts))
	w := wire{b: body}
	if err := fetchHead(&w, version); err != nil {
		return nil, err
	}
	const topicBytes, partitionBytes = 2 + 4, 4 + 2 + 8 + 8 + 4 + 4
	for range w.count(topicBytes) {
		topic := w.string()
		for range w.count(partitionBytes) {
			partition, a := fetchPartition(&w, version, false)
			i, asked := f.at[partitionKey{topic, partition}]
			if w.err == nil && (!asked || !answers[i].missing) {
				return nil, fmt.Errorf("%w: got %s/%d, which was not asked for or came twice", errWrongAnswer, topic, partition)
			}
			if w.err != nil {
				return nil, fmt.Errorf("read fetch answer: %w", w.err)
			}
			if a.batch.Next = f.parts[i].Offset; 2*len(a.set) < len(body) {
				a.set = bytes.Clone(a.set) // a record that is kept must not keep the other partitions' records alive
			}
			answers[i] = a
		}
	}
	if w.err != nil {
		return nil, fmt.Errorf("read fetch answer: %w", w.err)
	}
	return answers, nil
}
