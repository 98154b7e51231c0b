package daemon

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/store"
)

// While a disk is full, positions cannot be saved and old parts of the log cannot be removed. Both are tried each second or more often, and the
// log, which may be on that disk, says so once.
func TestAFullDiskIsSaidOnce(t *testing.T) {
	var said strings.Builder
	logger := slog.New(slog.NewTextHandler(&said, nil))
	var full atomic.Bool
	full.Store(true)
	sync := func() error {
		if full.Load() {
			return store.ErrNoSpace
		}
		return nil
	}
	kept := newKeptLog(t, 100_000)
	kept.config.Logger, kept.config.Sync = logger, sync
	positions, err := openPositions(t.TempDir(), sync)
	if err != nil {
		t.Fatal(err)
	}
	defer positions.Close()
	in := &intake{daemon: &daemon{logger: logger}, positions: positions}
	synctest.Test(t, func(t *testing.T) {
		go in.savePositions(t.Context())
		go kept.run(t.Context())
		time.Sleep(time.Minute)
		full.Store(false)
		time.Sleep(time.Minute)
	})
	for _, want := range []string{"cannot save positions", "positions are saved again", "cannot remove old parts", "old parts of the log are removed again"} {
		if got := strings.Count(said.String(), want); got != 1 {
			t.Errorf("%q: got it %d times, want once", want, got)
		}
	}
}
