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

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// seen is the requests for records that a broker got: the partitions in each.
type seen struct {
	mu       sync.Mutex // protects requests
	requests []*kmsg.FetchRequest
}

// fetches notes the requests that a broker gets from now on, and answers them as answer says, or itself if answer returns nil.
func fetches(b *embedded.Broker, answer func(*kmsg.FetchRequest) kmsg.Response) *seen {
	s := &seen{}
	b.Cluster().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.FetchRequest)
		if !ok {
			return nil, io.ErrUnexpectedEOF, true
		}
		b.Cluster().KeepControl()
		s.mu.Lock()
		s.requests = append(s.requests, req)
		s.mu.Unlock()
		if answer == nil {
			return nil, nil, false
		}
		resp := answer(req)
		return resp, nil, resp != nil
	})
	return s
}

// largest returns how many requests there were, and how many partitions the largest had.
func (s *seen) largest() (requests, partitions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		n := 0
		for _, t := range r.Topics {
			n += len(t.Partitions)
		}
		partitions = max(partitions, n)
	}
	return len(s.requests), partitions
}

// awaitCondition waits until done.
func awaitCondition(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); _ = Sleep(t.Context(), time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for: %s", what)
		}
	}
}

// result is what one of several fetches returned.
type result struct {
	partition int
	batch     Batch
	err       error
}

// fetchEach fetches from partitions 0 to n-1, each in a goroutine, until ctx ends or they are answered.
func fetchEach(ctx context.Context, c *Client, n int, r FetchRequest) <-chan result {
	results := make(chan result, n)
	var wg sync.WaitGroup
	for p := range n {
		wg.Go(func() {
			r := r
			r.Topic, r.Partition = "t", p
			b, err := c.Fetch(ctx, r)
			results <- result{p, b, err}
		})
	}
	go func() { wg.Wait(); close(results) }()
	return results
}

// TestReadersShareARequest lets 64 readers wait at the ends of their partitions. They are in one request. Each gets its own record
// when it comes, and the others wait on.
func TestReadersShareARequest(t *testing.T) {
	t.Parallel()
	const partitions = 64
	b, c := withTopic(t, partitions, Config{})
	writer := startClient(t, Config{Brokers: b.Addrs()})
	s := fetches(b, nil)
	results := fetchEach(t.Context(), c, partitions, FetchRequest{MaxWait: time.Minute})
	awaitCondition(t, "a request for all", func() bool { _, n := s.largest(); return n == partitions })
	for p := range partitions {
		produce(t, writer, "t", p, fmt.Sprint("for ", p))
		got := <-results
		if got.err != nil || got.partition != p || !slices.Equal(valuesOf(got.batch.Records), []string{fmt.Sprint("for ", p)}) {
			t.Fatalf("partition %d: got an answer to %d: %+v and %v", p, got.partition, got.batch, got.err)
		}
	}
	if n, _ := s.largest(); n > 4*partitions {
		t.Errorf("got %d requests for %d records, want few more than records", n, partitions)
	}
}

