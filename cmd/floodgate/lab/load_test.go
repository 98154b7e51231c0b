//go:build lab

package lab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/store/kafkaio"
)

var (
	loadCallers  = flag.Int("load.callers", 20_000, "how many callers BenchmarkLoad counts")
	loadRequests = flag.Int("load.requests", 100_000, "how many requests of those callers, by Zipf's law, BenchmarkLoad sends")
	loadSizes    = flag.Bool("load.sizes", false, "measure also with ten times the callers, ten times the rate, and four times the partitions")
)

// loadRules are windows that stay alive for the whole test.
const loadRules = `
version: 1
rules:
  - {name: per-key, callers: key, limit: 1000000000, window: 10m}
`

// loadSize is how much there is to count. Rate decides how much of it recorders merge.
type loadSize struct{ callers, requests, rate, partitions int }

// BenchmarkLoad reports how much one analyzer counts and has on disk, in how much memory, and how it starts again:
//
//	go test -tags lab ./cmd/floodgate/lab -run '^$' -bench 'Load$' -benchtime 1x -timeout 1h -load.callers 1000000 -load.requests 20000000
//	go test -tags lab ./cmd/floodgate/lab -run '^$' -bench 'Load$' -benchtime 1x -timeout 1h -load.callers 100000 -load.requests 4000000 -load.sizes
//
// Broker and analyzer are processes of their own on this machine; FLOODGATE_KAFKA makes it an Apache Kafka. Frames are
// prepared beforehand, so that what is measured is from the first produce until all is on the analyzer's disk. Each
// request must be counted once, from whatever the analyzer starts.
func BenchmarkLoad(b *testing.B) {
	base := loadSize{callers: *loadCallers, requests: *loadRequests, rate: 1_000_000, partitions: 4}
	sizes := []loadSize{base}
	if *loadSizes {
		base.rate = 100_000
		callers, rate, partitions := base, base, base
		callers.callers *= 10
		rate.rate *= 10
		rate.requests *= 10
		partitions.partitions *= 4
		sizes = []loadSize{base, callers, rate, partitions}
	}
	var figures []loadFigures
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%d-callers-%d-rate-%d-partitions", size.callers, size.rate, size.partitions), func(b *testing.B) {
			figures = append(figures, measureLoad(b, size))
			b.Logf("\n%s", renderFigures(figures))
		})
	}
}

// loadFigures is what was measured.
type loadFigures struct {
	loadSize
	kafka                         string
	entries                       int           // that the requests made when merged
	distinct, merged              time.Duration // from the first produce until all is on disk
	distinctCPU, mergedCPU        time.Duration // of the analyzer
	idle, live, peak, own         int64         // bytes of memory: with nothing counted, with all callers, at most, and without files
	disk                          int64         // bytes of the stores
	fromStore, fromState, fromLog time.Duration // until it decides again
}

func measureLoad(t testing.TB, size loadSize) loadFigures {
	t.Helper()
	r := newRig(t, loadRules, size.partitions)
	f := loadFigures{loadSize: size, kafka: r.kafka}
	room := []string{"--max-rows", fmt.Sprint(size.callers/size.partitions*11/10 + 1000)} // partitions are not quite equal
	r.analyze(room...)
	f.idle, _, _ = r.resident()
	l := &loadRun{rig: r, seq: make([]uint64, size.partitions), truth: make(map[string]int64, size.callers)}
	f.distinct, f.distinctCPU, _ = l.send(l.distinct(size.callers))
	f.live, _, _ = r.resident()
	f.merged, f.mergedCPU, f.entries = l.send(l.zipf(size))
	_, f.peak, f.own = r.resident()
	r.stop()
	f.disk = onDisk(t, r.data())
	l.compare()

	f.fromStore = r.analyze(append(room, "--snapshot", "1s")...)
	r.awaitSnapshots(3, 5*time.Minute) // of which a heartbeat has told
	r.stop()
	r.wipe()
	f.fromState = r.analyze(room...)
	if n := strings.Count(r.analyzer.Text(), `msg="starting from a snapshot"`); n != size.partitions {
		t.Errorf("state: %d of %d partitions started from it:\n%s", n, size.partitions, r.analyzer.Text())
	}
	r.stop()
	l.compare()
	r.wipe()
	f.fromLog = r.analyze(append(room, "--topic-name", "state="+r.topic("no-state"))...)
	r.stop()
	l.compare()
	return f
}

