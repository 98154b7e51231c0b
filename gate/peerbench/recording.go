package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/peerbench/meter"
	"github.com/509da70d/floodgate/gate/peerbench/peers"
	"github.com/509da70d/floodgate/gate/peerbench/report"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// resource is what all requests here ask for.
const resource = "GET /v1/items/{id}"

// recording measures the time to check and record a request, and which part of a flood is reported when the recorder is
// full.
func (b *bench) recording(ctx context.Context) error {
	closed, others := crowd(few, few)
	loop := &contender{subject: peers.Loop{}}
	trials := []meter.Work{loop.work(lookup{asked: others})}
	for _, timed := range []bool{false, true} {
		one, two := newServer(closed, others), newServer(closed, others)
		defer one.stop()
		defer two.stop()
		one.timed, two.timed = timed, timed
		trials = append(trials, one.oneCaller, two.twoCallers)
	}
	hashing, err := newHashingServer(closed, others)
	if err != nil {
		return err
	}
	defer hashing.stop()
	trials = append(trials, hashing.oneCaller)
	measured, err := b.spread(ctx, trials...)
	if err != nil {
		return err
	}
	rows := []report.Row{
		{Case: "Check and Record a request with one caller", Bar: report.Bar{AtMost: 50}},
		{Case: "Check and Record a request with two callers, one an address", Bar: report.Bar{AtMost: 100}},
		{Case: "the same with one caller, by a server that knows the time"},
		{Case: "the same with two callers, by a server that knows the time"},
		{Case: "the same with one caller, whose id is hashed with a secret", Bar: report.Bar{Allocs: 1}, Note: "HMAC-SHA-256 of ids of 22 bytes; off by default"},
	}
	for i := range rows {
		rows[i].Unit = "ns"
		for j, series := range measured {
			rows[i].Figures = append(rows[i].Figures, report.Figure{
				CPUs: b.settings.cpus[j], Value: beyond(series[i+1], series[0]), Allocs: series[i+1].Allocs(),
			})
		}
	}
	rows[0].Note = "1 000 callers closed, 1 000 others ask; draining the recorder every 5 ms included"
	rows[2].Note = "the difference is time.Now, which is in the table of parts"
	b.report.Rows = append(b.report.Rows, rows...)
	share, err := flood(b.settings.many)
	if err != nil {
		return err
	}
	b.row(report.Row{
		Case: "requests of a flooding caller that are reported", Unit: "%", Bar: report.Bar{AtLeast: 100},
		Figures: []report.Figure{{Value: share}},
		Note:    "every tenth of 1 M requests is the flooder's, all others are of different callers; Kafka is away, the recorder full",
	})
	return nil
}

// server checks and records requests, and drains its recorder as a link does.
type server struct {
	set      *gate.Set
	ips      *gate.Gate
	keys     *gate.Gate
	rec      *record.Recorder
	one, two *rounds
	addrs    []netip.Addr
	timed    bool // requests come with their time, as from a server that has read the clock for its own log
	stop     func()
}

// request returns the fields that all requests of a chunk have in common.
func (s *server) request() record.Request {
	q := record.Request{Resource: resource}
	if s.timed {
		q.At = time.Now()
	}
	return q
}

func newServer(closed, asked []string) *server { return serverOf(peers.NewGate(closed), asked) }

// newHashingServer is newServer for callers whose ids are hashed with a secret.
func newHashingServer(closed, asked []string) (*server, error) {
	g, err := peers.NewHashingGate(closed)
	if err != nil {
		return nil, err
	}
	return serverOf(g, asked), nil
}

func serverOf(g *peers.Gate, asked []string) *server {
	s := &server{
		set: g.Set, keys: g.Gate, ips: g.Set.Gate(schemas.KindIP), rec: record.New(record.Options{}),
		one: newRounds(asked), two: newRounds(asked), addrs: addresses(len(asked)),
	}
	undrain := drain(s.rec)
	s.stop = func() {
		undrain()
		_ = g.Close() // never fails
	}
	return s
}

// addresses returns n addresses.
func addresses(n int) []netip.Addr {
	out := make([]netip.Addr, n)
	for i := range out {
		out[i] = netip.AddrFrom4([4]byte{198, byte(18 + i>>16), byte(i >> 8), byte(i)})
	}
	return out
}

// drain takes the recorded entries every 5 ms, and drops them, until it is stopped.
func drain(rec *record.Recorder) (stop func()) {
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				rec.Acked(rec.Drain(func(uint64, *schemas.Entry) {}))
			}
		}
	})
	return func() {
		close(quit)
		done.Wait()
	}
}

// oneCaller is one chunk of requests with a key.
func (s *server) oneCaller(worker int) int {
	keys, q := s.one.next(worker), s.request()
	for _, k := range keys {
		var c gate.Callers
		c.Add(s.keys, k)
		s.rec.Record(&c, s.set.Check(&c), q)
	}
	return len(keys)
}

// twoCallers is one chunk of requests with an address and a key.
func (s *server) twoCallers(worker int) int {
	keys, q := s.two.next(worker), s.request()
	for i, k := range keys {
		var c gate.Callers
		c.AddAddr(s.ips, s.addrs[i])
		c.Add(s.keys, k)
		s.rec.Record(&c, s.set.Check(&c), q)
	}
	return len(keys)
}

// flood records requests, a microsecond apart, without draining the recorder. On average every tenth is of the same caller.
// It returns the percentage of that caller's requests that the recorder has in the end.
func flood(requests int) (percent float64, err error) {
	const flooder = "the-flooder"
	set := gate.New(gate.Options{})
	keys, rec := set.Gate(peers.Kind), record.New(record.Options{MaxEntries: requests / 64}) // for 1 M about the default
	random, at, sent := dice(3), time.Now(), 0
	for i := range requests {
		id := flooder
		if random.IntN(10) != 0 {
			id = fmt.Sprintf("caller-%0*d", idBytes-len("caller-"), i)
		} else {
			sent++
		}
		var c gate.Callers
		c.Add(keys, id)
		rec.Record(&c, set.Check(&c), record.Request{Resource: resource, At: at})
		at = at.Add(time.Microsecond)
	}
	reported := 0
	drained := rec.Drain(func(_ uint64, e *schemas.Entry) {
		if e.ID == flooder {
			reported += int(e.Count)
		}
	})
	rec.Acked(drained)
	if s := rec.Stats(); s.Accepted != uint64(requests) || s.DroppedTotal() == 0 || s.Acked+s.DroppedTotal() != s.Accepted {
		return 0, fmt.Errorf("got accepted %d, acked %d, dropped %d, want %d in all and some of them dropped",
			s.Accepted, s.Acked, s.DroppedTotal(), requests)
	}
	return 100 * float64(reported) / float64(sent), nil
}
