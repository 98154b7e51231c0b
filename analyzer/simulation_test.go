package analyzer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/audit"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// TestSimulation lives through an hour of virtual time for each seed: servers that send and send again, two analyzers of
// which one owns the partition, and a fault every half minute. Whatever happened, at its end each request counts once, and
// nobody was ever closed who had not reached the limit. Without FLOODGATE_LONG=1 it is a quarter of an hour of one seed.
//
//	FLOODGATE_SIMULATIONS=1000 go test -run TestSimulation -timeout 3h ./analyzer   a thousand seeds
//	FLOODGATE_SEED=17 go test -run TestSimulation ./analyzer                        one that failed, again
func TestSimulation(t *testing.T) {
	t.Parallel()
	runs := 1
	if testenv.IsLong() {
		runs = 3
	}
	simulate(t, runs, func(*simulation) {})
}

// simulate runs so many simulations, or those that the environment asks for.
func simulate(t *testing.T, runs int, prepare func(s *simulation)) {
	t.Helper()
	first, length := rand.Uint64(), 15*time.Minute
	if testenv.IsLong() {
		length = time.Hour
	}
	if text := os.Getenv("FLOODGATE_SIMULATIONS"); text != "" {
		runs, length = mustAtoi(t, text), time.Hour
	}
	if text := os.Getenv("FLOODGATE_SEED"); text != "" {
		first, runs = uint64(mustAtoi(t, text)), 1
	}
	seen := make(map[string]int)
	for i := range runs {
		seed := (first + uint64(i)) & (1<<62 - 1)
		if !t.Run(fmt.Sprintf("FLOODGATE_SEED=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, seed, seen)
				prepare(s)
				s.run(length)
			})
		}) {
			t.FailNow()
		}
	}
	t.Logf("%d times %v of virtual time, faults: %v", runs, length, seen)
}

func mustAtoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const simulationRules = `
version: 1
rules:
  - {name: year, callers: key, limit: 1000000000, window: year}
  - {name: minute, callers: key, limit: 20, window: 1m, algorithm: fixed}
  - {name: spent, callers: key, measure: cost, limit: 1000000000, window: year, charge: arrival, hold: {estimate: 3, longest: 2m}}
  - {name: tokens, callers: key, measure: cost, limit: 100, window: 1m, algorithm: fixed, charge: arrival, hold: {estimate: 3, longest: 2m}}
  - {name: flights, callers: key, measure: in_flight, limit: 15, hold: {longest: 1m}}
  - {name: shared, callers: key, capacity: 30, window: 10s, protect: 10%}
`

// simulation is a log, servers and analyzers, and the truth about them.
type simulation struct {
	t         *testing.T
	rnd       *rand.Rand
	log       *testLog
	dir       string
	servers   [3]server
	analyzers [2]*mortal
	owner     int         // index of the analyzer that the group has assigned
	lossy     atomic.Bool // answers of the broker are lost
	away      atomic.Bool // the broker
	mute      atomic.Bool // the control topic is away
	predict   rules.Predict
	full      atomic.Bool // disks
	decides   *decider    // a person who decides by hand, or nil

	trimmed []kafkaio.Record // requests that the log does not hold any more
	truth   map[string]int64
	minutes map[callerMinute]int64
	spent   map[string]int64
	costs   map[callerMinute]int64 // of requests that arrived then
	seen    map[string]int         // faults by name
}

type callerMinute struct {
	id     string
	minute int64
}

// server sends frames in order, each again until it is acknowledged.
type server struct {
	seq     uint64
	waiting []kafkaio.Message
	running []schemas.Entry // responses that are to come
}

