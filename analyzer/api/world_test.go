package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/api/series"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/lister"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// world is a cluster in memory: partitions, what their owners would say, a control topic, and analyzers with an API.
type world struct {
	t          *testing.T
	partitions int
	key        schemas.PartitionKey
	set        *rules.Set
	board      *fakeBoard
	topic      *fakeTopic
	log        *lockedBuffer
	analyzers  []*fakeAnalyzer
	refuse     bool   // owners refuse records
	events     Events // nil: there is none
	series     Series
}

const worldRules = `
version: 1
rules:
  - {name: per-key, callers: "key", limit: 10, window: 1m}
  - {name: per-ip, callers: "ip", limit: 100, window: 1m}
  - {name: slow, callers: "key", limit: 1000, window: 1h}
`

func newWorld(t *testing.T) *world {
	t.Helper()
	set, err := rules.Parse("rules", []byte(worldRules))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, partitions: 4, key: schemas.DefaultPartitionKey(), set: set,
		board: &fakeBoard{beats: make(map[int]schemas.Heartbeat), wake: make(chan struct{}), heard: make(map[int]bool)}, log: new(lockedBuffer),
		series: series.New(),
	}
	w.topic = &fakeTopic{ready: true, after: func(offset int64) {
		for _, a := range w.analyzers {
			a.apply(w.topic.records[offset])
		}
		w.board.applied(offset + 1)
	}}
	return w
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// fakeAnalyzer owns some partitions.
type fakeAnalyzer struct {
	world *world
	mu    sync.Mutex
	folds map[int]*fold.Fold
	next  map[int]int64
	fails error // of each Ask
	away  *kafkaio.Outage
}

func (w *world) analyzer(owns ...int) *fakeAnalyzer {
	w.t.Helper()
	a := &fakeAnalyzer{world: w, folds: make(map[int]*fold.Fold), next: make(map[int]int64)}
	for _, p := range owns {
		a.folds[p] = fold.New(w.set, fold.Options{Key: w.key, Partition: p, Partitions: w.partitions, MaxRows: 1000, Busiest: true})
	}
	w.analyzers = append(w.analyzers, a)
	return a
}

// apply is what an owner does with a record.
func (a *fakeAnalyzer) apply(r Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, f := range a.folds {
		if !a.world.refuse && (r.Global() || schemas.Partition(a.world.key.Hash(r.Caller.Kind, r.Caller.ID), a.world.partitions) == p) {
			if err := f.Control(&r.Control, 0, r.Offset); err != nil {
				a.world.t.Errorf("record %d: %v", r.Offset, err)
			}
		}
	}
}

func (a *fakeAnalyzer) Ask(_ context.Context, partition int, f func(*fold.Fold, analyzer.At)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails != nil {
		return a.fails
	}
	of := a.folds[partition]
	if of == nil {
		return &analyzer.NotOwnerError{Partition: partition}
	}
	f(of, analyzer.At{Partition: partition, Epoch: 7, Offset: a.next[partition], LogTime: of.LogTime()})
	return nil
}

func (a *fakeAnalyzer) Stats() (list []analyzer.OwnerStats) {
	for p := range a.world.partitions {
		if a.folds[p] != nil {
			list = append(list, analyzer.OwnerStats{Partition: p, State: analyzer.Running})
		}
	}
	return list
}

func (a *fakeAnalyzer) RulesStatus(time.Time) analyzer.RulesStatus {
	return analyzer.RulesStatus{Set: a.world.set}
}

func (a *fakeAnalyzer) Outage(time.Time) (kafkaio.Outage, bool) {
	if a.away == nil {
		return kafkaio.Outage{}, false
	}
	return *a.away, true
}

// fakeBoard is a Board whose contents a test sets.
type fakeBoard struct {
	mu        sync.Mutex
	decisions []Numbered
	beats     map[int]schemas.Heartbeat
	heard     map[int]bool
	changes   []Event
	wake      chan struct{}
	subs      int
}

func (b *fakeBoard) changed() {
	close(b.wake)
	b.wake = make(chan struct{})
}

// beat makes a partition's newest heartbeat.
func (b *fakeBoard) beat(p int, api string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.beats[p]
	h.Partition, h.Epoch, h.API, h.RulesID, h.Watermark = int32(p), 7, api, 1, 42
	h.Seq++
	h.Time = time.Now().UnixNano()
	b.beats[p], b.heard[p] = h, true
	b.changed()
}

