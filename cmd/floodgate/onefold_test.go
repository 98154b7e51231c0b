package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// oneFoldRules has every algorithm, escalation, a shadow rule and a status rule; its windows and closures outlive the log,
// so that there is something left to compare in the end.
const oneFoldRules = `
version: 1
rules:
  - {name: hour, callers: ip, limit: 50, window: 1h, algorithm: fixed}
  - {name: minute, callers: ip, limit: 20, window: 1m, algorithm: gcra, burst: 20}
  - {name: sliding, callers: ip, limit: 30, window: 10m, close_for: 20m, escalate: {factor: 2, max: 24h, forget: 24h}}
  - {name: log, callers: ip, limit: 25, window: 5m, algorithm: log, mode: shadow}
  - {name: missing, callers: ip, limit: 5, window: 1h, match: {status: [404]}}
  - {name: month, callers: ip, limit: 300, window: month, timezone: Europe/Berlin, anchor: 15, count_blocked: true}
`

// outcome is what a run came to.
type outcome struct {
	closes []string
	digest uint64
}

// replayed replays the log, and also returns what the gates would have recorded.
func replayed(t *testing.T, set *rules.Set, path string) (outcome, []schemas.Entry) {
	t.Helper()
	format, err := ingest.NewFormat("combined", ingest.Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out outcome
	var entries []schemas.Entry
	sum, err := replay.Run(t.Context(), replay.Config{
		Rules: set, Format: format, Reorder: replay.DefaultReorder, Inputs: []replay.Input{{Name: path, Reader: f}},
		OnClose: func(c replay.Close) error {
			out.closes = append(out.closes, closeText(c.Rule, c.Caller, c.CloseAt.UnixNano(), c.Until.UnixNano()))
			return nil
		},
		OnEntry: func(e *schemas.Entry) {
			c := *e
			c.ID, c.Resource = strings.Clone(e.ID), strings.Clone(e.Resource)
			entries = append(entries, c)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(sum.Digest, "%x", &out.digest); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out.closes)
	return out, entries
}

func closeText(rule, caller string, at, until int64) string {
	return fmt.Sprintf("%s %s %d %d", rule, caller, at, until)
}

// analyzed sends the entries through a broker, each frame perhaps twice, while an analyzer of that many partitions is
// stopped and started again.
func analyzed(t *testing.T, set *rules.Set, entries []schemas.Entry, partitions int, twice bool, restarts int, rnd *rand.Rand) outcome {
	t.Helper()
	broker, err := embedded.Start(embedded.Options{MinSession: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	client := kafkaio.New(kafkaio.Config{Brokers: broker.Addrs()})
	defer client.Close()
	if _, err := client.EnsureTopics(t.Context(), kafkaio.Specs(schemas.DefaultTopicNames(), partitions)...); err != nil {
		t.Fatal(err)
	}
	run := &analyzedRun{t: t, client: client, set: set, dir: t.TempDir(), partitions: partitions, closes: make(map[string]bool)}
	pieces := slices.Collect(slices.Chunk(entries, len(entries)/(restarts+1)+1))
	for _, piece := range pieces {
		run.countAll(func() { sendFrames(t, client, piece, partitions, twice, rnd, run.seqs()) })
	}
	return run.outcome()
}

// analyzedRun is one analyzer after the other over one log.
type analyzedRun struct {
	t          *testing.T
	client     *kafkaio.Client
	set        *rules.Set
	dir        string
	partitions int
	seq        []uint64

	mu     sync.Mutex
	closes map[string]bool // guarded by mu: those counted again after a restart are the same
}

func (r *analyzedRun) seqs() []uint64 {
	if r.seq == nil {
		r.seq = make([]uint64, r.partitions)
	}
	return r.seq
}

// countAll runs an analyzer, sends once it decides, and stops it when it has counted all that the log holds.
func (r *analyzedRun) countAll(send func()) {
	r.t.Helper()
	names := schemas.DefaultTopicNames()
	a := analyzer.New(r.client, analyzer.Config{
		Dir: r.dir, SessionTimeout: 2 * time.Second,
		Join: func() (analyzer.Membership, error) {
			return kafkaio.NewGroup(kafkaio.GroupConfig{Client: r.client, Group: "g", Topic: names.Requests, SessionTimeout: 2 * time.Second})
		},
		Owner: analyzer.OwnerConfig{
			Fold: fold.Options{Partitions: r.partitions}, Requests: names.Requests, Decisions: names.Decisions, Control: names.Control,
			Rules: r.set, Checkpoint: 20 * time.Millisecond, Store: store.Options{NoSync: true},
			Observe: func(c fold.Change, _ int64) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.closes[closeText(c.Rule.Name, c.Caller.String(), c.Closure.CloseAt, c.Closure.Until)] = true
			},
		},
	})
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	processtest.Eventually(r.t, time.Minute, "analyzer running", func() bool { return r.counted(a) })
	send()
	processtest.Eventually(r.t, time.Minute, "all counted", func() bool { return r.counted(a) })
	stop()
	if err := <-done; err != nil {
		r.t.Fatal(err)
	}
}

func (r *analyzedRun) counted(a *analyzer.Analyzer) bool {
	stats := a.Stats()
	for _, s := range stats {
		_, end, err := r.client.Range(r.t.Context(), schemas.DefaultTopicNames().Requests, s.Partition)
		if err != nil || s.Next < end || !s.State.Decides() {
			return false
		}
	}
	return len(stats) == r.partitions
}

// outcome reads the stores: the partitions' digests add up.
func (r *analyzedRun) outcome() outcome {
	r.t.Helper()
	var folds []*fold.Fold
	newest := int64(math.MinInt64)
	for p := range r.partitions {
		f, _, err := analyzer.Inspect(filepath.Join(r.dir, strconv.Itoa(p)), r.set, fold.Options{})
		if err != nil {
			r.t.Fatal(err)
		}
		folds, newest = append(folds, f), max(newest, f.LogTime())
	}
	var out outcome
	for _, f := range folds {
		out.digest += f.Digest(newest)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.closes {
		out.closes = append(out.closes, c)
	}
	slices.Sort(out.closes)
	return out
}

// sendFrames sends the entries in order, in frames of any size.
func sendFrames(t *testing.T, client *kafkaio.Client, entries []schemas.Entry, partitions int, twice bool, rnd *rand.Rand, seq []uint64) {
	t.Helper()
	key := schemas.DefaultPartitionKey()
	queued := make([][]schemas.Entry, partitions)
	flush := func(p int) {
		now := time.Now().UnixNano()
		seq[p]++
		f := schemas.Frame{
			Producer: schemas.ProducerID{5}, Seq: seq[p], Flushed: now, Partitions: uint32(partitions), Fingerprint: key.Fingerprint(), Entries: queued[p],
		}
		queued[p] = nil
		value, err := f.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n == 1 || twice && n == 2 && rnd.IntN(3) == 0; n++ {
			if _, err := client.Produce(t.Context(), schemas.DefaultTopicNames().Requests, p, kafkaio.Message{Time: now, Value: value}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range entries {
		p := schemas.Partition(key.Hash(e.Kind, e.ID), partitions)
		queued[p] = append(queued[p], e)
		if len(queued[p]) >= 1000 || rnd.IntN(100) == 0 {
			flush(p)
		}
	}
	for p := range partitions {
		if len(queued[p]) > 0 {
			flush(p)
		}
	}
}

// TestOneFold: replay, and analyze over a broker with one partition or eight, frames delivered once or twice, analyzers
// stopped or not, all come to the same closes and the same digest.
func TestOneFold(t *testing.T) {
	logs := map[string]string{"generated": "../../testdata/logs/access.log"}
	if dir := os.Getenv("FLOODGATE_LOGS"); dir != "" {
		logs["real"] = filepath.Join(dir, "apache_combined.log.gz")
	}
	set, err := rules.Parse("test", []byte(oneFoldRules))
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, path := range logs {
		want, entries := replayed(t, set, path)
		if len(want.closes) == 0 || want.digest == 0 {
			t.Fatalf("%s: got %d closes and digest %x, want some to compare", name, len(want.closes), want.digest)
		}
		for what, run := range map[string]struct {
			partitions int
			twice      bool
			restarts   int
		}{
			"one partition":               {1, false, 0},
			"eight partitions":            {8, false, 0},
			"delivered twice":             {4, true, 0},
			"stopped and delivered twice": {3, true, 4},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				got := analyzed(t, set, entries, run.partitions, run.twice, run.restarts, rnd)
				if got.digest != want.digest {
					t.Errorf("digest: got %016x, want replay's %016x", got.digest, want.digest)
				}
				if !slices.Equal(got.closes, want.closes) {
					t.Errorf("closes: got %d, want replay's %d:\n%s", len(got.closes), len(want.closes), firstDifference(got.closes, want.closes))
				}
			})
		}
	}
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "missing " + want[i]
		case i >= len(want):
			return "extra " + got[i]
		case got[i] != want[i]:
			return fmt.Sprintf("got %s, want %s", got[i], want[i])
		}
	}
	return ""
}