func newSimulation(t *testing.T, seed uint64, seen map[string]int) *simulation {
	t.Helper()
	s := &simulation{
		t: t, rnd: rand.New(rand.NewPCG(seed, 99)), log: newTestLog(), dir: t.TempDir(), seen: seen,
		truth: make(map[string]int64), minutes: make(map[callerMinute]int64),
		spent: make(map[string]int64), costs: make(map[callerMinute]int64),
	}
	ambiguous := rand.New(rand.NewPCG(seed, 98))
	s.log.SetFault(func(c kafkaiotest.Call) kafkaiotest.Fault {
		switch {
		case s.away.Load(), s.mute.Load() && c.Topic == "control":
			return kafkaiotest.Down()
		case c.Op != kafkaiotest.OpProduce:
			return kafkaiotest.Fault{}
		}
		switch n := ambiguous.IntN(100); {
		case !s.lossy.Load(), n >= 10:
			return kafkaiotest.Fault{}
		case n < 5:
			return kafkaiotest.LostRequest()
		}
		return kafkaiotest.LostAnswer()
	})
	for i := range s.analyzers {
		s.analyzers[i] = &mortal{s: s, dir: filepath.Join(s.dir, fmt.Sprint(i), "0")}
	}
	return s
}

// mortal is an analyzer's owner of the partition, that can die at any time: from then on nothing that it does has an
// effect.
type mortal struct {
	s    *simulation
	dir  string
	life *life // nil while none runs
}

type life struct {
	*testLog

	dead atomic.Bool
	stop context.CancelFunc
	done chan error
}

var errDead = errors.New("killed")

func (l *life) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (int64, error) {
	if l.dead.Load() {
		return 0, errDead
	}
	return l.testLog.Produce(ctx, topic, partition, msgs...)
}

// mortalStore is the store of one who may be dead, or whose disk may be full.
type mortalStore struct {
	rowStore

	dead, full *atomic.Bool
}

func (m mortalStore) Commit(c store.Checkpoint, changes []store.Change) error {
	switch {
	case m.dead.Load():
		return errDead
	case m.full.Load():
		return store.ErrNoSpace
	}
	return m.rowStore.Commit(c, changes)
}

func (m *mortal) start() {
	ctx, stop := context.WithCancel(m.s.t.Context())
	l := &life{testLog: m.s.log, stop: stop, done: make(chan error, 1)}
	o := NewOwner(l, OwnerConfig{
		Requests: "requests", Decisions: "decisions", State: "state", Control: "control", Events: "events", Dir: m.dir, Rules: mustRules(m.s.t, simulationRules),
		Name: m.dir, Checkpoint: 2 * time.Second, Snapshot: 2 * time.Minute, Store: store.Options{NoSync: true},
		Fold: fold.Options{Predict: m.s.predict},
	})
	o.ledger.openStore = func(dir string, options store.Options) (rowStore, error) {
		if m.s.full.Load() {
			return nil, store.ErrNoSpace
		}
		s, err := openStore(dir, options)
		return mortalStore{s, &l.dead, &m.s.full}, err
	}
	m.life = l
	go func() { l.done <- o.Run(ctx) }()
}

// reap takes note of an owner that has ended by itself, which only one may do that was replaced, or that may have a store
// again, and is then started anew.
func (m *mortal) reap() {
	if m.life == nil {
		return
	}
	select {
	case err := <-m.life.done:
		if !errors.Is(err, errFenced) && !errors.Is(err, errRoom) && !errors.Is(err, errReplaced) {
			m.s.t.Fatalf("%s ended: %v", m.dir, err)
		}
		m.life.stop()
		m.life = nil
		if errors.Is(err, errRoom) {
			m.start()
		}
	default:
	}
}

// end stops the owner as SIGTERM would, or kills it.
func (m *mortal) end(kill bool) {
	m.reap()
	if m.life == nil {
		return
	}
	m.life.dead.Store(kill)
	m.life.stop()
	if err := <-m.life.done; err != nil && !kill && !errors.Is(err, errFenced) && !errors.Is(err, errRoom) && !errors.Is(err, errReplaced) {
		m.s.t.Fatalf("%s stopped: %v", m.dir, err)
	}
	m.life = nil
}

