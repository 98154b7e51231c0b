//go:build lab

package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// brokenSync makes each msync of a process fail with EIO until the func that is returned is called, which returns what was
// traced.
func brokenSync(t *testing.T, p *processtest.Program) (mend func() string) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("strace", "-f", "-p", fmt.Sprint(p.Cmd.Process.Pid), "-e", "trace=msync,munmap", "-e", "inject=msync:error=EIO", "-o", trace)
	strace := processtest.Start(t, cmd)
	if strace.WaitFor(`(attached|not permitted)`, 10*time.Second) == "not permitted" {
		t.Skip("needs the right to trace a process: " + strace.Text())
	}
	return func() string {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil { // it lets go
			t.Error(err)
		}
		<-strace.Exited
		text, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// TestADiskThatFailsToSync is fault row 16: for a while no msync succeeds. The process lives, and says that it doesn't
// decide. It believes nothing that it could not sync, and tries no sync again to see whether it works now, because it would
// say yes: an owner opens its store anew instead, or builds it anew. Ten seconds later all is counted, to the unit.
func TestADiskThatFailsToSync(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	testenv.Program(t, "strace")
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(path, []byte(killRules), 0o600); err != nil {
		t.Fatal(err)
	}
	broker := start(t, "broker", "--listen", "127.0.0.1:0", "--min-session-timeout", "1s").WaitFor(`serving Kafka on (\S+)`, 10*time.Second)
	k := killRun{broker: broker, session: "2s"}
	p, url := k.analyze(t, dir, path, 0)
	g := newGenerator(t, broker, "floodgate.requests", rand.Uint64())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g.sendUntilReady(ctx, url)
	sendFor(ctx, g, 300*time.Millisecond)
	mend := brokenSync(t, p)
	processtest.Eventually(t, 10*time.Second, "not ready: its owners can neither commit nor close their stores", func() bool {
		g.send(ctx)
		_, status := processtest.Get(ctx, url+"/readyz")
		return status == 503
	})
	sendFor(ctx, g, 2*time.Second)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if _, status := processtest.Get(ctx, url+path); status != want {
			t.Errorf("%s with a broken disk: got %d, want %d:\n%s", path, status, want, p.Text())
		}
	}
	trace := mend()
	mended := time.Now()
	g.sendUntilReady(ctx, url)
	awaitCaughtUp(ctx, t, g.client, url, g.topic)
	took := time.Since(mended)
	owners := strings.Count(p.Text(), `msg="owner failed, starting another"`)
	t.Logf("%d syncs failed, %d owners replaced; all counted %v after the disk was mended", strings.Count(trace, "EIO"), owners, took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("rebuilt after %v, want at most 10s", took)
	}
	if !strings.Contains(trace, "EIO") || owners == 0 {
		t.Errorf("nothing failed:\n%s", p.Text())
	}
	wantNoSyncAgain(t, trace)
	if code := p.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d, want 0:\n%s", code, p.Text())
	}
	compareStores(t, filepath.Join(dir, "counts"), g.truth)
	out, err := runCommand("audit", "--brokers", broker, "--rules", path, "--data", filepath.Join(dir, "counts"), "--topic-name", "requests="+g.topic)
	if err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
	if t.Failed() {
		t.Log(p.Text())
	}
}

// sendFor sends, and leaves the analyzer some room.
func sendFor(ctx context.Context, g *generator, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		g.send(ctx)
	}
}

// wantNoSyncAgain checks that a mapping whose sync failed is at most synced once more before it is given up: Badger does
// when it closes a file.
func wantNoSyncAgain(t *testing.T, trace string) {
	t.Helper()
	call := regexp.MustCompile(`(msync|munmap)\((0x[0-9a-f]+)`)
	failed := make(map[string]int)
	for line := range strings.Lines(trace) {
		m := call.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[1] == "munmap":
			delete(failed, m[2])
		default:
			if failed[m[2]]++; failed[m[2]] > 2 {
				t.Errorf("mapping %s was synced %d times", m[2], failed[m[2]])
			}
		}
	}
}
