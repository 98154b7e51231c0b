package filelog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// chain is a host as it will be: lines of a file, the log, and a store, all on one disk. Only this says what was acknowledged as durable.
type chain struct {
	*testing.T

	disk   *crashDisk
	random *rand.Rand
	log    *Log
	said   bytes.Buffer // by the log, since it was opened

	line   int   // the next one to be read from the file
	store  store // in memory
	synced int64 // the end of the log that a Sync has acknowledged
	end    int64 // the end of the log before which a kill alone loses nothing
	saved  int   // the position that was acknowledged
	taken  store // the last one that was acknowledged

	content map[int64]string // what the log had at each offset before synced
}

// store is what the analyzer knows: how often it has counted each line. Lines come in order, so that one number says which it has seen.
type store struct {
	Next   int64  // the offset to read next
	Tail   string // the record before it
	Lines  int    // all lines before this one were seen
	Counts []int  // of each line
}

func (s store) clone() store {
	s.Counts = slices.Clone(s.Counts)
	return s
}

const (
	chainDir      = "/data/log"
	storePath     = "/data/store"
	positionsPath = "/data/positions"
)

// places is how many places of a life there are where a process changes something on the disk.
const places = 47

// place is where in a chain's life a crash happens: which change to which kind of file, in what.
func place(during, what string) string {
	verb, path, _ := strings.Cut(what, " ")
	switch base := filepath.Base(path); {
	case baseOf(base) >= 0:
		path = "a segment"
	case strings.HasPrefix(base, topicName+"-"):
		path = "a partition"
	default:
		path = base
	}
	return during + ": " + verb + " " + path
}

// TestCrashes: a process is killed or power is lost at each step of all that is done to the disk, also while the log is opened, and also after
// writes and syncs that failed. Each line counts once, nothing that was acknowledged is lost, and no offset before a recovery point is used twice.
//
//	FLOODGATE_LONG=1 go test -run TestCrashes -v ./store/filelog     a thousand crashes at each place, and says how many there were
//	FLOODGATE_SEED=17 go test -run TestCrashes ./store/filelog       one seed again
func TestCrashes(t *testing.T) {
	first, n, want := uint64(1), uint64(2000), 15
	if testenv.IsLong() {
		n, want = 20_000, 1000
	}
	if text := os.Getenv("FLOODGATE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n, want = seed, 1, 0
	}
	crashes := make(map[string]int)
	isEnough := func() bool {
		return want > 0 && len(crashes) >= places && slices.Min(slices.Collect(maps.Values(crashes))) >= want
	}
	for seed := first; seed < first+n && !t.Failed() && !isEnough(); seed++ {
		t.Run(fmt.Sprintf("FLOODGATE_SEED=%d", seed), func(t *testing.T) { liveAndDie(t, seed, crashes) })
	}
	for _, at := range slices.Sorted(maps.Keys(crashes)) {
		t.Logf("%6d crashes at %s", crashes[at], at)
	}
	if want > 0 && !isEnough() && !t.Failed() {
		t.Errorf("got crashes at %d places, want %d at each of %d", len(crashes), want, places)
	}
}

// rare reports whether a step is taken only after some others were not: there is little to be removed, and topics are made once.
func rare(during, what string) bool {
	verb, path, _ := strings.Cut(what, " ")
	return verb == "make" || verb == "remove" && during != "trim" || during == "open" && strings.Contains(path, pointsName)
}

