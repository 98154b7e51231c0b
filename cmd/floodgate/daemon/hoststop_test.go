package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// A log without room takes nothing of what was read and recorded. serve stops in 5 s all the same: it is read again at the next start.
func TestServeStopsThoughItsLogHasNoRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	access, data := filepath.Join(dir, "access.log"), filepath.Join(dir, "data")
	if err := os.WriteFile(access, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused, said := io.Pipe()
	logger := slog.New(slog.NewTextHandler(said, nil))
	c := serveConfig{keep: command.Duration(defaultKeep), keepBytes: defaultKeepBytes}
	cmd := new(cobra.Command)
	c.add(cmd)
	if err := errors.Join(cmd.ParseFlags([]string{"--file", access, "--data", data, "--listen=127.0.0.1:0", "--metrics-listen=", "--api-listen=", "--from-start"}), c.check()); err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	go func() {
		text := bufio.NewScanner(refused)
		for text.Scan() && !strings.Contains(text.Text(), "cannot append, trying again") {
		}
		close(waits)
		_, _ = io.Copy(io.Discard, refused) // until said is closed
	}()
	defer said.Close()
	h, err := c.open(t.Context(), logger)
	if err != nil {
		t.Fatal(err)
	}
	h.keeper.config.MaxBytes = 0
	if err := h.keeper.look(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n", time.Now().Format("02/Jan/2006:15:04:05 -0700"))
	if err := os.WriteFile(access, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	go func() { ended <- h.run(ctx, newServeView(io.Discard, false, h)) }()
	<-waits
	began := time.Now()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stop: got %v, want no error", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stop: took %v, want up to 5s", took)
	}
}
