package analyzer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/decisions"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

func TestMain(m *testing.M) {
	testenv.LazyGC()
	m.Run()
}

// testLog is a Kafka in memory with the topics of the tests. It fetches small batches, so that there are several.
type testLog struct{ *kafkaiotest.Kafka }

func newTestLog() *testLog {
	k := kafkaiotest.New()
	k.Create(1, "requests", "decisions", "state", "rejects", "control", "events")
	k.SetMaxRecords(7)
	return &testLog{k}
}

// produces makes a fault of SetFault that concerns the produces to one topic. F is asked for each of them.
func produces(topic string, f func() kafkaiotest.Fault) func(kafkaiotest.Call) kafkaiotest.Fault {
	return func(c kafkaiotest.Call) kafkaiotest.Fault {
		if c.Op != kafkaiotest.OpProduce || c.Topic != topic {
			return kafkaiotest.Fault{}
		}
		return f()
	}
}

// decisions returns everything in decisions/0, decoded.
func (m *testLog) decisions(t *testing.T) []pb.Record {
	t.Helper()
	var list []pb.Record
	for _, r := range m.Records("decisions", 0) {
		d, err := pb.Decode(r.Value)
		if err != nil {
			t.Fatalf("decisions offset %d: %v", r.Offset, err)
		}
		list = append(list, d)
	}
	return list
}

// follower is a gate as far as decisions go: it starts where the newest heartbeat says, fences, and remembers who is
// closed.
type follower struct {
	closed  map[string]int64 // rule and caller → until
	refused int
	applied int
}

// follow reads decisions/0 as a gate that starts now would, and returns what it then believes at the given time.
func (m *testLog) follow(t *testing.T, now int64) follower {
	t.Helper()
	conf := OwnerConfig{Decisions: "decisions"}.withDefaults()
	log := newDecisionsReader(m, &conf, 0)
	place, err := decisions.Find(t.Context(), log, 0, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f := follower{closed: make(map[string]int64)}
	var judge decisions.Follower
	judge.Start(place)
	log.MoveTo(place.Read)
	err = log.Scan(t.Context(), place.End, func(b *kafkaio.Batch) error {
		for i := range b.Records {
			r, err := judge.Take(&b.Records[i], time.Now().UnixNano())
			switch d := r.Decision; {
			case errors.Is(err, decisions.ErrMoved):
				return err
			case err != nil:
				f.refused++
			case d != nil:
				f.applied++
				key := d.Rule + " " + d.Caller.String()
				f.closed[key] = d.Until
				if d.Until <= now || d.Until <= d.CloseAt {
					delete(f.closed, key)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// say appends records to decisions/0, as whoever may write there.
func (m *testLog) say(t *testing.T, records ...pb.Record) {
	t.Helper()
	m.sayAt(t, 0, records...)
}

// sayAt is say with the time of the records, in Unix nanoseconds.
func (m *testLog) sayAt(t *testing.T, at int64, records ...pb.Record) {
	t.Helper()
	for _, r := range records {
		var value []byte
		var err error
		switch {
		case r.Claim != nil:
			value, err = pb.AppendClaim(nil, r.Claim)
		case r.Heartbeat != nil:
			value, err = pb.AppendHeartbeat(nil, r.Heartbeat)
		default:
			value, err = pb.AppendDecision(nil, r.Decision)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Produce(t.Context(), "decisions", 0, kafkaio.Message{Time: at, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
}

// producer sends frames to requests/0.
type producer struct {
	t   *testing.T
	log *testLog
	id  schemas.ProducerID
	seq uint64
	lag time.Duration // that its canaries say; 0: they do not
}

// send appends a frame of one request of each given key at a time.
func (p *producer) send(at time.Time, keys ...string) {
	p.t.Helper()
	p.seq++
	p.frame(at, p.seq, keys...)
}

func (p *producer) frame(at time.Time, seq uint64, keys ...string) {
	p.t.Helper()
	f := foldtest.KeysFrame(p.id, seq, at, keys...)
	for i := range f.Entries {
		if f.Entries[i].Kind == schemas.KindCanary {
			f.Entries[i].Cost = int64(p.lag)
		}
	}
	value := foldtest.Encode(p.t, f)
	if _, err := p.log.Produce(p.t.Context(), "requests", 0, kafkaio.Message{Time: at.UnixNano(), Value: value}); err != nil {
		p.t.Fatal(err)
	}
}

func mustRules(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// world is a log, a directory, and one owner at a time.
type world struct {
	t     *testing.T
	log   *testLog
	prod  *producer
	conf  OwnerConfig
	on    kafkaio.Log  // what its owners see of the log; nil: all
	setup func(*Owner) // before it runs
	owner *Owner
	stop  context.CancelFunc
	done  chan error
}

const threeAMinute = `
version: 1
rules:
  - {name: r, callers: key, limit: 3, window: 1m, algorithm: fixed, close_for: 30s}
`

func newWorld(t *testing.T) *world {
	t.Helper()
	log := newTestLog()
	w := &world{t: t, log: log, prod: &producer{t: t, log: log, id: schemas.ProducerID{1}}}
	w.conf = OwnerConfig{
		Requests: "requests", Decisions: "decisions", State: "state", Control: "control", Events: "events", Dir: t.TempDir() + "/0", Rules: mustRules(t, threeAMinute), Name: "test",
	}
	w.conf.Store.NoSync = true
	return w
}

// start runs an owner until crash or end.
func (w *world) start() {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	log := w.on
	if log == nil {
		log = w.log
	}
	w.owner, w.stop, w.done = NewOwner(log, w.conf), stop, make(chan error, 1)
	o, done := w.owner, w.done
	if w.setup != nil {
		w.setup(o)
	}
	go func() { done <- o.Run(ctx) }()
}

// end stops the owner as SIGTERM would.
func (w *world) end() {
	w.t.Helper()
	w.stop()
	if err := <-w.done; err != nil {
		w.t.Fatalf("owner: %v", err)
	}
}

// epoch returns the epoch that the owner has claimed.
func (w *world) epoch() uint64 { return w.owner.Stats().Publish.Epoch }

// counts returns what the store holds of a rule, by caller, and checks the store.
func (w *world) counts(rule string) map[string]int64 {
	w.t.Helper()
	f, _, err := Inspect(w.conf.Dir, w.conf.Rules, w.conf.Fold)
	if err != nil {
		w.t.Fatal(err)
	}
	held := make(map[string]int64)
	f.View().Rows(f.LogTime(), func(r fold.Row) bool {
		if r.Rule.Name == rule {
			held[r.ID] = r.Total
		}
		return true
	})
	return held
}

var errInjected = errors.New("injected")
