package audit

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

// world is a log, a store, and one owner at a time that counts the one into the other.
type world struct {
	t     *testing.T
	log   *kafkaiotest.Kafka
	prod  *producer
	conf  analyzer.OwnerConfig
	owner *analyzer.Owner
	stop  context.CancelFunc
	done  chan error
}

// producer sends frames to requests/0.
type producer struct {
	t   *testing.T
	log *kafkaiotest.Kafka
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
	f := foldtest.KeysFrame(p.id, seq, at, keys...)
	value := foldtest.Encode(p.t, f)
	p.log.Append("requests", 0, kafkaio.Message{Time: at.UnixNano(), Value: value})
}

func rulesOf(t *testing.T, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const threeAMinute = `
version: 1
rules:
  - {name: r, callers: key, limit: 3, window: 1m, algorithm: fixed, close_for: 30s}
`

const auditRules = `
version: 1
rules:
  - {name: r, callers: key, limit: 3, window: 1m, algorithm: fixed, close_for: 30s, escalate: {factor: 2, max: 1h, forget: 24h}}
  - {name: day, callers: key, limit: 1000, window: day}
  - {name: slide, callers: key, limit: 50, window: 10m}
  - {name: log, callers: key, limit: 20, window: 10m, algorithm: log}
  - {name: bucket, callers: key, limit: 100, window: 1m, algorithm: gcra}
`

func newWorld(t *testing.T) *world {
	t.Helper()
	log := kafkaiotest.New()
	log.Create(1, "requests", "decisions", "state", "control")
	log.SetMaxRecords(7) // so that there are several batches
	w := &world{t: t, log: log, prod: &producer{t: t, log: log, id: schemas.ProducerID{1}}}
	w.conf = analyzer.OwnerConfig{
		Requests: "requests", Decisions: "decisions", State: "state", Control: "control", Dir: t.TempDir() + "/0", Rules: rulesOf(t, threeAMinute), Name: "test",
	}
	w.conf.Store.NoSync = true
	return w
}

// start runs an owner until end.
func (w *world) start() {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	w.owner, w.stop, w.done = analyzer.NewOwner(w.log, w.conf), stop, make(chan error, 1)
	o, done := w.owner, w.done
	go func() { done <- o.Run(ctx) }()
}

// decide writes what a person decides.
func (w *world) decide(c schemas.Control) {
	w.t.Helper()
	if _, err := analyzer.NewControlWriter(w.log, "control", nil).Append(w.t.Context(), &c); err != nil {
		w.t.Fatal(err)
	}
}

// end stops the owner as SIGTERM would.
func (w *world) end() {
	w.t.Helper()
	w.stop()
	if err := <-w.done; err != nil {
		w.t.Fatalf("owner: %v", err)
	}
}

// atRest runs an owner over what the log holds, and stops it.
func (w *world) atRest() {
	w.t.Helper()
	w.start()
	time.Sleep(2 * time.Second)
	w.end()
}

func newAuditWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.conf.Rules = rulesOf(t, auditRules)
	return w
}

// audit audits the store that the owner left.
func (w *world) audit() (Report, error) {
	w.t.Helper()
	return Run(w.t.Context(), w.log, Config{
		Fold: w.conf.Fold, Requests: "requests", Control: w.conf.Control, Dir: w.conf.Dir, Rules: w.conf.Rules, Store: w.conf.Store,
	})
}

func (w *world) mustAudit() Report {
	w.t.Helper()
	r, err := w.audit()
	if err != nil {
		w.t.Fatalf("audit: %v", err)
	}
	return r
}

// wantExact audits and wants nothing found, and something compared.
func (w *world) wantExact() Report {
	w.t.Helper()
	r := w.mustAudit()
	if !r.Exact() || len(r.Unaudited) > 0 || r.Agreed == 0 {
		w.t.Errorf("audit: got %d rows agreed, differences %+v, unaudited %+v, damage %v; want only agreement", r.Agreed, r.Differences, r.Unaudited, r.Damage)
	}
	return r
}

// kill stops the owner and puts the store back to what it was at an earlier checkpoint: the log then holds more.
func (w *world) kill() {
	w.t.Helper()
	time.Sleep(time.Second)
	aside := w.conf.Dir + ".killed"
	if err := os.CopyFS(aside, os.DirFS(w.conf.Dir)); err != nil {
		w.t.Fatal(err)
	}
	w.prod.send(time.Now(), "c1")
	w.end()
	if err := errors.Join(os.RemoveAll(w.conf.Dir), os.Rename(aside, w.conf.Dir)); err != nil {
		w.t.Fatal(err)
	}
}