// loadRun is a generator of frames, and the truth about them.
type loadRun struct {
	*rig
	seq   []uint64
	truth map[string]int64
}

// loadFrame is an encoded frame and what is in it.
type loadFrame struct {
	value   []byte
	entries int
	flushed int64
}

// send produces the frames, several at a time, and waits until they are counted and on disk.
func (l *loadRun) send(frames [][]loadFrame) (took, cpu time.Duration, entries int) {
	l.t.Helper()
	for _, list := range frames {
		for _, f := range list {
			entries += f.entries
		}
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Minute)
	defer cancel()
	before := l.cpu()
	began := time.Now()
	l.produce(ctx, frames)
	l.catchUp("floodgate_committed_offset", 10*time.Minute)
	return time.Since(began), l.cpu() - before, entries
}

// produce produces the frames of each partition in their order.
func (l *loadRun) produce(ctx context.Context, frames [][]loadFrame) {
	var senders sync.WaitGroup
	for p, list := range frames {
		senders.Go(func() {
			var batch []kafkaio.Message
			size := 0
			for i, f := range list {
				batch = append(batch, kafkaio.Message{Time: f.flushed, Value: f.value})
				if size += len(f.value); size < 256<<10 && i < len(list)-1 {
					continue
				}
				if _, err := l.client.Produce(ctx, l.topic("requests"), p, batch...); err != nil {
					l.t.Errorf("produce: %v", err)
					return
				}
				batch, size = nil, 0
			}
		})
	}
	senders.Wait()
}

// compare wants the stores to hold the truth, to the unit.
func (l *loadRun) compare() {
	l.t.Helper()
	set, err := rules.Parse("test", []byte(loadRules))
	if err != nil {
		l.t.Fatal(err)
	}
	partitions := openStores(l.t, l.data(), set)
	rows, wrong := 0, 0
	for _, sp := range partitions {
		sp.fold.View().Rows(sp.fold.LogTime(), func(r fold.Row) bool {
			rows++
			if l.truth[r.ID] != r.Total {
				wrong++
			}
			return true
		})
	}
	if rows != len(l.truth) || wrong > 0 {
		l.t.Errorf("store: got %d callers, %d of them wrong, want the %d that were sent", rows, wrong, len(l.truth))
	}
}

// stop ends the analyzer as SIGTERM does.
func (r *rig) stop() {
	r.t.Helper()
	if code := r.analyzer.Stop(syscall.SIGTERM); code != 0 {
		r.t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, r.analyzer.Text())
	}
}

// wipe removes the stores.
func (r *rig) wipe() {
	r.t.Helper()
	if err := os.RemoveAll(r.data()); err != nil {
		r.t.Fatal(err)
	}
}

// renderFigures draws the table of sizes. Memory and disk per caller are what came on top of an idle analyzer.
func renderFigures(figures []loadFigures) string {
	var b strings.Builder
	for i, f := range figures {
		if i == 0 {
			fmt.Fprintf(&b, "on %s, each until it is on disk\n\n", f.kafka)
			b.WriteString("| callers | rate | partitions | distinct callers/s | requests/s | entries/s | CPU µs/caller, /entry | MiB of memory, its own, most | bytes a caller, disk | from store | from state | from log, entries/s |\n")
			b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		}
		callers, entries := float64(f.callers), float64(f.entries)
		fmt.Fprintf(&b, "| %d | %d/s | %d | %.0f | %.0f | %.0f | %.1f, %.1f | %d, %d, %d | %.0f, %.0f | %.1f s | %.1f s | %.1f s, %.0f |\n",
			f.callers, f.rate, f.partitions, callers/f.distinct.Seconds(), float64(f.requests)/f.merged.Seconds(), entries/f.merged.Seconds(),
			float64(f.distinctCPU.Microseconds())/callers, float64(f.mergedCPU.Microseconds())/entries, f.live>>20, f.own>>20, f.peak>>20,
			float64(max(f.live-f.idle, 0))/callers, float64(f.disk)/callers, f.fromStore.Seconds(), f.fromState.Seconds(),
			f.fromLog.Seconds(), (callers+entries)/f.fromLog.Seconds())
	}
	return b.String()
}