func (b *fakeBoard) silence(p int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard[p] = false
}

// applied makes all heartbeats say that owners have applied the records before an offset.
func (b *fakeBoard) applied(next int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, h := range b.beats {
		h.Control = next
		b.beats[p] = h
	}
	b.changed()
}

// close adds a decision that is in force.
func (b *fakeBoard) close(d schemas.Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := uint64(len(b.changes) + 1)
	b.decisions = append(b.decisions, Numbered{n, d})
	b.changes = append(b.changes, Event{Kind: "closed", Number: n, At: time.Unix(0, d.CloseAt), Decision: d})
	b.changed()
}

func (b *fakeBoard) Of(c schemas.Caller) (ds []schemas.Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.decisions {
		if d.Decision.Caller == c {
			ds = append(ds, d.Decision)
		}
	}
	return ds
}

func (b *fakeBoard) After(number uint64, limit int) []Numbered {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, _ := slices.BinarySearchFunc(b.decisions, number+1, func(d Numbered, n uint64) int { return int(d.Number) - int(n) })
	return slices.Clone(b.decisions[i:min(len(b.decisions), i+limit)])
}

func (b *fakeBoard) Heartbeat(p int) (schemas.Heartbeat, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.beats[p]
	return h, ok
}

func (b *fakeBoard) AwaitHeartbeat(ctx context.Context, p int, wanted func(*schemas.Heartbeat) bool) (schemas.Heartbeat, error) {
	for {
		b.mu.Lock()
		h, wake := b.beats[p], b.wake
		b.mu.Unlock()
		if wanted(&h) {
			return h, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return h, ctx.Err()
		}
	}
}

func (b *fakeBoard) Heard(p int, _ time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard[p]
}

func (b *fakeBoard) Status() BoardStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BoardStatus{Ready: true, Decisions: len(b.decisions)}
}

func (b *fakeBoard) Subscribe(after uint64) (Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs++
	return &fakeSubscription{board: b, next: after, began: after > 0}, nil
}

// fakeSubscription gives all changes from the start.
type fakeSubscription struct {
	board *fakeBoard
	next  uint64
	began bool
}

func (s *fakeSubscription) Next(ctx context.Context) (Event, error) {
	for {
		s.board.mu.Lock()
		wake := s.board.wake
		if n := len(s.board.changes); !s.began {
			s.began, s.next = true, uint64(n)
			s.board.mu.Unlock()
			return Event{Kind: "current", Number: uint64(n)}, nil
		}
		if s.next < uint64(len(s.board.changes)) {
			e := s.board.changes[s.next]
			s.next++
			s.board.mu.Unlock()
			return e, nil
		}
		s.board.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

func (s *fakeSubscription) Close() {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	s.board.subs--
}

// fakeTopic is a control topic, and who writes and follows it.
type fakeTopic struct {
	mu        sync.Mutex
	records   []Record
	ready     bool
	fails     error
	textFails error              // of Text
	after     func(offset int64) // what follows from a record
	entered   chan struct{}      // not nil: each Append says here that it began, and waits for goOn
	goOn      chan struct{}
	lags      atomic.Bool // identity follows the topic does not get on
}

func (f *fakeTopic) Append(_ context.Context, c *schemas.Control) (int64, error) {
	if f.entered != nil {
		f.entered <- struct{}{}
		<-f.goOn
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		return 0, f.fails
	}
	offset := int64(len(f.records))
	f.records = append(f.records, Record{*c, offset})
	if f.after != nil {
		f.after(offset)
	}
	return offset, nil
}

func (f *fakeTopic) Ready() bool { return f.ready }
func (f *fakeTopic) Next() int64 { return int64(f.len()) }

func (f *fakeTopic) Await(ctx context.Context, offset int64) error {
	if f.Next() > offset && !f.lags.Load() {
		return nil
	}
	<-ctx.Done() // in tests, nothing comes later
	return ctx.Err()
}

func (f *fakeTopic) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.records)
}

func (f *fakeTopic) find(is func(*Record) bool) (Record, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.records {
		if is(&f.records[i]) {
			return f.records[i], true
		}
	}
	return Record{}, false
}

