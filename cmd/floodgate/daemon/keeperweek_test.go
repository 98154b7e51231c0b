package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/filelog"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/solo"
)

// week is a log, its keeper and its owners, whose requests and segments have times of a clock of their own.
type week struct {
	t          *testing.T
	dir        string
	rules      *rules.Set
	partitions int
	now        atomic.Int64 // Unix nanoseconds
	rnd        *rand.Rand
	seq        []uint64
	truth      map[string]int64
	waited     int // produces that waited for room

	log     *filelog.Log
	keeper  *keeper
	counts  *analyzer.Analyzer
	stop    context.CancelFunc
	running errgroup.Group
}

const weekBytes = 500_000 // of the log

func (w *week) clock() time.Time { return time.Unix(0, w.now.Load()).UTC() }

// start opens the log and starts the owners.
func (w *week) start() {
	w.t.Helper()
	names := schemas.DefaultTopicNames()
	var err error
	w.log, err = filelog.Open(filepath.Join(w.dir, "log"), filelog.Options{SegmentBytes: 10_000, Clock: w.clock})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.log.EnsureTopics(w.t.Context(), kafkaio.Specs(names, w.partitions)...); err != nil {
		w.t.Fatal(err)
	}
	w.keeper = newKeeper(w.log, keeperConfig{
		Names: names, Partitions: w.partitions, Keep: 12 * time.Hour, MaxBytes: weekBytes, Sync: w.log.Sync, Logger: slog.New(slog.DiscardHandler),
	})
	w.counts = analyzer.New(w.log, analyzer.Config{
		Dir: w.dir, Join: func() (analyzer.Membership, error) { return solo.New(w.partitions), nil },
		Owner: analyzer.OwnerConfig{
			Fold: fold.Options{Partitions: w.partitions}, Rules: w.rules, Sync: w.log.Sync, Store: store.Options{NoSync: true},
			Requests: names.Requests, Decisions: names.Decisions, State: names.State, Rejects: names.Rejects, Control: names.Control, Events: names.Events,
			Checkpoint: 20 * time.Millisecond, Heartbeat: 20 * time.Millisecond, Repeat: 50 * time.Millisecond, Snapshot: 100 * time.Millisecond,
		},
	})
	ctx, stop := context.WithCancel(w.t.Context())
	w.stop = stop
	w.running = errgroup.Group{}
	w.running.Go(func() error { return w.counts.Run(ctx) })
}

// end stops all of it.
func (w *week) end() {
	w.t.Helper()
	w.stop()
	if err := errors.Join(w.running.Wait(), w.log.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// hour lets one pass, in which each partition gets four frames of n entries, and waits until all is counted.
func (w *week) hour(n int) {
	w.t.Helper()
	for range 4 {
		w.now.Add(int64(15 * time.Minute))
		for p := range w.partitions {
			w.frame(p, n)
		}
		w.look()
	}
	for deadline := time.Now().Add(time.Minute); w.behind() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d messages not counted within a minute", w.behind())
		}
	}
}

func (w *week) look() {
	w.t.Helper()
	w.keeper.looked = time.Time{} // heartbeats come each few milliseconds
	if err := w.keeper.look(w.t.Context(), w.clock()); err != nil {
		w.t.Fatal(err)
	}
	if size := w.size("log"); size > weekBytes*11/10 {
		w.t.Fatalf("%v: got a log of %d bytes, want about %d at most", w.clock(), size, weekBytes)
	}
}

// behind returns how many messages are not counted.
func (w *week) behind() (messages int64) {
	h := host{log: w.log, analyzer: w.counts, partitions: w.partitions, names: schemas.DefaultTopicNames()}
	return h.behind()
}

// frame appends one, again and again while there is no room.
func (w *week) frame(p, n int) {
	w.t.Helper()
	w.seq[p]++
	now := w.now.Load()
	f := schemas.Frame{Producer: schemas.ProducerID{1}, Seq: w.seq[p], Flushed: now, Partitions: uint32(w.partitions), Fingerprint: schemas.DefaultPartitionKey().Fingerprint()}
	for len(f.Entries) < n {
		id := strconv.Itoa(w.rnd.IntN(1000))
		if schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), w.partitions) == p {
			f.Entries = append(f.Entries, schemas.Entry{Time: now, Kind: "key", ID: id, Count: 1})
			w.truth[id]++
		}
	}
	value, err := f.AppendTo(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for {
		_, err := w.keeper.Produce(w.t.Context(), schemas.DefaultTopicNames().Requests, p, kafkaio.Message{Time: now, Value: value})
		if err == nil {
			return
		}
		if !errors.Is(err, errFull) {
			w.t.Fatal(err)
		}
		w.waited++
		time.Sleep(time.Millisecond)
		w.look()
	}
}

// size returns the bytes of the files below a directory.
func (w *week) size(dir string) (bytes int64) {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, dir), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		bytes += info.Size()
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return bytes
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// wantTruth compares the counts in the stores.
func (w *week) wantTruth() {
	w.t.Helper()
	got := make(map[string]int64)
	for p := range w.partitions {
		f, _, err := analyzer.Inspect(filepath.Join(w.dir, strconv.Itoa(p)), w.rules, fold.Options{})
		if err != nil {
			w.t.Fatal(err)
		}
		f.View().Rows(f.LogTime(), func(r fold.Row) bool { got[r.ID] += r.Total; return true })
	}
	wrong := 0
	for id, want := range w.truth {
		if got[id] != want {
			wrong++
		}
	}
	if wrong > 0 || len(got) != len(w.truth) {
		w.t.Errorf("got %d of %d counts that are wrong, and %d callers", wrong, len(w.truth), len(got))
	}
}

// TestAWeekOnOneHost writes several times what the log has room for, and stops and starts in between: the log stays within its bound, memory
// does not grow, and each request counts once. Without FLOODGATE_LONG, it is a day.
func TestAWeekOnOneHost(t *testing.T) {
	days := 1
	if testenv.IsLong() {
		days = 7
	}
	set, err := rules.Parse("test", []byte("version: 1\nrules:\n  - {name: all, callers: key, limit: 1000000000, window: 8760h, algorithm: fixed}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := &week{t: t, dir: t.TempDir(), rules: set, partitions: 2, rnd: rand.New(rand.NewPCG(1, 2)), seq: make([]uint64, 2), truth: make(map[string]int64)}
	w.now.Store(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).UnixNano())
	w.start()
	early := uint64(math.MaxUint64)
	for hour := range 24 * days {
		w.hour(1000)
		switch {
		case hour == 11:
			w.end()
			w.start()
		case hour > 11 && hour < 24:
			early = min(early, heap())
		}
	}
	late := heap()
	for deadline := time.Now().Add(time.Minute); late > early+early/4+4<<20; late = heap() { // a store may have a full memtable, of 20 MiB, to write out
		if time.Now().After(deadline) {
			t.Fatalf("got a heap of %d bytes after a week, want about the %d of the first day", late, early)
		}
		time.Sleep(10 * time.Millisecond)
	}
	var first []int64
	for p := range w.partitions {
		begin, _, err := w.log.Range(t.Context(), schemas.DefaultTopicNames().Requests, p)
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, begin)
	}
	w.end()
	w.wantTruth()
	t.Logf("%d requests; the log of them begins at %v of %v; log %d bytes, all %d; heap %d then %d; %d waits for room",
		24*4*days*2*1000, first, w.seq, w.size("log"), w.size(""), early, late, w.waited)
}
