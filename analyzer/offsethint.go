package analyzer

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// offsetHints says, by partition, how far the stores below a directory reach. The group's balancer prefers members whose stores reach
// further. The hints are kept in a file beside the stores, for the next start. They are only hints: the stores themselves say what they
// hold.
type offsetHints struct {
	dir     string
	offsets map[int]int64
	written time.Time
}

// hintFile is the name of the file of hints. Each line has a partition and its next offset.
const hintFile = "held"

// hintEvery is how often the file is written while offsets move.
const hintEvery = 5 * time.Second

// readOffsetHints reads the file of hints. If it cannot be read, there are no hints.
func readOffsetHints(dir string) offsetHints {
	h := offsetHints{dir: dir, offsets: make(map[int]int64)}
	f, err := os.Open(filepath.Join(dir, hintFile))
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
func (h *offsetHints) write(now time.Time) error {
	h.written = now
	if h.dir == "" {
		return nil
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	var b []byte
	for p, next := range h.offsets {
		b = fmt.Appendf(b, "%d %d\n", p, next)
	}
	path := filepath.Join(h.dir, hintFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("write offset hint: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write offset hint: %w", err)
	}
	return nil
}

// present returns the offsets of stores that are still there.
func (h *offsetHints) present() map[int]int64 {
	offsets := make(map[int]int64, len(h.offsets))
	for p, next := range h.offsets {
		if _, err := os.Stat(filepath.Join(h.dir, strconv.Itoa(p))); err == nil {
			offsets[p] = next
		}
	}
	return offsets
}