// liveAndDie tells one story of many crashes.
func liveAndDie(t *testing.T, seed uint64, crashes map[string]int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 20))
	c := &chain{T: t, disk: newCrashDisk(random), random: random, content: make(map[int64]string)}
	if err := errors.Join(c.disk.makeDir("/data"), c.disk.syncDir("/")); err != nil {
		t.Fatal(err)
	}
	faults := random.IntN(3) == 0
	calm, here := 2+random.IntN(100), make(map[string]int) // crashes in this story, which a seed shows again
	for range 40 {
		c.live(func(during, what string) bool {
			at := place(during, what)
			odds := calm + 10*here[at] // sooner where there were few
			if here[at] < 3 && rare(during, what) {
				odds = 2
			}
			if random.IntN(odds) > 0 {
				return false
			}
			here[at]++
			crashes[at]++
			return true
		}, faults)
		if t.Failed() {
			return
		}
		if c.disk.dead = false; random.IntN(4) > 0 {
			c.disk.lose()
			c.end = c.synced
		}
	}
	c.disk.fault = nil
	c.live(func(string, string) bool { return false }, false)
	for i, n := range c.store.Counts {
		if n != 1 {
			t.Fatalf("line %d was counted %d times, want once", i, n)
		}
	}
	if len(c.store.Counts) < c.line {
		t.Fatalf("got %d lines counted, want the %d that were read", len(c.store.Counts), c.line)
	}
}

// live is the life of one process, which dies where crash says so, or ends.
func (c *chain) live(crash func(during, what string) bool, faults bool) {
	during := "open"
	defer func() {
		if err := recover(); err != nil && err != errPower { //nolint:errorlint // it is the value of a panic
			panic(err)
		}
	}()
	c.disk.step = func(what string) error {
		if crash(during, what) {
			c.disk.dead = true
			return errPower
		}
		return nil
	}
	c.disk.fault = func(what string) error {
		switch {
		case !faults || during == "open":
		case strings.HasPrefix(what, "sync ") && c.random.IntN(30) == 0:
			return syscall.EIO
		case strings.HasPrefix(what, "write "), strings.HasPrefix(what, "create "):
			if c.random.IntN(10) == 0 {
				return syscall.ENOSPC
			}
		}
		return nil
	}
	if c.open() != nil {
		return
	}
	steps := map[string]func() error{"append": c.append, "fold": c.fold, "commit": c.commit, "save": c.save, "trim": c.trim}
	for range 40 {
		during = []string{"append", "append", "append", "append", "fold", "commit", "save", "trim"}[c.random.IntN(8)]
		err := steps[during]()
		if c.Failed() || c.disk.dead || errors.Is(err, ErrBroken) {
			return
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EIO) {
			c.Fatalf("%s: got %v", during, err)
		}
	}
	if err := errors.Join(c.fold(), c.log.Close()); err != nil {
		c.Fatal(err)
	}
}

// open does what a process does when it starts, and checks what it finds.
func (c *chain) open() (err error) {
	c.said.Reset()
	c.log, err = Open(chainDir, Options{SegmentBytes: 2000, Logger: slog.New(slog.NewTextHandler(&c.said, nil)), disk: c.disk})
	if err == nil {
		if n, _ := c.log.Partitions(context.Background(), topicName); n < 2 {
			_, err = c.log.EnsureTopics(context.Background(), kafkaio.TopicSpec{Name: topicName, Partitions: 2})
		}
	}
	if err != nil {
		if !c.disk.dead {
			c.Fatal(err)
		}
		return err
	}
	c.store, c.line = store{}, 0
	c.read(storePath, &c.store)
	c.read(positionsPath, &c.line)
	if c.line < c.saved {
		c.Errorf("got position %d, want the one that was acknowledged, %d", c.line, c.saved)
	}
	if c.store.Next < c.taken.Next {
		c.Errorf("got a store that has applied what is before %d, want the one that was acknowledged, %d", c.store.Next, c.taken.Next)
	}
	c.saved, c.taken = c.line, c.store.clone()
	c.recovered()
	if err := c.fold(); err != nil {
		return err
	}
	if c.store.Lines < c.saved {
		c.Errorf("got %d lines in the log, want those before the position that was saved, %d", c.store.Lines, c.saved)
	}
	return nil
}

