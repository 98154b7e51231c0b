package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

var (
	loadCallers  = flag.Int("load-callers", 0, "how many callers TestLoad counts; 0 skips it")
	loadRequests = flag.Int("load-requests", 4_000_000, "how many requests of those callers, by Zipf's law, TestLoad sends")
)

// loadRules are windows that stay alive for the whole test.
const loadRules = `
version: 1
rules:
  - {name: per-key, callers: key, limit: 1000000000, window: 10m}
`

// TestLoad reports how much one analyzer counts, with fsynced checkpoints, and in how much memory:
//
//	go test ./cmd/floodgate -run TestLoad -v -load-callers 1000000
//
// Broker and analyzer are processes of their own on this machine; FLOODGATE_KAFKA makes it an Apache Kafka. Frames are
// prepared beforehand, so that what is measured is from the first produce until all is counted.
func TestLoad(t *testing.T) {
	if *loadCallers == 0 {
		t.Skip("-load-callers is not set")
	}
	l := &loadRun{t: t, suffix: fmt.Sprintf(".load-%x", rand.Uint64()), broker: os.Getenv("FLOODGATE_KAFKA")}
	if l.broker == "" {
		l.broker = start(t, "broker", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "log")).waitFor(`serving Kafka on (\S+)`, 10*time.Second)
	}
	l.client = kafkaio.New(kafkaio.Config{Brokers: strings.Split(l.broker, ",")})
	t.Cleanup(l.client.Close)
	l.analyze()
	l.memory("with nothing counted")
	took, _ := l.send(l.distinct(*loadCallers))
	t.Logf("distinct callers: %d in %v, %.0f/s", *loadCallers, took.Round(time.Millisecond), float64(*loadCallers)/took.Seconds())
	l.memory(fmt.Sprintf("with %d live callers", *loadCallers))
	frames := l.zipf(*loadRequests, *loadCallers)
	took, entries := l.send(frames)
	t.Logf("merged frames: %d requests in %d entries in %v, %.0f requests/s, %.0f entries/s", *loadRequests, entries,
		took.Round(time.Millisecond), float64(*loadRequests)/took.Seconds(), float64(entries)/took.Seconds())
	l.memory("after that")
	began := time.Now()
	if code := l.program.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0", code)
	}
	t.Logf("stopped in %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	l.analyze()
	t.Logf("started again, warm, in %v", time.Since(began).Round(time.Millisecond))
	l.program.stop(syscall.SIGTERM)
	if err := os.RemoveAll(l.data); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	l.analyze()
	took = time.Since(began)
	t.Logf("started again, with nothing: %v for %d entries, %.0f entries/s", took.Round(time.Millisecond),
		*loadCallers+entries, float64(*loadCallers+entries)/took.Seconds())
	l.memory("restored")
}

// loadRun is a broker, an analyzer, and a generator of frames.
type loadRun struct {
	t       *testing.T
	broker  string
	suffix  string
	data    string
	client  *kafkaio.Client
	program *program
	url     string
	seq     [killPartitions]uint64
}

// loadFrame is an encoded frame and what is in it.
type loadFrame struct {
	value   []byte
	entries int
	flushed int64
}

// analyze starts the analyzer and waits until it decides.
func (l *loadRun) analyze() {
	l.t.Helper()
	if l.data == "" {
		l.data = filepath.Join(l.t.TempDir(), "counts")
	}
	path := filepath.Join(filepath.Dir(l.data), "rules.yaml")
	if err := os.WriteFile(path, []byte(loadRules), 0o600); err != nil {
		l.t.Fatal(err)
	}
	args := []string{
		"analyze", "--brokers", l.broker, "--rules", path, "--data", l.data, "--listen", "127.0.0.1:0", "--group", "g" + l.suffix,
	}
	for _, topic := range []string{"requests", "decisions", "state", "rejects", "control"} {
		args = append(args, "--topic-"+topic, topic+l.suffix)
	}
	l.program = start(l.t, args...)
	l.url = "http://" + l.program.waitFor(`msg=listening address=(\S+)`, 30*time.Second)
	eventually(l.t, 5*time.Minute, "analyzer ready", func() bool {
		_, status := get(l.t.Context(), l.url+"/readyz")
		metrics, _ := get(l.t.Context(), l.url+"/metrics")
		return status == 200 && strings.Count(metrics, "\nfloodgate_next_offset{") == killPartitions
	})
}

