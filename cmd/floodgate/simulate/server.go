package simulate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// recorderEntries is how many distinct entries a server holds between two flushes. One that needs more ends the run: which
// entries it would lose depends on more than the seed.
const recorderEntries = 1 << 15

// server is one server: its gates, its recorder, and what kafkalink does for it.
type server struct {
	w        *world
	skew     int64 // its clock's time minus virtual time
	set      *gate.Set
	recorder *record.Recorder
	responds bool // the recorder records responses
	gates    map[string]*gate.Gate
	callers  gate.Callers

	producer schemas.ProducerID
	canaries []string // the id of the canary, by partition
	probes   int      // canaries so far
	lag      int64    // that the last canary measured, in nanoseconds; 0 if none has
	ticked   int64    // when Set.Tick was called, by its clock
	flushing bool
	dead     bool
	waiting  [][]schemas.Entry // by partition
	ids      map[string]string // interned
	seqs     []uint64          // of the last frame, by partition
	encoder  schemas.FrameEncoder
	toLog    []orderedWay // by partition
	toGate   []orderedWay // by partition
	closures closures
}

func newServer(w *world, index int, c *Config) *server {
	s := &server{
		w: w, skew: int64(skewOf(c, index)), gates: make(map[string]*gate.Gate), ids: make(map[string]string),
		set:      gate.New(gate.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), MaxClosed: c.MaxRows}),
		recorder: record.New(record.Options{MaxEntries: recorderEntries, Responses: c.Responses, Holds: c.Holds}),
		responds: c.Responses,
		waiting:  make([][]schemas.Entry, len(w.partitions)), seqs: make([]uint64, len(w.partitions)),
		toLog: make([]orderedWay, len(w.partitions)), toGate: make([]orderedWay, len(w.partitions)),
	}
	binary.BigEndian.PutUint64(s.producer[:], uint64(index)+1) // an index
	s.canaries = make([]string, len(w.partitions))
	for i, missing := 0, len(w.partitions); missing > 0; i++ {
		id := fmt.Sprintf("%x-%s", s.producer, strconv.Itoa(i))
		if p := w.partitionOf(schemas.KindCanary, id); s.canaries[p] == "" {
			s.canaries[p] = id
			missing--
		}
	}
	return s
}

// clock returns what the server's clock shows.
func (s *server) clock() int64 { return s.w.now + s.skew }

// request decides on a request now and records it.
func (s *server) request(r *Request) gate.Verdict {
	s.add(r.Callers)
	at := time.Unix(0, s.clock())
	s.tick()
	v := s.set.CheckAt(&s.callers, at)
	if r.Refused {
		s.recordRefused(r)
	} else {
		s.recorder.Record(&s.callers, v, record.Request{Resource: r.Resource, At: at, Declared: r.Declared})
		if !v.Closed && s.responds {
			s.respond(r, at)
		}
	}
	s.planFlush()
	return v
}

// add makes s.callers those of a request.
func (s *server) add(callers []schemas.Caller) {
	s.callers.Reset()
	for _, c := range callers {
		g := s.gates[c.Kind]
		if g == nil {
			g = s.set.Gate(c.Kind)
			s.gates[c.Kind] = g
		}
		s.callers.Add(g, c.ID)
	}
}

// respond records the response of a request that has arrived now: at once, or when the request ends. The strings of the request may be
// views of a line that is overwritten before that.
func (s *server) respond(r *Request, arrived time.Time) {
	response := record.Response{
		Resource: r.Resource, Status: int(r.Status), Cost: r.Cost, At: arrived, Arrived: arrived, Declared: r.Declared,
	}
	if r.Duration == 0 {
		s.recorder.Respond(&s.callers, response)
		return
	}
	callers := slices.Clone(r.Callers)
	for i := range callers {
		callers[i].ID = s.intern(callers[i].ID)
	}
	response.Resource = s.intern(r.Resource)
	s.w.at(s.w.now+int64(r.Duration), func() {
		s.add(callers)
		response.At = time.Unix(0, s.clock())
		s.recorder.Respond(&s.callers, response)
		s.planFlush()
	})
}

// recordRefused records a request that was refused elsewhere, as ingest does.
func (s *server) recordRefused(r *Request) {
	for _, c := range r.Callers {
		p := s.w.partitionOf(c.Kind, c.ID)
		s.waiting[p] = append(s.waiting[p], schemas.Entry{
			Time: s.clock(), Kind: s.intern(c.Kind), ID: s.intern(c.ID), Resource: s.intern(r.Resource), Count: 1, Blocked: true,
		})
	}
}

// tick removes ended closures from the gates, if a second has passed.
func (s *server) tick() {
	if now := s.clock(); now-s.ticked >= int64(canaryEvery) {
		s.ticked = now
		s.set.Tick(time.Unix(0, now))
	}
}

// planFlush plans a flush, unless one is planned.
func (s *server) planFlush() {
	if !s.flushing {
		s.flushing = true
		s.w.at(s.w.now+int64(s.w.ways.Flush), s.flush)
	}
}

// canary measures the lag, and plans the next measurement.
func (s *server) canary() {
	if s.dead {
		return
	}
	p := s.probes % len(s.waiting)
	s.probes++
	s.waiting[p] = append(s.waiting[p], schemas.Entry{
		Time: s.clock(), Kind: schemas.KindCanary, ID: s.canaries[p], Count: 1, Cost: s.lag,
	})
	s.tick()
	s.checkRecorder()
	s.planFlush()
	s.w.at(s.w.now+int64(canaryEvery), s.canary)
}

// checkRecorder ends the run if requests were dropped.
func (s *server) checkRecorder() {
	if st := s.recorder.Stats(); st.DroppedTotal() > 0 {
		s.w.fail(fmt.Errorf("a server has dropped %d requests: more than %d distinct entries in %v", st.DroppedTotal(), recorderEntries, s.w.ways.Flush))
	}
}