// TestAReaderThatComesLateDoesNotWait: the broker does not answer one request for records. Readers that come meanwhile get what is
// there, one after the other, however many wait behind them.
func TestAReaderThatComesLateDoesNotWait(t *testing.T) {
	t.Parallel()
	const partitions = 8
	b, c := withTopic(t, partitions, Config{Timeout: time.Minute})
	for p := 1; p < partitions; p++ {
		produce(t, c, "t", p, "x")
	}
	release := make(chan struct{})
	first := true
	s := fetches(b, func(*kmsg.FetchRequest) kmsg.Response {
		if first {
			first = false
			b.Cluster().SleepControl(func() { <-release })
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	waits := fetchEach(ctx, c, 1, FetchRequest{MaxWait: time.Minute})
	awaitCondition(t, "one that waits", func() bool { n, _ := s.largest(); return n == 1 })
	var waiting sync.WaitGroup
	for p := 1; p < partitions; p++ {
		late, end := context.WithTimeout(t.Context(), 20*time.Second)
		got, err := c.Fetch(late, FetchRequest{Topic: "t", Partition: p, MaxWait: time.Minute})
		end()
		if err != nil || len(got.Records) != 1 {
			t.Errorf("partition %d: got %+v and %v, want the record", p, got, err)
		}
		waiting.Go(func() { // at the end of its partition
			_, _ = c.Fetch(ctx, FetchRequest{Topic: "t", Partition: p, Offset: 1, MaxWait: time.Minute})
		})
	}
	s.mu.Lock()
	beside := slices.Clone(s.requests[1:]) // once the first has ended, others may wait for long
	s.mu.Unlock()
	cancel()
	close(release)
	waiting.Wait()
	if got := <-waits; !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %v, want canceled", got.err)
	}
	for _, r := range beside {
		if wait := time.Duration(r.MaxWaitMillis) * time.Millisecond; wait > shortWait {
			t.Errorf("got a request that waits for %v beside the first, want at most %v", wait, shortWait)
		}
	}
}

// TestTake: one flight takes all that fit together, in their order. Readers of one partition share it if they want the same.
func TestTake(t *testing.T) {
	began := time.Now()
	ask := func(partition int, offset int64, wait time.Duration) *fetchCall {
		r := FetchRequest{Topic: "t", Partition: partition, Offset: offset, MaxWait: wait}
		return &fetchCall{q: fetchQuestion{FetchRequest: r, maxBytes: 100, began: began, last: began}, done: make(chan struct{})}
	}
	l := &fetchLane{short: 1, gathering: true}
	l.waiting = []*fetchCall{ask(1, 5, time.Minute), ask(0, 7, 300*time.Millisecond), ask(1, 5, time.Second), ask(1, 6, 0), ask(2, 0, time.Second)}
	behind := l.waiting[3]
	s := &slot{}
	f := l.take(began.Add(100*time.Millisecond), s)
	var got [][3]int
	for _, p := range f.parts {
		got = append(got, [3]int{p.Partition, int(p.Offset), len(p.calls)})
	}
	if want := [][3]int{{1, 5, 2}, {0, 7, 1}, {2, 0, 1}}; !slices.Equal(got, want) || f.callers != 4 {
		t.Errorf("got partition, offset and readers %v for %d callers, want %v for 4", got, f.callers, want)
	}
	if !slices.Equal(l.waiting, []*fetchCall{behind}) || !f.short || f.wait != shortWait {
		t.Errorf("got %d waiting, short %v, wait %v; want the reader of another offset to wait, and a short flight", len(l.waiting), f.short, f.wait)
	}
	l.free, l.waiting = []*slot{{}}, []*fetchCall{ask(0, 7, 300*time.Millisecond), ask(1, 0, time.Hour)}
	if f := l.take(began.Add(100*time.Millisecond), s); f.short || f.wait != 200*time.Millisecond {
		t.Errorf("alone: got short %v and wait %v, want the rest of the time of the most impatient, 200 ms", f.short, f.wait)
	}
	l.waiting = []*fetchCall{ask(1, 0, time.Hour)}
	if f := l.take(began, s); f.wait != longWait {
		t.Errorf("got wait %v, want %v: others may come", f.wait, longWait)
	}
	if f := l.take(began, s); f != nil || len(l.free) != 2 {
		t.Errorf("got %+v and %d free slots, want none and both: nobody waits", f, len(l.free))
	}
}

// TestSettle: who has got something is answered, and who has waited for long enough. The others wait first in the line.
func TestSettle(t *testing.T) {
	l := &fetchLane{}
	ask := func(partition int, began time.Time) *fetchCall {
		r := FetchRequest{Topic: "t", Partition: partition, Offset: 7, MaxWait: time.Hour}
		return &fetchCall{q: fetchQuestion{FetchRequest: r, maxBytes: 100, began: began, last: began}, done: make(chan struct{})}
	}
	now := time.Now()
	calls := []*fetchCall{ask(0, now), ask(1, now), ask(2, now.Add(-31*time.Minute)), ask(3, now.Add(-31*time.Minute)), ask(4, now), ask(5, now)}
	calls[5].gone = true
	late := ask(6, now)
	f := &fetchFlight{flight: newFlight(len(calls))}
	for _, c := range calls {
		c.flight = f.flight
		f.parts = append(f.parts, fetchPart{c.q, []*fetchCall{c}})
	}
	l.waiting = []*fetchCall{late}
	answered := l.settle(f, []fetched{
		{set: []byte("x"), batch: Batch{HighWater: 9}}, // something
		{batch: Batch{HighWater: 7}},                   // nothing yet
		{batch: Batch{HighWater: 7}},                   // nothing for long
		{batch: Batch{HighWater: 8}},                   // something, but the answer was full
		{missing: true, err: errWrongAnswer},           // the same
		{batch: Batch{HighWater: 7}},                   // nobody waits
	}, nil)
	isDone := func(c *fetchCall) bool {
		select {
		case <-c.done:
			return true
		default:
			return false
		}
	}
	for i, want := range []bool{true, false, true, false, false, true} {
		if isDone(calls[i]) != want {
			t.Errorf("call %d: got answered %v, want %v", i, !want, want)
		}
	}
	if answered != 2 || !slices.Equal(l.waiting, []*fetchCall{calls[1], calls[3], calls[4], late}) {
		t.Errorf("got %d answered and %d waiting, want 2, and the others before the one that came late", answered, len(l.waiting))
	}
}

// TestAReaderThatGivesUpDisturbsNobody cancels a call that shares its request. The request goes on for the others.
func TestAReaderThatGivesUpDisturbsNobody(t *testing.T) {
	t.Parallel()
	b, c := withTopic(t, 2, Config{})
	writer := startClient(t, Config{Brokers: b.Addrs()})
	s := fetches(b, nil)
	results := fetchEach(t.Context(), c, 1, FetchRequest{MaxWait: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Fetch(ctx, FetchRequest{Topic: "t", Partition: 1, MaxWait: time.Minute}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	})
	awaitCondition(t, "both in flight", func() bool { n, _ := s.largest(); return n > 0 })
	cancel()
	wg.Wait()
	produce(t, writer, "t", 0, "x")
	if got := <-results; got.err != nil || len(got.batch.Records) != 1 {
		t.Errorf("got %+v and %v, want the record", got.batch, got.err)
	}
}

// TestReadersOfOnePartitionShareItsRecords: several readers wait at the end of one partition, as those of the control topic do.
func TestReadersOfOnePartitionShareItsRecords(t *testing.T) {
	t.Parallel()
	b, c := withTopic(t, 1, Config{})
	writer := startClient(t, Config{Brokers: b.Addrs()})
	s := fetches(b, nil)
	results := make(chan result, 5)
	for range cap(results) {
		go func() {
			got, err := c.Fetch(t.Context(), FetchRequest{Topic: "t", MaxWait: time.Minute})
			results <- result{0, got, err}
		}()
	}
	awaitCondition(t, "all waiting", func() bool { n, _ := s.largest(); return n > 0 })
	produce(t, writer, "t", 0, "x")
	for range cap(results) {
		if got := <-results; got.err != nil || !slices.Equal(valuesOf(got.batch.Records), []string{"x"}) {
			t.Errorf("got %+v and %v, want the record", got.batch, got.err)
		}
	}
	if _, n := s.largest(); n != 1 {
		t.Errorf("got %d times the partition in a request, want once", n)
	}
}

// TestASmallAnswerIsSharedFairly: an answer has room for one batch. Each reader gets what is in its partition all the same, and none
// hears that there is nothing.
func TestASmallAnswerIsSharedFairly(t *testing.T) {
	t.Parallel()
	const partitions, each = 8, 3
	b, c := withTopic(t, partitions, Config{})
	for p := range partitions {
		produce(t, c, "t", p, "a", "b", "c")
	}
	s := fetches(b, nil)
	for offset := range int64(each) {
		for got := range fetchEach(t.Context(), c, partitions, FetchRequest{Offset: offset, MaxBytes: 1, MaxWait: 50 * time.Millisecond}) {
			if got.err != nil || len(got.batch.Records) == 0 {
				t.Errorf("partition %d, offset %d: got %+v and %v, want a record", got.partition, offset, got.batch, got.err)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.MaxBytes != 1 {
			t.Fatalf("got a request for %d bytes, want as many as one reader wants", r.MaxBytes)
		}
	}
}

// part is what a broker says about a partition.
type part struct {
	code int16
	set  []byte
}

// answerParts answers a request as parts says by partition; others are empty.
func answerParts(req *kmsg.FetchRequest, parts map[int32]part) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			about := kmsg.NewFetchResponseTopicPartition()
			about.Partition, about.ErrorCode, about.RecordBatches = p.Partition, parts[p.Partition].code, parts[p.Partition].set
			if about.RecordBatches != nil {
				about.HighWatermark = 3
			}
			topic.Partitions = append(topic.Partitions, about)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// TestAPartitionsFailureIsItsOwn: of the partitions in one answer, one is without a leader, one is not ours to read, one is corrupt,
// and one is missing. The others are read.
func TestAPartitionsFailureIsItsOwn(t *testing.T) {
	t.Parallel()
	b, c := withTopic(t, 6, Config{})
	corrupt := three()
	corrupt[len(corrupt)-1] ^= 1
	s := fetches(b, func(req *kmsg.FetchRequest) kmsg.Response {
		resp := answerParts(req, map[int32]part{
			0: {set: three()}, 1: {code: kerr.NotLeaderForPartition.Code}, 2: {code: kerr.TopicAuthorizationFailed.Code},
			3: {set: corrupt}, 4: {set: three()},
		}).(*kmsg.FetchResponse)
		for i := range resp.Topics {
			resp.Topics[i].Partitions = slices.DeleteFunc(resp.Topics[i].Partitions, func(p kmsg.FetchResponseTopicPartition) bool { return p.Partition == 5 })
		}
		return resp
	})
	l := &c.lane(0).fetches
	free := l.free
	l.free = nil // no request goes out until all wait
	results := fetchEach(t.Context(), c, 6, FetchRequest{MaxWait: time.Minute})
	awaitCondition(t, "six that wait", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.waiting) == 6
	})
	l.mu.Lock()
	l.free = free
	l.board()
	l.mu.Unlock()
	want := map[int]error{1: kafka.NotLeaderForPartition, 2: ErrUnauthorized, 3: ErrCorrupt, 5: errWrongAnswer}
	for got := range results {
		if !errors.Is(got.err, want[got.partition]) || got.err == nil && len(got.batch.Records) != 3 {
			t.Errorf("partition %d: got %d records and %v, want %v", got.partition, len(got.batch.Records), got.err, want[got.partition])
		}
	}
	if _, n := s.largest(); n != 6 {
		t.Errorf("got at most %d partitions in a request, want 6", n)
	}
}

// aboutThree is a flight for partitions 0 to 2 of "t" at offset 7, and an answer about them.
func aboutThree(version int16) (*fetchFlight, []byte) {
	f := &fetchFlight{at: make(map[partitionKey]int)}
	req := kmsg.NewPtrFetchRequest()
	req.Version = version
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "t"
	for p := range int32(3) {
		f.at[partitionKey{"t", int(p)}] = len(f.parts)
		f.parts = append(f.parts, fetchPart{fetchQuestion: fetchQuestion{FetchRequest: FetchRequest{Topic: "t", Partition: int(p), Offset: 7}}})
		topic.Partitions = append(topic.Partitions, kmsg.FetchRequestTopicPartition{Partition: p})
	}
	req.Topics = append(req.Topics, topic)
	resp := answerParts(req, map[int32]part{0: {set: []byte("zero")}, 1: {code: kerr.NotLeaderForPartition.Code}, 2: {set: []byte("two")}})
	resp.SetVersion(version)
	return f, resp.AppendTo(nil)
}

// TestParseAnswerAboutSeveralPartitions reads it in each version, cut anywhere, and with any bit flipped: no partition gets what
// another one sent.
func TestParseAnswerAboutSeveralPartitions(t *testing.T) {
	for version := int16(4); version <= 11; version++ {
		f, body := aboutThree(version)
		got, err := f.parse(body, version)
		if err != nil || string(got[0].set) != "zero" || !errors.Is(got[1].err, kafka.NotLeaderForPartition) || string(got[2].set) != "two" {
			t.Fatalf("version %d: got %+v and %v", version, got, err)
		}
		if got[0].batch.Next != 7 || got[0].batch.HighWater != 3 {
			t.Errorf("version %d: got %+v, want next 7 and high water 3", version, got[0].batch)
		}
		for n := range body {
			if _, err := f.parse(body[:n], version); !errors.Is(err, errWrongAnswer) {
				t.Errorf("version %d, %d of %d bytes: got %v, want errWrongAnswer", version, n, len(body), err)
			}
		}
		for bit := range 8 * len(body) {
			flipped := slices.Clone(body)
			flipped[bit/8] ^= 1 << (bit % 8)
			got, err := f.parse(flipped, version)
			if err == nil && (slices.Equal(got[0].set, []byte("two")) || slices.Equal(got[2].set, []byte("zero")) || len(got[1].set) > 0) {
				t.Fatalf("version %d, bit %d: got %+v: records of another partition", version, bit, got)
			}
		}
	}
}
