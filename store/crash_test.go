package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/rows"
)

// crashRows is how many rows the process that is killed keeps changing. Half of them are in one bucket, which takes
// several transactions to compact there.
const crashRows = 500

// crashKeys returns their keys.
var crashKeys = sync.OnceValue(func() []string {
	keys := crowd(crashRows / 2)
	for len(keys) < crashRows {
		keys = append(keys, fmt.Sprint("row-", len(keys)))
	}
	return keys
})

// crashChanges returns commit n of the story that commitForever writes and TestKill9 tells again: some rows count up,
// some go and come back.
func crashChanges(n int64, kept map[string][]byte) []Change {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	taken := make(map[string]bool)
	var changes []Change
	for range 100 {
		key := crashKeys()[random.IntN(crashRows)]
		if taken[key] {
			continue
		}
		taken[key] = true
		c := Change{Key: []byte(key)}
		if old, ok := kept[key]; ok {
			c.Old = rows.Sum(c.Key, old)
		}
		if random.IntN(10) > 0 {
			c.Value = binary.LittleEndian.AppendUint64(bytes.Repeat([]byte{byte(n)}, random.IntN(2000)), uint64(n))
		}
		changes = append(changes, c)
	}
	return changes
}

// apply makes the changes in the model.
func apply(rows map[string][]byte, changes []Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(rows, string(c.Key))
		} else {
			rows[string(c.Key)] = c.Value
		}
	}
}

// compactsNext is the line that commitForever prints before a commit after which the crowded bucket is compacted.
const compactsNext = "compacts"

// commitForever is the process that is killed: it goes on where the store stands, and commits until it dies, saying
// after each commit how many there are. If it is to die in the middle of a compaction, it does so as soon as there is one to be made.
func commitForever(out io.Writer, dir string, midCompaction bool) error {
	o := quiet()
	o.NoSync = false
	s, err := openSmall(dir, o)
	if err != nil {
		return err
	}
	rows := make(map[string][]byte)
	err = s.Load(func(key, value []byte) error {
		rows[string(key)] = bytes.Clone(value)
		return nil
	})
	for n := s.Checkpoint().Next; err == nil; n++ {
		if pages := s.buckets[7].pages; midCompaction && len(pages) > 2 && !pages[len(pages)-1].compacted {
			return dieCompacting(s)
		}
		changes := crashChanges(n, rows)
		apply(rows, changes)
		if compactsAfter(s, changes) {
			if _, err := fmt.Fprintln(out, compactsNext); err != nil {
				return err
			}
		}
		if err = s.Commit(Checkpoint{Next: n + 1}, changes); err == nil {
			_, err = fmt.Fprintln(out, n+1)
		}
	}
	return err
}

// dieCompacting kills this process when the crowded bucket's rows are compacted, and the oldest of its pages is deleted.
func dieCompacting(s *Store) error {
	var steps int
	if err := compactUntil(s, 7, 0, &steps); err != nil {
		return err
	}
	if err := compactUntil(s, 7, steps-len(s.buckets[7].pages)+1, &steps); err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err == nil {
		select {} // until it takes effect
	}
	return err
}

// openSmall opens a store on a Badger of small files and small transactions: what takes long elsewhere, as compactions in
// several transactions, new files and tables, happens all the time.
func openSmall(dir string, o Options) (*Store, error) {
	s, err := Open(dir, o)
	if err == nil {
		publish(s)
		err = s.db.Close()
	}
	if err == nil {
		err = s.openBadger(badgerOptions(dir, o).WithMemTableSize(1 << 20).WithValueThreshold(128 << 10))
	}
	return s, err
}

// compactsAfter reports whether these changes make the crowded bucket due.
func compactsAfter(s *Store, changes []Change) bool {
	b := s.buckets[7]
	b.pages = slices.Clone(b.pages)
	b.add(page{})
	for i := range changes {
		if s.bucketHash.bucketOf(changes[i].Key) == 7 {
			b.delta += Bytes(&changes[i])
		}
	}
	return b.isDue()
}