func (f *fakeTopic) Find(id schemas.ControlID) (Record, bool) {
	return f.find(func(r *Record) bool { return r.ID == id })
}

func (f *fakeTopic) Undone(id schemas.ControlID) (Record, bool) {
	return f.find(func(r *Record) bool { return r.Action == schemas.ControlUndo && r.Target == id })
}

func (f *fakeTopic) Before(offset int64) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		f.mu.Lock()
		records := slices.Clone(f.records)
		f.mu.Unlock()
		for _, r := range slices.Backward(records) {
			if r.Offset < offset && !yield(r) {
				return
			}
		}
	}
}

func (f *fakeTopic) Text(_ context.Context, offset int64) ([]byte, error) {
	f.mu.Lock()
	err := f.textFails
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r, ok := f.find(func(r *Record) bool { return r.Offset == offset })
	if !ok {
		return nil, errors.New("no such record")
	}
	return r.Text, nil
}

// node is an analyzer with an API that listens.
type node struct {
	t      *testing.T
	world  *world
	server *Server
	url    string
	token  string // that requests carry; empty: none
}

// node starts an API for an analyzer. It is stopped when the test ends.
func (w *world) node(a *fakeAnalyzer, change func(*Config)) *node {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	c := Config{Address: l.Addr().String(), Logger: slog.New(slog.NewTextHandler(w.log, nil)), Acknowledge: time.Millisecond}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	if a != nil {
		lists := lister.New(a)
		w.t.Cleanup(lists.Close)
		s.Attach(&Backend{
			Lists: lists, Series: w.series, Analyzer: a, Board: w.board, Writer: w.topic, Records: w.topic, Events: w.events,
			Partitions: w.partitions, Key: w.key,
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return s.Serve(ctx, l) })
	w.t.Cleanup(func() {
		cancel()
		if err := running.Wait(); err != nil {
			w.t.Errorf("Serve: got %v, want nil", err)
		}
	})
	scheme := "http://"
	if c.CertFile != "" {
		scheme = "https://"
	}
	return &node{t: w.t, world: w, server: s, url: scheme + l.Addr().String()}
}

// acting is a Config with which loopback may do everything.
func acting(c *Config) { c.LoopbackActs = true }

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem returns the body of an error.
func (a *answer) problem(t *testing.T) apiv1.Problem {
	t.Helper()
	var p apiv1.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("got %q, want a problem: %v", a.body, err)
	}
	return p
}

// into reads the body.
func (a *answer) into(t *testing.T, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("got %d %q, want %T: %v", a.status, a.body, v, err)
	}
}

// do sends a request. Every answer must be as schemas/openapi.yaml describes it.
func (n *node) do(method, path, body string, header ...string) *answer {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if n.token != "" {
		r.Header.Set("Authorization", "Bearer "+n.token)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := client.Do(r)
	if err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	conform(n.t, r, resp, b)
	return &answer{resp.StatusCode, resp.Header, b}
}

func (n *node) get(path string, header ...string) *answer {
	n.t.Helper()
	return n.do(http.MethodGet, path, "", header...)
}

func (n *node) post(path, body string, header ...string) *answer {
	n.t.Helper()
	return n.do(http.MethodPost, path, body, header...)
}

// want fails the test if a status is another one.
func (a *answer) want(t *testing.T, status int, text string) {
	t.Helper()
	if a.status != status || !strings.Contains(string(a.body), text) {
		t.Errorf("got %d %s, want %d with %q", a.status, a.body, status, text)
	}
}

// tokens writes a file of tokens, one for each name NAME:ROLE, and returns its path and the tokens.
func tokens(t *testing.T, names ...string) (path string, list []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tokens")
	var text strings.Builder
	for _, n := range names {
		name, role, _ := strings.Cut(n, ":")
		r, err := ParseRole(role)
		if err != nil {
			t.Fatal(err)
		}
		l, tok := line(name, r)
		text.WriteString(l)
		list = append(list, tok)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, list
}

// caller returns a caller of kind key in a partition.
func (w *world) caller(p int) schemas.Caller {
	for i := 0; ; i++ {
		c := schemas.Caller{Kind: "key", ID: fmt.Sprint("k", i)}
		if schemas.Partition(w.key.Hash(c.Kind, c.ID), w.partitions) == p {
			return c
		}
	}
}
