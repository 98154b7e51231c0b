//go:build lab

package lab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

// steadyPlan is what one server with steady callers gets to do.
type steadyPlan struct {
	Brokers string
	Suffix  string // of topics
	Seed    uint64
	Callers []steadyCaller
	For     time.Duration
}

// steadyCaller sends requests that come at random, as many a second on average.
type steadyCaller struct {
	ID   string
	Rate float64
}

// steadySummary is what a server saw.
type steadySummary struct {
	Began, Ended int64 // Unix nanoseconds
	P50, P99     time.Duration
	Callers      []steadyCount // as in the plan
}

// steadyCount is what one caller sent to one server. A bucket is steadyStep long; the first one holds Began.
type steadyCount struct {
	Admitted, Blocked []int
	Longest           time.Duration // from the first to the last of requests that were blocked in a row
}

const (
	steadyStep = 10 * time.Millisecond
	// steadyLate is by how much a server may be late. What should have come before that never comes: a machine that stood
	// still must not make a quiet caller noisy.
	steadyLate = 50 * time.Millisecond
)

// startSteady starts a server in a process of its own.
func startSteady(t testing.TB, plan steadyPlan) *processtest.Program {
	t.Helper()
	return startServer(t, "steady", strconv.FormatUint(plan.Seed, 10), plan)
}

// steadySummaries waits until the servers have ended.
func steadySummaries(servers []*processtest.Program, within time.Duration) (list []steadySummary) {
	for _, p := range servers {
		list = append(list, summaryOf[steadySummary](p, within))
	}
	return list
}

// between adds up one caller's requests from one time to another, in Unix nanoseconds, on all servers.
func between(list []steadySummary, caller int, from, to int64) (admitted, blocked int) {
	for _, s := range list {
		first := s.Began / int64(steadyStep)
		c := s.Callers[caller]
		for i := range c.Admitted {
			if at := (first + int64(i)) * int64(steadyStep); at >= from && at < to {
				admitted, blocked = admitted+c.Admitted[i], blocked+c.Blocked[i]
			}
		}
	}
	return admitted, blocked
}

// overlap returns from when until when all servers served.
func overlap(list []steadySummary) (from, to int64) {
	from, to = 0, math.MaxInt64
	for _, s := range list {
		from, to = max(from, s.Began), min(to, s.Ended)
	}
	return from, to
}

// steadyServer is the server, in its own process.
type steadyServer struct {
	plan    steadyPlan
	set     *gate.Set
	rec     *record.Recorder
	gate    *gate.Gate
	rnd     *rand.Rand
	next    []time.Time // each caller's next request
	refused []time.Time // when each caller was refused first, of those in a row; zero: it was not
	sum     steadySummary
}

func (s *steadyServer) planned() any { return &s.plan }

func (s *steadyServer) prepare() (*kafkalink.Link, error) {
	s.set, s.rec = gate.New(gate.Options{}), record.New(record.Options{})
	return linkTo(s.plan.Brokers, s.plan.Suffix, s.set, s.rec, 0)
}

func (s *steadyServer) summary(link *kafkalink.Link) (any, error) {
	st := link.Stats()
	if st.Requests.Acked != st.Requests.Accepted {
		return nil, fmt.Errorf("got %d of %d requests in the log", st.Requests.Acked, st.Requests.Accepted)
	}
	s.sum.P50, s.sum.P99 = st.Lag.P50, st.Lag.P99
	return s.sum, nil
}

// serve makes the requests.
func (s *steadyServer) serve() {
	s.gate, s.rnd = s.set.Gate("key"), rand.New(rand.NewPCG(s.plan.Seed, 1))
	n := len(s.plan.Callers)
	s.next, s.refused, s.sum.Callers = make([]time.Time, n), make([]time.Time, n), make([]steadyCount, n)
	began := time.Now()
	s.sum.Began, s.sum.Ended = began.UnixNano(), began.Add(s.plan.For).UnixNano()
	for i := range n {
		s.draw(i, began)
		buckets := int(s.plan.For/steadyStep) + 2
		s.sum.Callers[i] = steadyCount{Admitted: make([]int, buckets), Blocked: make([]int, buckets)}
	}
	for {
		i := 0
		for k := range s.next {
			if s.next[k].Before(s.next[i]) {
				i = k
			}
		}
		time.Sleep(time.Until(s.next[i]))
		now := time.Now()
		if now.UnixNano() >= s.sum.Ended {
			return
		}
		if now.Sub(s.next[i]) < steadyLate {
			s.request(i, now)
		}
		s.draw(i, s.next[i])
	}
}

// draw draws when a caller's next request comes.
func (s *steadyServer) draw(i int, last time.Time) {
	s.next[i] = last.Add(time.Duration(s.rnd.ExpFloat64() / s.plan.Callers[i].Rate * float64(time.Second)))
}

func (s *steadyServer) request(i int, now time.Time) {
	var c gate.Callers
	c.Add(s.gate, s.plan.Callers[i].ID)
	v := s.set.Check(&c)
	s.rec.Record(&c, v, record.Request{})
	count := &s.sum.Callers[i]
	bucket := now.UnixNano()/int64(steadyStep) - s.sum.Began/int64(steadyStep)
	if !v.Closed {
		count.Admitted[bucket]++
		s.refused[i] = time.Time{}
		return
	}
	count.Blocked[bucket]++
	if s.refused[i].IsZero() {
		s.refused[i] = now
	}
	count.Longest = max(count.Longest, now.Sub(s.refused[i]))
}

func TestBetween(t *testing.T) {
	list := []steadySummary{
		{Began: 5, Ended: 60e6, Callers: []steadyCount{{Admitted: []int{1, 2, 4}, Blocked: []int{0, 8, 0}}}},
		{Began: 10e6, Ended: 50e6, Callers: []steadyCount{{Admitted: []int{16, 32, 64}, Blocked: []int{1, 0, 2}}}},
	}
	if from, to := overlap(list); from != 10e6 || to != 50e6 {
		t.Errorf("got %d to %d, want 10 to 50 ms", from, to)
	}
	for _, test := range []struct {
		from, to          int64
		admitted, blocked int
	}{{10e6, 20e6, 2 + 16, 8 + 1}, {0, 10e6, 1, 0}, {10e6, math.MaxInt64, 6 + 112, 8 + 3}, {40e6, 50e6, 0, 0}} {
		if admitted, blocked := between(list, 0, test.from, test.to); admitted != test.admitted || blocked != test.blocked {
			t.Errorf("from %d to %d: got %d and %d, want %d and %d", test.from, test.to, admitted, blocked, test.admitted, test.blocked)
		}
	}
	if !slices.IsSorted(list[0].Callers[0].Admitted) {
		t.Error("got the counts changed")
	}
}