// memory reports what the analyzer's process holds, and the most that it ever held.
func (l *loadRun) memory(when string) {
	l.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.program.cmd.Process.Pid))
	if err != nil {
		l.t.Logf("memory: %v", err) // another system
		return
	}
	line := regexp.MustCompile(`(VmHWM|RssAnon|RssFile):\s+(\d+) kB`)
	var found []string
	for _, m := range line.FindAllStringSubmatch(string(b), -1) {
		var kb int
		if _, err := fmt.Sscan(m[2], &kb); err != nil {
			l.t.Fatal(err)
		}
		found = append(found, fmt.Sprintf("%s %d MB", m[1], kb>>10))
	}
	l.t.Logf("memory %s: %s; CPU %v", when, strings.Join(found, ", "), l.cpu())
}

// cpu returns the processor time of the analyzer so far, or 0 where that can't be read.
func (l *loadRun) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.program.cmd.Process.Pid))
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if err != nil || len(fields) < 13 {
		return 0
	}
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond // a tick is 10 ms wherever Go runs on Linux
}

// loadEntries is the most entries of a frame.
const loadEntries = 2000

// frames encodes the entries of each partition.
func (l *loadRun) frames(entries [killPartitions][]schemas.Entry, now int64) (frames [killPartitions][]loadFrame) {
	for p, list := range entries {
		for len(list) > 0 {
			n := min(len(list), loadEntries)
			l.seq[p]++
			f := schemas.Frame{
				Producer: schemas.ProducerID{5}, Seq: l.seq[p], Flushed: now, Partitions: killPartitions,
				Fingerprint: schemas.DefaultPartitionKey().Fingerprint(), Entries: list[:n],
			}
			value, err := f.AppendTo(nil)
			if err != nil {
				l.t.Fatal(err)
			}
			frames[p] = append(frames[p], loadFrame{value, n, now})
			list = list[n:]
		}
	}
	return frames
}

func loadPartition(id string) int {
	return schemas.Partition(schemas.DefaultPartitionKey().Hash("key", id), killPartitions)
}

func loadCaller(n uint64) string { return fmt.Sprintf("caller-%08d", n) }

// distinct is one request of each caller.
func (l *loadRun) distinct(n int) [killPartitions][]loadFrame {
	now := time.Now().UnixNano()
	var entries [killPartitions][]schemas.Entry
	for i := range n {
		id := loadCaller(uint64(i))
		p := loadPartition(id)
		entries[p] = append(entries[p], schemas.Entry{Time: now, Kind: "key", ID: id, Count: 1})
	}
	return l.frames(entries, now)
}

// zipf is requests at a million a second, merged as recorders do: those of a caller within 10 ms are one entry.
func (l *loadRun) zipf(requests, callers int) (all [killPartitions][]loadFrame) {
	const tick = 10_000 // requests in 10 ms
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 8, uint64(callers-1))
	now := time.Now().UnixNano()
	for at := 0; at < requests; at += tick {
		merged := make(map[uint64]uint32)
		for range min(tick, requests-at) {
			merged[zipf.Uint64()]++
		}
		var entries [killPartitions][]schemas.Entry
		for caller, count := range merged {
			id := loadCaller(caller)
			p := loadPartition(id)
			entries[p] = append(entries[p], schemas.Entry{Time: now, Kind: "key", ID: id, Count: count})
		}
		for p, frames := range l.frames(entries, now) {
			all[p] = append(all[p], frames...)
		}
	}
	return all
}

// send produces the frames, a few at a time, and waits until they are counted.
func (l *loadRun) send(frames [killPartitions][]loadFrame) (took time.Duration, entries int) {
	l.t.Helper()
	for _, list := range frames {
		for _, f := range list {
			entries += f.entries
		}
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Minute)
	defer cancel()
	began := time.Now()
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
				if _, err := l.client.Produce(ctx, "requests"+l.suffix, p, batch...); err != nil {
					l.t.Errorf("produce: %v", err)
					return
				}
				batch, size = nil, 0
			}
		})
	}
	senders.Wait()
	awaitCaughtUp(ctx, l.t, l.client, l.url, "requests"+l.suffix)
	return time.Since(began), entries
}