// recovered checks that the log has what was acknowledged, and the store's last record.
func (c *chain) recovered() {
	if strings.Contains(c.said.String(), "level=ERROR") {
		c.Errorf("the log says: %s", c.said.String())
	}
	start, end, err := c.log.Range(c.Context(), topicName, 0)
	if err != nil || end < c.end || start > c.store.Next || end < c.store.Next {
		c.Errorf("got the log from %d to %d, %v, want at least to %d, with the store's next record, %d", start, end, err, c.end, c.store.Next)
		return
	}
	for offset := start; offset < end; {
		b, err := c.log.Fetch(c.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: offset})
		if err != nil || len(b.Skipped) > 0 {
			c.Errorf("got %v and %v at offset %d, want all records", err, b.Skipped, offset)
			return
		}
		for _, r := range b.Records {
			if had, ok := c.content[r.Offset]; ok && string(r.Value) != had && r.Offset < c.synced {
				c.Errorf("got %q at offset %d, want %q, which was durable", r.Value, r.Offset, had)
			}
			c.content[r.Offset] = string(r.Value)
			if r.Offset == c.store.Next-1 && string(r.Value) != c.store.Tail {
				c.Errorf("got %q at offset %d, want the store's last record, %q", r.Value, r.Offset, c.store.Tail)
			}
		}
		offset = b.Next
	}
}

// append reads lines from the file, and appends them as one batch.
func (c *chain) append() error {
	msgs := make([]kafkaio.Message, 1+c.random.IntN(3))
	for i := range msgs {
		msgs[i].Value = fmt.Appendf(nil, "%d %s", c.line+i, bytes.Repeat([]byte{'x'}, c.random.IntN(1+c.random.IntN(400))))
	}
	base, err := c.log.Produce(c.Context(), topicName, 0, msgs...)
	if err != nil {
		if kafkaio.OutcomeOf(err) != kafkaio.Unsent {
			c.Errorf("got outcome %v, want unsent", kafkaio.OutcomeOf(err))
		}
		return err
	}
	if base < c.synced {
		c.Errorf("got offset %d, want %d or later", base, c.synced)
	}
	for i, m := range msgs {
		c.content[base+int64(i)] = string(m.Value)
	}
	c.line, c.end = c.line+len(msgs), base+int64(len(msgs))
	return nil
}

// fold counts what the log has. A source's line that does not follow the one before it would be lost.
func (c *chain) fold() error {
	for {
		b, err := c.log.Fetch(c.Context(), kafkaio.FetchRequest{Topic: topicName, Offset: c.store.Next})
		if err != nil || len(b.Skipped) > 0 {
			c.Errorf("got %v and %v at offset %d, want all records", err, b.Skipped, c.store.Next)
			return err
		}
		if len(b.Records) == 0 {
			return nil
		}
		for _, r := range b.Records {
			number, _, _ := strings.Cut(string(r.Value), " ")
			line, err := strconv.Atoi(number)
			if err != nil || line > c.store.Lines {
				c.Errorf("got line %q at offset %d, want at most %d", r.Value, r.Offset, c.store.Lines)
				return err
			}
			if line == c.store.Lines {
				c.store.Lines++
				c.store.Counts = append(c.store.Counts, 1)
			}
			c.store.Next, c.store.Tail = r.Offset+1, string(r.Value)
		}
	}
}

// sync is a Sync, and notes what it has acknowledged.
func (c *chain) sync() error {
	_, end, err := c.log.Range(c.Context(), topicName, 0)
	if err == nil {
		err = c.log.Sync()
	}
	if err == nil {
		c.synced = end
	}
	return err
}

// commit makes the store durable, behind the log.
func (c *chain) commit() error {
	if err := c.sync(); err != nil {
		return err
	}
	err := c.write(storePath, c.store)
	if err == nil {
		c.taken = c.store.clone()
	}
	return err
}

// save makes the position in the file durable, behind the log.
func (c *chain) save() error {
	line := c.line
	if err := c.sync(); err != nil {
		return err
	}
	err := c.write(positionsPath, line)
	if err == nil {
		c.saved = line
	}
	return err
}

// trim removes what the store has.
func (c *chain) trim() error {
	return c.log.Trim(topicName, 0, c.taken.Next)
}

func (c *chain) write(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		c.Fatal(err)
	}
	return replaceFile(c.disk, path, b)
}

func (c *chain) read(path string, v any) {
	b, err := readFile(c.disk, path)
	if err == nil && b != nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		c.Fatal(err)
	}
}
