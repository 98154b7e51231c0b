package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// held holds a broker's answers to requests of producers back until release.
type held struct {
	release chan struct{}
	arrived chan int // how many partitions the request has that was held
	sizes   chan int // of the requests behind it
}

// TestProducersShareARequest: while one request is in flight, calls to 63 other partitions wait. The next request has them all. Of
// these, one is refused: the other 62 are acknowledged.
func TestProducersShareARequest(t *testing.T) {
	t.Parallel()
	const partitions = 64
	b, c := withTopic(t, partitions, Config{Timeout: 20 * time.Second})
	h := held{release: make(chan struct{}), arrived: make(chan int, 1), sizes: make(chan int, 2*partitions)}
	first := true
	b.Cluster().ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.ProduceRequest)
		if !ok {
			return nil, io.ErrUnexpectedEOF, true
		}
		b.Cluster().KeepControl()
		if first {
			first = false
			h.arrived <- len(req.Topics[0].Partitions)
			b.Cluster().SleepControl(func() { <-h.release })
			return nil, nil, false
		}
		h.sizes <- len(req.Topics[0].Partitions)
		return answerProduce(req, map[int32]int16{7: kerr.MessageTooLarge.Code}), nil, true
	})
	var wg sync.WaitGroup
	send := func(p int) {
		wg.Go(func() {
			_, err := c.Produce(t.Context(), "t", p, Message{Value: fmt.Append(nil, p)})
			if refused := p == 7; refused != errors.Is(err, ErrTooLarge) || !refused && err != nil {
				t.Errorf("partition %d: got %v, want an error of partition 7 alone", p, err)
			}
		})
	}
	send(0)
	if n := <-h.arrived; n != 1 {
		t.Errorf("got %d partitions in the first request, want 1", n)
	}
	for p := 1; p < partitions; p++ {
		send(p)
	}
	l := c.lane(0)
	awaitCondition(t, "all others wait", func() bool {
		l.produces.mu.Lock()
		defer l.produces.mu.Unlock()
		return len(l.produces.waiting) == partitions-1
	})
	close(h.release)
	wg.Wait()
	close(h.sizes)
	var sizes []int
	for n := range h.sizes {
		sizes = append(sizes, n)
	}
	if !slices.Equal(sizes, []int{partitions - 1}) {
		t.Errorf("got requests for %d partitions behind the first, want one for %d", sizes, partitions-1)
	}
}

// answerProduce acknowledges a request, except for the partitions that have a code.
func answerProduce(req *kmsg.ProduceRequest, codes map[int32]int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			about := kmsg.NewProduceResponseTopicPartition()
			about.Partition, about.ErrorCode, about.BaseOffset = p.Partition, codes[p.Partition], 5
			if about.ErrorCode != 0 {
				about.BaseOffset = -1
			}
			topic.Partitions = append(topic.Partitions, about)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// TestAProducerThatGivesUpDisturbsNobody: two calls share a request that gets no answer yet. One gives up: what it sent is unknown. The
// other one is acknowledged. A call that had to wait for them and gave up was not sent.
func TestAProducerThatGivesUpDisturbsNobody(t *testing.T) {
	t.Parallel()
	b, c := withTopic(t, 3, Config{Timeout: 20 * time.Second})
	produce(t, c, "t", 0, "warm")
	release, arrived := make(chan struct{}), make(chan struct{})
	b.Cluster().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(arrived)
		b.Cluster().SleepControl(func() { <-release })
		return nil, nil, false
	})
	l := c.lane(0)
	s, err := l.enter(t.Context()) // both calls wait
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	send := func(ctx context.Context, p int, want Outcome, reason error) {
		wg.Go(func() {
			if _, err := c.Produce(ctx, "t", p, Message{Value: []byte("v")}); OutcomeOf(err) != want || !errors.Is(err, reason) {
				t.Errorf("partition %d: got %v, outcome %v, want %v and %v", p, err, OutcomeOf(err), reason, want)
			}
		})
	}
	waiting := func(n int) func() bool {
		return func() bool {
			l.produces.mu.Lock()
			defer l.produces.mu.Unlock()
			return len(l.produces.waiting) == n
		}
	}
	send(t.Context(), 0, Acked, nil)
	send(ctx, 1, Unknown, context.Canceled)
	awaitCondition(t, "two that wait", waiting(2))
	l.leave(s)
	<-arrived
	send(ctx, 2, Unsent, context.Canceled)
	awaitCondition(t, "one that waits", waiting(1))
	cancel()
	awaitCondition(t, "none that waits", waiting(0))
	close(release)
	wg.Wait()
	if n := len(fetchAll(t, c, "t", 2, 0)); n != 0 {
		t.Errorf("got %d records of the call that was not sent, want none", n)
	}
}

// TestAnswersAboutSeveralPartitions: no partition is acknowledged that the broker did not acknowledge, whichever bit flips.
func TestAnswersAboutSeveralPartitions(t *testing.T) {
	for version := int16(3); version <= 8; version++ {
		req := kmsg.NewPtrProduceRequest()
		req.Version = version
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "t"
		for p := range int32(3) {
			topic.Partitions = append(topic.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p})
		}
		req.Topics = append(req.Topics, topic)
		resp := answerProduce(req, map[int32]int16{1: kerr.NotEnoughReplicas.Code})
		resp.SetVersion(version)
		body := resp.AppendTo(nil)
		answers, err := parseProduces(body, version)
		if err != nil {
			t.Fatal(err)
		}
		for p, want := range []error{nil, kafka.NotEnoughReplicas, nil} {
			if a := answers.about(partitionKey{"t", p}); !errors.Is(a.err, want) || want == nil && a.base != 5 {
				t.Errorf("version %d, partition %d: got %+v, want %v", version, p, a, want)
			}
		}
		if a := answers.about(partitionKey{"t", 3}); a.outcome != Unknown || !errors.Is(a.err, errWrongAnswer) {
			t.Errorf("version %d: got %+v of a partition that is not there, want unknown", version, a)
		}
	}
}
