//go:build lab && linux

package lab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// TestServeOnAFullDisk fills the disk of serve's data, and makes room again: serve says that it waits, keeps answering as it has decided, and
// counts each line once. So does one that is killed meanwhile, and starts on the full disk or says why it cannot.
func TestServeOnAFullDisk(t *testing.T) {
	t.Parallel()
	h := processtest.NewHost(t, start)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=600m"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	h.Data = filepath.Join(disk, "data")
	h.WriteRules("  - {name: per-address, callers: ip, limit: 1000, window: 8760h, algorithm: fixed}\n")
	h.Start()
	h.Requests("192.0.2.1", 1000)
	h.AwaitAnswer("192.0.2.1", 403)
	fillDisk(t, filepath.Join(disk, "filler"))
	rnd, lines := rand.New(rand.NewPCG(1, 2)), 1000
	more := func(n int) {
		var text strings.Builder
		for range n {
			text.WriteString(processtest.Line(fmt.Sprintf("198.51.%d.%d", rnd.IntN(100), rnd.IntN(250)), time.Now()))
		}
		h.Append(text.String())
		lines += n
	}
	processtest.Eventually(t, time.Minute, "serve says that it waits", func() bool {
		more(2000)
		_, status := processtest.Get(t.Context(), h.Metrics+"/readyz")
		return status == 503
	})
	if status, _ := h.Ask("192.0.2.1"); status != 403 {
		t.Errorf("on a full disk: got %d, want it closed still", status)
	}
	h.Passes("192.0.2.2")
	more(20_000)
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	h.AwaitMetric("floodgate_requests_total", float64(lines))
	processtest.AwaitReady(t, h.Metrics, 200, "")

	fillDisk(t, filepath.Join(disk, "filler"))
	more(20_000)
	h.Program.Kill()
	again := h.Run()
	again.WaitFor(`(msg=reading|no space left on device)`, 20*time.Second)
	again.Kill()
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	h.Start()
	h.Requests("192.0.2.3", 1000) // the last lines
	lines += 1000
	h.AwaitAnswer("192.0.2.3", 403)
	if code := h.Program.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, h.Program.Text())
	}
	out, err := runCommand("audit", "--data", h.Data)
	if err != nil || !strings.Contains(out, "to the unit") || !strings.Contains(out, fmt.Sprintf("%d requests", lines)) {
		t.Errorf("audit: got %v and\n%s\nwant %d requests, equal to the unit", err, out, lines)
	}
}

// fillDisk writes a file until there is no room.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 16
		}
	}
}
