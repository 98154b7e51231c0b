//go:build lab

package lab

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

// loadPlan is what one server under load gets to do. It prints when which noisy caller made the request that reached its limit.
type loadPlan struct {
	Brokers string
	Suffix  string // of topics
	Name    string // of the server, within the names of its noisy callers
	Callers int    // who share the requests; none of them is to be closed
	Round   bool   // each caller in turn; otherwise by Zipf's law
	Rate    int    // requests a second
	For     time.Duration
	Noisy   int  // callers a second who come, make one request a millisecond, and reach noisyLimit
	Persist bool // they go on until they are closed

	Kind      string // of the callers that share the requests; empty: key
	Chosen    bool   // their ids end in one place under the public partition key
	Offenders int    // callers that send offenderSends in ten seconds each; they begin one after the other over twice For
}

// What each offender sends, under a limit of offenderLimit.
const (
	offenderLimit = 60
	offenderSends = 120
)

// noisyLimit is the limit of callers of the kind noisy. Every second one of them stops one short of it.
const noisyLimit = 20

// loadSummary is what became of a server's requests.
type loadSummary struct {
	Accepted, Acked, Unknown, Dropped, Blocked uint64
	Frames                                     uint64
	Began, Ended                               int64 // Unix nanoseconds: the first request, and the last one's acknowledgement
}

// startLoad starts a server in a process of its own.
func startLoad(t testing.TB, plan loadPlan) *processtest.Program {
	t.Helper()
	return startServer(t, "load", plan.Name, plan)
}

// loadServer is the server, in its own process.
type loadServer struct {
	plan  loadPlan
	set   *gate.Set
	rec   *record.Recorder
	calm  *gate.Gate // of the kind key
	noisy *gate.Gate
	ids   []string
	order []int32 // of callers, over and over
	next  int
	began time.Time
	ended time.Time // when Kafka had all

	blocked  uint64
	visitors []visitor // noisy callers who are there
	visited  int

	chosen    []string // ids of all callers, if they are chosen
	offenders []int    // what each offender that has begun has sent
}

// visitor is a noisy caller.
type visitor struct {
	id        string
	made, end int
}

func (s *loadServer) planned() any { return &s.plan }

func (s *loadServer) summary(link *kafkalink.Link) (any, error) {
	st := link.Stats()
	return loadSummary{
		Accepted: st.Requests.Accepted, Acked: st.Requests.Acked, Unknown: st.Requests.Unknown,
		Dropped: st.Requests.DroppedTotal(), Blocked: s.blocked, Frames: st.Frames,
		Began: s.began.UnixNano(), Ended: s.ended.UnixNano(),
	}, nil
}

func (s *loadServer) prepare() (*kafkalink.Link, error) {
	s.set = gate.New(gate.Options{})
	// Room for all that comes while Kafka hesitates: what is dropped would not be counted.
	s.rec = record.New(record.Options{MaxEntries: 1 << 18})
	s.calm, s.noisy = s.set.Gate(cmp.Or(s.plan.Kind, "key")), s.set.Gate("noisy")
	if s.plan.Chosen {
		s.chosen = chosenCallers(s.calm.Kind(), s.plan.Callers)
	}
	if !s.plan.Round {
		s.drawOrder()
	}
	return linkTo(s.plan.Brokers, s.plan.Suffix, s.set, s.rec, 1<<19)
}

// drawOrder draws who asks when, by Zipf's law.
func (s *loadServer) drawOrder() {
	s.ids = make([]string, s.plan.Callers)
	for i := range s.ids {
		s.ids[i] = loadCaller(uint64(i))
	}
	const drawn = 1 << 22
	rnd := rand.New(rand.NewPCG(uint64(len(s.plan.Name)), 1))
	zipf := rand.NewZipf(rnd, 1.1, 8, uint64(len(s.ids)-1))
	s.order = make([]int32, drawn)
	for i := range s.order {
		s.order[i] = int32(zipf.Uint64())
	}
}

// serve makes requests in steps of a millisecond. A step that is late is made up for.
func (s *loadServer) serve() {
	s.began = time.Now()
	made := 0
	length := s.plan.For
	if s.plan.Offenders > 0 {
		length = 2*length + 11*time.Second
	}
	for step := time.Duration(0); step < length; step += time.Millisecond {
		time.Sleep(time.Until(s.began.Add(step)))
		s.offend(step)
		if step >= s.plan.For {
			continue
		}
		due := int(int64(s.plan.Rate) * int64(step+time.Millisecond) / int64(time.Second))
		for ; made < due; made++ {
			s.request(s.calm, s.who())
		}
		s.visit(step)
	}
	for st := s.rec.Stats(); st.Queued > 0; st = s.rec.Stats() {
		time.Sleep(time.Millisecond)
	}
	s.ended = time.Now()
}

// who is the next calm caller.
func (s *loadServer) who() string {
	i := s.next
	s.next++
	if s.plan.Chosen {
		return s.chosen[i%len(s.chosen)]
	}
	if s.plan.Round {
		return loadCaller(uint64(i % s.plan.Callers))
	}
	return s.ids[s.order[i%len(s.order)]]
}

// offend lets the offenders that have begun send what is due by now.
func (s *loadServer) offend(step time.Duration) {
	for n := range s.plan.Offenders {
		began := 2 * s.plan.For * time.Duration(n) / time.Duration(s.plan.Offenders)
		if step < began {
			break
		}
		if n == len(s.offenders) {
			s.offenders = append(s.offenders, 0)
		}
		due := min(offenderSends, int((step-began)*offenderSends/(10*time.Second))+1)
		for ; s.offenders[n] < due; s.offenders[n]++ {
			id := "offender-" + s.plan.Name + "-" + strconv.Itoa(n)
			if s.offenders[n] == offenderLimit-1 {
				fmt.Printf("reached %s %d\n", id, time.Now().UnixNano())
			}
			s.request(s.noisy, id)
		}
	}
}

// request is what a server does for one request, beside its work. It reports whether the request was blocked.
func (s *loadServer) request(g *gate.Gate, id string) bool {
	var c gate.Callers
	c.Add(g, id)
	v := s.set.Check(&c)
	if v.Closed {
		s.blocked++
	}
	s.rec.Record(&c, v, record.Request{})
	return v.Closed
}

// visit lets noisy callers come as planned, and each that is there make a request.
func (s *loadServer) visit(step time.Duration) {
	for due := int(int64(s.plan.Noisy) * int64(step) / int64(time.Second)); s.visited < due; s.visited++ {
		s.visitors = append(s.visitors, visitor{
			id: "noisy-" + s.plan.Name + "-" + strconv.Itoa(s.visited), end: noisyLimit - s.visited%2,
		})
	}
	stay := s.visitors[:0]
	for _, v := range s.visitors {
		at := time.Now()
		closed := s.request(s.noisy, v.id)
		if v.made++; v.made == noisyLimit {
			fmt.Printf("reached %s %d\n", v.id, at.UnixNano())
		}
		if v.made < v.end || s.plan.Persist && v.end == noisyLimit && !closed {
			stay = append(stay, v)
		}
	}
	s.visitors = stay
}