// run is the hour.
func (s *simulation) run(length time.Duration) {
	s.t.Helper()
	time.Sleep(time.Minute) // into the year, which is the clock's first
	s.analyzers[0].start()
	for end := time.Now().Add(length); time.Now().Before(end); {
		s.sleep(time.Duration(s.rnd.Int64N(int64(4 * time.Second))))
		if s.rnd.IntN(15) == 0 {
			s.fault()
		}
	}
	s.lossy.Store(false)
	s.sleep(2 * time.Minute)
	time.Sleep(10 * time.Second) // the last frames too
	for _, m := range s.analyzers {
		m.end(false)
	}
	s.check()
}

// sleep lets time pass while servers serve and owners that failed start again.
func (s *simulation) sleep(d time.Duration) {
	s.t.Helper()
	for d > 0 {
		step := min(d, time.Second)
		time.Sleep(step)
		d -= step
		s.serve()
		for i, m := range s.analyzers {
			m.reap()
			if m.life == nil && i == s.owner {
				m.start()
			}
		}
	}
}

// serve sends what the servers have served, and what they could not send before.
func (s *simulation) serve() {
	if s.decides != nil {
		s.decides.serve(s)
	}
	for i := range s.servers {
		sv := &s.servers[i]
		if s.rnd.IntN(3) == 0 {
			sv.waiting = append(sv.waiting, s.frame(i))
		}
		for len(sv.waiting) > 0 {
			if _, err := s.log.Produce(s.t.Context(), "requests", 0, sv.waiting[0]); err != nil {
				break // it may have been appended: the same bytes again, later
			}
			sv.waiting = sv.waiting[1:]
		}
	}
}

// frame returns a server's next frame, and notes in the truth what it says.
func (s *simulation) frame(server int) kafkaio.Message {
	now := time.Now().UnixNano()
	s.servers[server].seq++
	fr := foldtest.Frame(s.servers[server].seq, now)
	fr.Producer = foldtest.Producer(server + 1)
	for range 1 + s.rnd.IntN(6) {
		e := schemas.Entry{
			Time: now - s.rnd.Int64N(int64(2*time.Second)), Kind: "key",
			ID: fmt.Sprint("c", int(8*s.rnd.Float64()*s.rnd.Float64()*s.rnd.Float64())), Count: 1 + s.rnd.Uint32N(3),
		}
		switch {
		case s.rnd.IntN(60) == 0:
			e.ID, e.Count = "calm", 1
		case s.predict != rules.PredictOff && s.rnd.IntN(6) == 0:
			e.Blocked, e.Early = true, true // as if a gate had believed a decision that is not in this log
		}
		if !e.Blocked {
			s.truth[e.ID] += int64(e.Count)
			s.begin(&s.servers[server], &e)
		}
		fr.Entries = append(fr.Entries, e)
		s.minutes[callerMinute{e.ID, e.Time / int64(time.Minute)}] += int64(e.Count)
	}
	fr.Entries = append(fr.Entries, s.ended(&s.servers[server], now)...)
	if s.predict != rules.PredictOff {
		fr.Entries = append(fr.Entries, s.canary(now))
	}
	return kafkaio.Message{Time: now, Value: foldtest.Encode(s.t, fr)}
}

