package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// beLoad makes the test binary a server under load: its value is a loadPlan.
const beLoad = "FLOODGATE_TEST_BE_LOAD"

// loadPlan is what one server gets to do. It has the gates, the Recorder and the link of any other; only its requests
// come from nowhere.
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
}

// noisyLimit is the limit of callers of the kind noisy. Every second one of them stops one short of it.
const noisyLimit = 20

// loadSummary is what became of a server's requests.
type loadSummary struct {
	Accepted, Acked, Unknown, Dropped, Blocked uint64
	Frames                                     uint64
	Began, Ended                               int64 // Unix nanoseconds: the first request, and the last one's acknowledgement
}

// startLoad starts a server in a process of its own.
func startLoad(t *testing.T, plan loadPlan) *program {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return startAs(t, []string{beLoad + "=" + string(text)}, nil, "load", plan.Name)
}

// summary waits until the server has ended.
func (p *program) summary(within time.Duration) (s loadSummary) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.waitFor(`^summary (.*)`, within)), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// loadServer is the server, in its own process.
type loadServer struct {
	plan  loadPlan
	set   *gate.Set
	rec   *record.Recorder
	link  *kafkalink.Link
	calm  *gate.Gate // of the kind key
	noisy *gate.Gate
	ids   []string
	order []int32 // of callers, over and over
	next  int
	began time.Time

	blocked  uint64
	visitors []visitor // noisy callers who are there
	visited  int
}

// visitor is a noisy caller.
type visitor struct {
	id        string
	made, end int
}

// runLoad is the main function of a server under load. It prints when which noisy caller made the request that reached
// its limit, and at last a loadSummary.
func runLoad(text string) int {
	s := &loadServer{}
	if err := json.Unmarshal([]byte(text), &s.plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s.prepare()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return s.link.Run(ctx) })
	if err := s.link.Ready(ctx); err != nil {
		return 1
	}
	fmt.Println("ready")
	s.serve()
	for st := s.rec.Stats(); st.Queued > 0; st = s.rec.Stats() {
		time.Sleep(time.Millisecond)
	}
	ended := time.Now()
	stop()
	if err := g.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	st := s.link.Stats()
	summary, err := json.Marshal(loadSummary{
		Accepted: st.Requests.Accepted, Acked: st.Requests.Acked, Unknown: st.Requests.Unknown,
		Dropped: st.Requests.DroppedTotal(), Blocked: s.blocked, Frames: st.Frames,
		Began: s.began.UnixNano(), Ended: ended.UnixNano(),
	})
	if err != nil {
		return 1
	}
	fmt.Printf("summary %s\n", summary)
	return 0
}

func (s *loadServer) prepare() {
	s.set = gate.New(gate.Options{})
	// Room for all that comes while Kafka hesitates: what is dropped would not be counted.
	s.rec = record.New(record.Options{MaxEntries: 1 << 18})
	names := kafkaio.TopicNames{Requests: "floodgate.requests" + s.plan.Suffix, Decisions: "floodgate.decisions" + s.plan.Suffix}
	s.link = kafkalink.New(s.set, s.rec, kafkalink.Config{
		Brokers: strings.Split(s.plan.Brokers, ","), Topics: names, Backlog: 1 << 19, Drain: 30 * time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	s.calm, s.noisy = s.set.Gate("key"), s.set.Gate("noisy")
	if s.plan.Round {
		return
	}
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
	for step := time.Duration(0); step < s.plan.For; step += time.Millisecond {
		time.Sleep(time.Until(s.began.Add(step)))
		due := int(int64(s.plan.Rate) * int64(step+time.Millisecond) / int64(time.Second))
		for ; made < due; made++ {
			s.request(s.calm, s.who())
		}
		s.visit(step)
	}
}

// who is the next calm caller.
func (s *loadServer) who() string {
	i := s.next
	s.next++
	if s.plan.Round {
		return loadCaller(uint64(i % s.plan.Callers))
	}
	return s.ids[s.order[i%len(s.order)]]
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
