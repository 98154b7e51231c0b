package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/filelog"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// The disk is full when the log is to be synced. serve goes on: its stores and positions wait until there is room, and then all is synced.
func TestAFullDiskDoesNotEndServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system to fill up cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	log, err := filelog.Open(filepath.Join(dir, "log"), filelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	h := &host{log: log, fail: func(err error) { t.Errorf("serve ends: %v", err) }}
	if _, err := log.EnsureTopics(t.Context(), kafkaio.TopicSpec{Name: "requests", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Produce(t.Context(), "requests", 0, kafkaio.Message{Value: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: got %v, want it full", err)
	}
	if err := h.sync(); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("sync on a full disk: got %v, want %v, for which owners wait", err, store.ErrNoSpace)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := h.sync(); err != nil {
		t.Errorf("sync when there is room again: got %v, want none", err)
	}
}