// fault does one thing to the world, and if it lasts waits for its end.
func (s *simulation) fault() {
	s.t.Helper()
	own := s.analyzers[s.owner]
	other := s.analyzers[1-s.owner]
	last := time.Duration(s.rnd.Int64N(int64(20 * time.Second)))
	names := []string{"kill", "restart", "wipe", "hand-over", "zombie", "broker away", "ambiguous", "disk full", "retention", "kill while restoring", "control topic away"}
	name := names[s.rnd.IntN(len(names))]
	s.seen[name]++
	switch name {
	case "kill":
		own.end(true)
	case "restart":
		own.end(false)
	case "wipe":
		own.end(s.rnd.IntN(2) == 0)
		if err := os.RemoveAll(own.dir); err != nil {
			s.t.Fatal(err)
		}
	case "hand-over":
		own.end(s.rnd.IntN(2) == 0)
		s.owner = 1 - s.owner
	case "zombie": // it goes on for as long as nobody tells it
		other.end(true)
		s.owner = 1 - s.owner
	case "broker away":
		s.away.Store(true)
		s.sleep(3 * last)
		s.away.Store(false)
	case "control topic away": // and whoever owns the partition then may die
		s.mute.Store(true)
		s.sleep(last)
		own.end(s.rnd.IntN(2) == 0)
		s.sleep(2 * last)
		s.mute.Store(false)
	case "ambiguous":
		s.lossy.Store(true)
		s.sleep(3 * last)
		s.lossy.Store(false)
	case "disk full":
		s.full.Store(true)
		s.sleep(last)
		s.full.Store(false)
	case "retention":
		s.retain(15 * time.Minute)
	case "kill while restoring":
		for range 3 {
			own.end(true)
			own.start()
			time.Sleep(time.Duration(s.rnd.Int64N(int64(100 * time.Millisecond))))
		}
		own.end(true)
	}
}

// retain drops the requests that are older.
func (s *simulation) retain(age time.Duration) {
	oldest := time.Now().Add(-age).UnixNano()
	keep, _ := s.log.Ends("requests", 0)
	for _, r := range s.log.Records("requests", 0) {
		if r.Time >= oldest {
			break
		}
		keep++
		s.trimmed = append(s.trimmed, r)
	}
	s.log.Trim("requests", 0, keep)
}

// check compares the store of the last owner, and all that gates were ever told, with the truth.
func (s *simulation) check() {
	s.t.Helper()
	w := &world{t: s.t, log: s.log}
	w.conf = OwnerConfig{Dir: s.analyzers[s.owner].dir, Rules: mustRules(s.t, simulationRules)}
	for rule, want := range map[string]map[string]int64{"year": s.truth, "spent": s.spent} {
		got := w.counts(rule)
		maps.DeleteFunc(got, func(_ string, n int64) bool { return n == 0 }) // a caller of whom no response has come: it holds, and has cost nothing
		if !maps.Equal(got, want) {
			s.t.Errorf("%s: got %v, want %v", rule, got, want)
		}
	}
	var fence schemas.Fence
	if s.predict != rules.PredictOff || s.decides != nil {
		s.audit()
	}
	if s.decides != nil {
		s.decides.check(s)
	}
	if s.decides == nil {
		s.checkEvents()
		s.checkDigest()
	}
	closes := 0
	for _, r := range s.log.decisions(s.t) {
		switch d := r.Decision; {
		case r.Claim != nil:
			fence.Claim(r.Claim.Epoch)
		case r.Heartbeat != nil:
			fence.Heartbeat(r.Heartbeat.Epoch, r.Heartbeat.Seq)
		case !fence.Decision(d.Epoch, d.Seq) || d.Until <= d.CloseAt:
		case s.predicted(d) && d.Early:
		case s.decides != nil && s.decides.allows(s, d):
			closes++
		case s.follows(d):
			s.seen["close by "+d.Rule]++
		default:
			closes++
			if n := s.minutes[callerMinute{d.Caller.ID, d.CloseAt / int64(time.Minute)}]; d.Rule != "minute" || n < 20 {
				s.t.Errorf("closed an innocent: %+v, who made %d requests in that minute", d, n)
			}
		}
	}
	if closes == 0 || len(s.truth) < 5 {
		s.t.Errorf("got %d closes of %d callers: an hour that shows nothing", closes, len(s.truth))
	}
}

// audit wants the last owner's store to be what the log says.
func (s *simulation) audit() {
	s.t.Helper()
	r, err := audit.Run(s.t.Context(), s.log, audit.Config{
		Requests: "requests", Control: "control", Dir: s.analyzers[s.owner].dir, Rules: mustRules(s.t, simulationRules), Store: store.Options{NoSync: true},
	})
	if err != nil || !r.Exact() || r.Approximate() {
		s.t.Errorf("audit: got %+v, %v, want it exact", r, err)
	}
}
