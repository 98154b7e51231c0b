package analyzer

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// partitions returns those that the member owns.
func (m *member) partitions() (owned []int) {
	for _, s := range m.Stats() {
		owned = append(owned, s.Partition)
	}
	return owned
}

// running waits until the member decides on all of the given partitions, and returns how long it took. It asks first which ones the member
// owns: a partition that is given to it after Ready has answered would not have been asked about.
func (c *cluster) running(m *member, want ...int) time.Duration {
	c.t.Helper()
	began := time.Now()
	for ; ; time.Sleep(time.Millisecond) {
		if slices.Equal(m.partitions(), want) && m.Ready(time.Now()) {
			return time.Since(began)
		}
		if time.Since(began) > 30*time.Second {
			c.t.Fatalf("not running within 30s: %+v", m.Stats())
		}
	}
}

// TestAPlannedHandOver reports how long partitions are without an owner when an analyzer is stopped on purpose: from the
// stop until the other one decides on them.
func TestAPlannedHandOver(t *testing.T) {
	testenv.Long(t)
	onEachBroker(t, func(t *testing.T, c *cluster) {
		t.Helper()
		stays := c.join(t.TempDir())
		c.send(1000)
		c.await(stays)
		dir := t.TempDir()
		var took []time.Duration
		for range 5 {
			leaves := c.join(dir)
			c.await(stays, leaves)
			c.send(1000)
			c.await(stays, leaves)
			began := time.Now()
			leaves.stop()
			c.running(stays, 0, 1, 2, 3)
			took = append(took, time.Since(began))
			if err := <-leaves.done; err != nil {
				t.Error(err)
			}
		}
		slices.Sort(took)
		t.Logf("planned hand-over: median %v, all %v", took[2].Round(time.Millisecond), took)
		c.leave(stays)
		c.compare(map[int]string{0: stays.dir, 1: stays.dir, 2: stays.dir, 3: stays.dir})
	})
}

// TestPartitionsGoWhereTheirCountsAre, also after a restart of all.
func TestPartitionsGoWhereTheirCountsAre(t *testing.T) {
	testenv.Long(t)
	onEachBroker(t, func(t *testing.T, c *cluster) {
		t.Helper()
		a, b := c.join(t.TempDir()), c.join(t.TempDir())
		c.await(a, b)
		for range 5 {
			c.send(100)
		}
		c.await(a, b)
		before := map[string][]int{a.dir: a.partitions(), b.dir: b.partitions()}
		c.leave(a)
		c.leave(b)
		b2, a2 := c.join(b.dir), c.join(a.dir)
		c.await(a2, b2)
		if now := map[string][]int{a.dir: a2.partitions(), b.dir: b2.partitions()}; !maps.EqualFunc(now, before, slices.Equal) {
			t.Errorf("after a restart: got %v, want %v", now, before)
		}
		for _, m := range []*member{a2, b2} {
			for _, s := range m.Stats() {
				if s.Fold.Frames != 0 {
					t.Errorf("partition %d: got %d frames folded again, want none", s.Partition, s.Fold.Frames)
				}
			}
		}
		c.leave(a2)
		c.leave(b2)
	})
}

func TestOffsetsAreKeptAsAHint(t *testing.T) {
	dir := t.TempDir()
	if h := readOffsetHints(dir); len(h.offsets) != 0 {
		t.Errorf("new: got %v, want nothing", h.offsets)
	}
	h := readOffsetHints(filepath.Join(dir, "new"))
	h.offsets = map[int]int64{0: 5, 7: 1 << 50, 9: 3}
	if err := h.write(time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"0", "7"} { // 9 has no store
		if err := os.Mkdir(filepath.Join(h.dir, p), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h = readOffsetHints(h.dir)
	if got, want := h.present(), map[int]int64{0: 5, 7: 1 << 50}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := os.WriteFile(filepath.Join(h.dir, hintFile), []byte("noise\n1\n2 x\n3 -4\n5 6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := readOffsetHints(h.dir).offsets, map[int]int64{5: 6}; !maps.Equal(got, want) {
		t.Errorf("amid noise: got %v, want %v", got, want)
	}
}