// halfCompacted reports whether a bucket holds compacted pages beside those they were made of.
func halfCompacted(s *Store) bool {
	return slices.ContainsFunc(s.buckets[:], func(b bucket) bool {
		raw := slices.IndexFunc(b.pages, func(p page) bool { return !p.compacted })
		return raw >= 0 && slices.ContainsFunc(b.pages[raw:], func(p page) bool { return p.compacted })
	})
}

// After any number of kills the store holds the rows of exactly the commits that its checkpoint counts, and no commit
// that was acknowledged is missing. Every other kill is during a compaction or shortly after it. It depends on the machine
// whether such a kill leaves a compaction half done. So in the last rounds the process kills itself in the middle of one.
func TestKill9(t *testing.T) {
	testenv.Long(t)
	dir := t.TempDir()
	rows := make(map[string][]byte) // of all commits found so far
	applied, halves := int64(0), 0
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 10 {
		last, after := "\n", time.Duration(random.IntN(200))*time.Millisecond
		if round%2 == 1 {
			last, after = compactsNext, time.Duration(random.IntN(20_000))*time.Microsecond>>random.IntN(5) // disks differ
		}
		what := "commit"
		if round >= 8 {
			what, last, after = "compaction", "\n", time.Minute // it dies before
		}
		acknowledged := runUntilKilled(t, what, dir, last, after)
		s := open(t, dir)
		next := s.Checkpoint().Next
		if next < acknowledged || next < applied {
			t.Fatalf("round %d: got %d commits, want at least the %d acknowledged and the %d read before", round, next, acknowledged, applied)
		}
		for ; applied < next; applied++ {
			apply(rows, crashChanges(applied, rows))
		}
		if err := sameRows(s, rows); err != nil {
			t.Fatalf("round %d, after commit %d: %v", round, next, err)
		}
		if halfCompacted(s) {
			halves++
		}
		closeChecked(t, s)
	}
	t.Log(applied, "commits;", halves, "compactions left half done")
	if applied < 8 || halves < 2 {
		t.Errorf("got %d commits over all rounds and %d compactions left half done, want some in each, and 2", applied, halves)
	}
}

// runUntilKilled runs commitForever and kills it the given time after it has said something, if it lives so long. It
// returns the last commit that the process said was on disk.
func runUntilKilled(t *testing.T, how, dir, what string, after time.Duration) int64 {
	t.Helper()
	cmd := child(t, how, dir)
	out := &output{want: what, seen: make(chan struct{})}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	select {
	case <-out.seen:
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Errorf("no %q within 20 s", what)
	}
	select {
	case <-ended:
	case <-time.After(after): // a kill at any moment is the point
	}
	_ = cmd.Process.Kill()
	<-ended
	if status, ok := cmd.ProcessState.Sys().(interface{ Signaled() bool }); ok && !status.Signaled() {
		t.Errorf("the process ended by itself: %v", cmd.ProcessState)
	}
	last := int64(0)
	for line := range strings.FieldsSeq(out.said[:strings.LastIndexByte(out.said, '\n')+1]) {
		if line == compactsNext {
			continue
		}
		if _, err := fmt.Sscan(line, &last); err != nil {
			t.Fatalf("the process said: %s", out.said)
		}
	}
	return last
}

// output keeps what is written, and tells when it has something in it. Read it when the process has ended.
type output struct {
	said string
	want string
	once sync.Once
	seen chan struct{}
}

func (w *output) Write(b []byte) (int, error) {
	w.said += string(b)
	if strings.Contains(w.said, w.want) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(b), nil
}

// sameRows compares the store with a model.
func sameRows(s *Store, want map[string][]byte) error {
	got := 0
	err := s.Load(func(key, value []byte) error {
		got++
		if w, ok := want[string(key)]; !ok || !bytes.Equal(value, w) {
			return fmt.Errorf("row %s: got %d bytes, want %d", key, len(value), len(w))
		}
		return nil
	})
	if err == nil && got != len(want) {
		err = fmt.Errorf("got %d rows, want %d", got, len(want))
	}
	return err
}
