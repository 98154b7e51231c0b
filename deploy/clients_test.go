package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/feed"
	"github.com/509da70d/floodgate/schemas"
)

// runIn runs a program of others in a directory, and fails the test with what it says if it fails.
func runIn(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Program(t, program), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// TestClients: the gates in other languages pass their tests: the vectors of testdata/feed and testdata/ids, and their own.
func TestClients(t *testing.T) {
	t.Run("Python", func(t *testing.T) { runIn(t, "clients/python", "python3", "-B", "-m", "unittest") })
	t.Run("Node", func(t *testing.T) { runIn(t, "clients/node", "node", "--test") })
}

// TestClientsGiveAKey: at a TCP address a gate in another language follows the feed with a key, and gets the kinds that it asks for. One
// with a wrong key says so.
func TestClientsGiveAKey(t *testing.T) {
	now := time.Now()
	b := board.New(board.Options{FirstChange: 1})
	b.Resize(1)
	b.Loaded(0)
	for _, caller := range []schemas.Caller{{Kind: "ip", ID: "192.0.2.1"}, {Kind: "key", ID: "a\xff\"\u2028"}} {
		b.Apply([]schemas.Decision{{Rule: "r", Caller: caller, Mode: schemas.ModeEnforce, CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano()}}, now)
	}
	sum := sha256.Sum256([]byte("secret"))
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("reader "+hex.EncodeToString(sum[:])+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := feed.OpenKeys(file, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f := feed.New(feed.Options{Board: b, Keys: keys})
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Cleanup(f.Close)
	address := server.Listener.Addr().String()
	t.Run("Python", func(t *testing.T) {
		runIn(t, "clients/python", "python3", "-B", "-c", `
import sys, time, floodgate
good, bad = floodgate.Gate(sys.argv[1], key="secret", kinds=["key", "user"]), floodgate.Gate(sys.argv[1], key="wrong")
good.start(), bad.start()
while not (good.check(("key", b'a\xff"\xe2\x80\xa8')).closed and "401" in bad.status()["error"]):
    time.sleep(0.01)
assert not good.check(("ip", b"192.0.2.1")).closed and good.status()["held"] == 1, good.status()
`, address)
	})
	t.Run("Node", func(t *testing.T) {
		runIn(t, "clients/node", "node", "-e", `
const assert = require('node:assert/strict'), { Gate } = require('./floodgate.js'), feed = process.argv[1];
const good = new Gate(feed, { key: 'secret', kinds: ['key', 'user'] }).start(), bad = new Gate(feed, { key: 'wrong' }).start();
const timer = setInterval(() => {
  if (!good.check([['key', 'a\xff"\xe2\x80\xa8']]).closed || !bad.status().error.includes('401')) return;
  assert.ok(!good.check([['ip', '192.0.2.1']]).closed && good.status().held === 1);
  clearInterval(timer);
  good.close();
  bad.close();
}, 10);
`, address)
	})
}