// canaryEvery is the time between two canaries of a server: kafkalink.DefaultCanary.
const canaryEvery = time.Second

// flush sends all that was recorded.
func (s *server) flush() {
	s.flushing = false
	requests := s.recorder.Drain(func(_ uint64, e *schemas.Entry) {
		own := *e // its strings are the Recorder's
		own.Kind, own.ID, own.Resource = s.intern(e.Kind), s.intern(e.ID), s.intern(e.Resource)
		p := s.w.partitionOf(own.Kind, own.ID)
		s.waiting[p] = append(s.waiting[p], own)
	})
	s.recorder.Acked(requests)
	for p, entries := range s.waiting {
		if len(entries) > 0 && !s.dead {
			s.send(p, inOrder(entries))
		}
		clear(entries)
		s.waiting[p] = entries[:0]
	}
}

// intern returns a text equal to s in memory of its own.
func (s *server) intern(text string) string {
	own, ok := s.ids[text]
	if !ok {
		if len(s.ids) >= maxInterned {
			clear(s.ids)
		}
		own = strings.Clone(text)
		s.ids[own] = own
	}
	return own
}

// maxInterned bounds how many texts are interned.
const maxInterned = 1 << 16

// mergeTick is the time in which a Recorder merges equal requests.
const mergeTick = int64(10 * time.Millisecond)

// inOrder sorts entries by what they say, and merges equal ones as a Recorder does. Which of them the Recorder has merged, and
// in which order it returns them, depends on the process: on the number of processors and on where stacks lie. What inOrder
// returns does not. Responses are merged only where they say when their requests arrived.
func inOrder(entries []schemas.Entry) []schemas.Entry {
	same := func(a, b *schemas.Entry) int {
		return cmp.Or(
			cmp.Compare(a.Time/mergeTick, b.Time/mergeTick), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(kindOf(a), kindOf(b)), compareHolds(a, b),
		)
	}
	slices.SortFunc(entries, func(a, b schemas.Entry) int { return cmp.Or(same(&a, &b), cmp.Compare(a.Time, b.Time)) })
	merged := entries[:0]
	for i := range entries {
		e := &entries[i]
		if n := len(merged); n > 0 && (!e.Response || e.Arrived > 0) && e.Kind != schemas.KindCanary && same(&merged[n-1], e) == 0 {
			to := &merged[n-1]
			to.Count, to.Time = to.Count+e.Count, max(to.Time, e.Time)
			to.Cost, to.Arrived, to.Declared = to.Cost+e.Cost, to.Arrived+e.Arrived, to.Declared+e.Declared
			continue
		}
		merged = append(merged, *e)
	}
	slices.SortStableFunc(merged, func(a, b schemas.Entry) int { return cmp.Compare(a.Time, b.Time) })
	return merged
}

// compareHolds orders entries of which a Recorder with Holds makes one if it is 0: responses of requests that arrived in one second. What is
// declared and what is not stay apart.
func compareHolds(a, b *schemas.Entry) int {
	if !a.Holds() && !b.Holds() {
		return 0
	}
	second := func(e *schemas.Entry) int64 { return e.Arrived / int64(e.Count) / ticksPerSecond }
	return cmp.Or(
		cmp.Compare(a.Status, b.Status), cmp.Compare(second(a), second(b)), cmp.Compare(min(a.Declared, 1), min(b.Declared, 1)),
	)
}

// ticksPerSecond is in what Entry.Arrived counts.
const ticksPerSecond = int64(time.Second) / schemas.MergeTick

// kindOf tells entries apart that are not merged although they are of the same caller and resource.
func kindOf(e *schemas.Entry) int {
	switch {
	case e.Response:
		return 3
	case e.Early:
		return 2
	case e.Blocked:
		return 1
	}
	return 0
}

// send sends entries to a partition, in as many frames as they need.
func (s *server) send(p int, entries []schemas.Entry) {
	s.w.watch.sent(entries)
	s.encoder.Reset(false)
	for i := range entries {
		err := s.encoder.Add(&entries[i])
		if errors.Is(err, schemas.ErrFrameFull) {
			s.finish(p)
			err = s.encoder.Add(&entries[i])
		}
		if err != nil {
			s.w.fail(fmt.Errorf("put an entry into a frame: %w", err))
			return
		}
	}
	s.finish(p)
}

// finish sends the frame.
func (s *server) finish(p int) {
	s.seqs[p]++
	head := schemas.Frame{
		Producer: s.producer, Seq: s.seqs[p], Flushed: s.clock(),
		Partitions: uint32(len(s.waiting)), Fingerprint: s.w.key.Fingerprint(), // ≤ MaxPartitions
	}
	value, err := s.encoder.AppendTo(nil, &head)
	s.encoder.Reset(false)
	if err != nil {
		s.w.fail(fmt.Errorf("encode a frame: %w", err))
		return
	}
	clock, at := s.clock(), s.toLog[p].arrive(s.w.now+s.w.ways.take(s.w.ways.ToLog, s.w.now))
	s.w.at(at, func() { s.w.partitions[p].append(clock, value) })
}

// receive applies decisions, and takes note of answers to the server's own canaries.
func (s *server) receive(b *published) {
	for i := range b.canaries {
		if c := &b.canaries[i]; slices.Contains(s.canaries, c.ID) {
			s.lag = s.clock() - c.Time
			s.w.watch.measured(s.w.now, s.lag)
		}
	}
	if len(b.decisions) == 0 {
		return
	}
	s.set.ApplyAt(time.Unix(0, s.clock()), b.decisions)
	s.w.watch.applied(s, b.decisions)
}
