package analyzer

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// held is how far the stores below a directory reach, by partition: what the group's balancer prefers members by. It is
// kept in a file beside the stores, for the next start. A hint and no more: what a store holds is in the store.
type held struct {
	dir     string
	offsets map[int]int64
	written time.Time
}

// heldFile is the name of the hint: lines of partition and next offset.
const heldFile = "held"

// heldEvery is how often the hint is written while offsets move.
const heldEvery = 5 * time.Second

// readHeld reads the hint; without one that can be read, nothing is held.
func readHeld(dir string) held {
	h := held{dir: dir, offsets: make(map[int]int64)}
	f, err := os.Open(filepath.Join(dir, heldFile))
	if err != nil {
		return h
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var p int
		var next int64
		if n, err := fmt.Sscanf(lines.Text(), "%d %d", &p, &next); err == nil && n == 2 && next >= 0 {
			h.offsets[p] = next
		}
	}
	return h
}

// write replaces the file. It is not synced: an old hint does no harm.
func (h *held) write(now time.Time) error {
	h.written = now
	if h.dir == "" {
		return nil
	}
	if err := os.MkdirAll(h.dir, 0o750); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	var b []byte
	for p, next := range h.offsets {
		b = fmt.Appendf(b, "%d %d\n", p, next)
	}
	path := filepath.Join(h.dir, heldFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("write offsets held: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write offsets held: %w", err)
	}
	return nil
}

// present returns the offsets of stores that are still there.
func (h *held) present() map[int]int64 {
	offsets := make(map[int]int64, len(h.offsets))
	for p, next := range h.offsets {
		if _, err := os.Stat(filepath.Join(h.dir, strconv.Itoa(p))); err == nil {
			offsets[p] = next
		}
	}
	return offsets
}
