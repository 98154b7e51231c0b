package analyzer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// memLog is a Log in memory: one cluster for as many partitions as are written to, with faults on request.
type memLog struct {
	mu    sync.Mutex
	logs  map[string][]kafkaio.Record // guarded by mu: by topic/partition
	start map[string]int64            // guarded by mu: what retention has removed
	grown chan struct{}               // guarded by mu: closed when a log grows

	// fault, if set, says what becomes of a produce: an error before or after the append. Guarded by mu.
	fault func(topic string) (before, after error)
	away  bool // guarded by mu: every call fails
	batch int  // records in a batch at most, if more than 7
}

func newMemLog() *memLog {
	return &memLog{logs: make(map[string][]kafkaio.Record), start: make(map[string]int64), grown: make(chan struct{})}
}

var errAway = fmt.Errorf("broker is away: %w", context.DeadlineExceeded)

func logName(topic string, partition int) string { return fmt.Sprintf("%s/%d", topic, partition) }

func (m *memLog) Produce(_ context.Context, topic string, partition int, msgs ...kafkaio.Message) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return 0, errAway
	}
	var before, after error
	if m.fault != nil {
		before, after = m.fault(topic)
	}
	if before != nil {
		return 0, before
	}
	name := logName(topic, partition)
	base := m.start[name] + int64(len(m.logs[name]))
	for i, msg := range msgs {
		m.logs[name] = append(m.logs[name], kafkaio.Record{Offset: base + int64(i), Time: msg.Time, Value: slices.Clone(msg.Value)})
	}
	close(m.grown)
	m.grown = make(chan struct{})
	return base, after
}

func (m *memLog) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	timeout := time.After(r.MaxWait)
	for {
		m.mu.Lock()
		b, err := m.fetch(r)
		grown := m.grown
		m.mu.Unlock()
		if err != nil || len(b.Records) > 0 {
			return b, err
		}
		select {
		case <-grown:
		case <-timeout:
			return b, nil
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
}

func (m *memLog) fetch(r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	if m.away {
		return kafkaio.Batch{}, errAway
	}
	name := logName(r.Topic, r.Partition)
	start, end := m.start[name], m.start[name]+int64(len(m.logs[name]))
	if r.Offset < start || r.Offset > end {
		return kafkaio.Batch{}, &kafkaio.RangeError{Offset: r.Offset, Start: start, End: end}
	}
	records := m.logs[name][r.Offset-start:]
	records = slices.Clone(records[:min(len(records), max(m.batch, 7))]) // small batches, so that there are several
	return kafkaio.Batch{Records: records, Next: r.Offset + int64(len(records)), HighWater: end, LogStart: start}, nil
}

func (m *memLog) Range(_ context.Context, topic string, partition int) (start, end int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return 0, 0, errAway
	}
	name := logName(topic, partition)
	return m.start[name], m.start[name] + int64(len(m.logs[name])), nil
}

// truncate makes the log forget all records before start, or all of them and its offsets too.
func (m *memLog) truncate(name string, start int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[name] = m.logs[name][start-m.start[name]:]
	m.start[name] = start
}

// cut makes the log forget all records from end on, as when a broker leads that had not got them yet.
func (m *memLog) cut(name string, end int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[name] = m.logs[name][:end-m.start[name]]
}

func (m *memLog) remake(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.logs, name)
	delete(m.start, name)
}

func (m *memLog) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// decisions returns everything in decisions/0, decoded.
func (m *memLog) decisions(t *testing.T) []pb.Record {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []pb.Record
	for _, r := range m.logs["decisions/0"] {
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
func (m *memLog) follow(t *testing.T, now int64) follower {
	t.Helper()
	records := m.decisions(t)
	f := follower{closed: make(map[string]int64)}
	mine := reader{}.mine // partition 0
	var fence schemas.Fence
	from := 0
	for _, r := range slices.Backward(records) {
		if h := r.Heartbeat; h != nil && mine(&r) {
			fence = schemas.Fence{Epoch: h.Epoch}
			from = int(h.From)
			break
		}
	}
	for _, r := range records[from:] {
		switch {
		case !mine(&r):
			f.refused++
		case r.Claim != nil:
			fence.Claim(r.Claim.Epoch)
		case r.Heartbeat != nil:
			fence.Heartbeat(r.Heartbeat.Epoch, r.Heartbeat.Seq)
		case !fence.Decision(r.Decision.Epoch, r.Decision.Seq):
			f.refused++
		default:
			f.applied++
			key := r.Decision.Rule + " " + r.Decision.Caller.String()
			f.closed[key] = r.Decision.Until
			if r.Decision.Until <= now || r.Decision.Until <= r.Decision.CloseAt {
				delete(f.closed, key)
			}
		}
	}
	return f
}

// say appends records to decisions/0, as whoever may write there.
func (m *memLog) say(t *testing.T, records ...pb.Record) {
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
		if _, err := m.Produce(t.Context(), "decisions", 0, kafkaio.Message{Value: value}); err != nil {
			t.Fatal(err)
		}
	}
}

// producer sends frames to requests/0.
type producer struct {
	t   *testing.T
	log *memLog
	id  schemas.ProducerID
	seq uint64
}

// send appends a frame of one request of each given key at a time.
func (p *producer) send(at time.Time, keys ...string) {
	p.t.Helper()
	p.seq++
	p.frame(at, p.seq, keys...)
}

func (p *producer) frame(at time.Time, seq uint64, keys ...string) {
	p.t.Helper()
	f := schemas.Frame{Producer: p.id, Seq: seq, Flushed: at.UnixNano(), Partitions: 1, Fingerprint: schemas.DefaultPartitionKey().Fingerprint()}
	for _, k := range keys {
		kind := "key"
		if k == "canary" {
			kind = schemas.KindCanary
		}
		f.Entries = append(f.Entries, schemas.Entry{Time: at.UnixNano(), Kind: kind, ID: k, Count: 1})
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		p.t.Fatal(err)
	}
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
	log   *memLog
	prod  *producer
	conf  OwnerConfig
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
	log := newMemLog()
	w := &world{t: t, log: log, prod: &producer{t: t, log: log, id: schemas.ProducerID{1}}}
	w.conf = OwnerConfig{
		Requests: "requests", Decisions: "decisions", State: "state", Dir: t.TempDir() + "/0", Rules: mustRules(t, threeAMinute), Name: "test",
	}
	w.conf.Store.NoSync = true
	return w
}

// start runs an owner until crash or end.
func (w *world) start() {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	w.owner, w.stop, w.done = NewOwner(w.log, w.conf), stop, make(chan error, 1)
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
	f.Rows(f.LogTime(), func(r Row) bool {
		if r.Rule.Name == rule {
			held[r.ID] = r.Total
		}
		return true
	})
	return held
}

var errInjected = errors.New("injected")
