package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/gate/board"
)

// TestTheSocketOfTheFeedIsForAGroup: a user of the group connects, others do not. Root may try to be both.
func TestTheSocketOfTheFeedIsForAGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be two other users")
	}
	path := filepath.Join(t.TempDir(), "feed")
	for dir := path; dir != "/"; {
		if dir = filepath.Dir(dir); dir != os.TempDir() && len(dir) > len(os.TempDir()) {
			if err := os.Chmod(dir, 0o755); err != nil { // the other users must reach the socket
				t.Fatal(err)
			}
		}
	}
	flags := gateFeedFlags{listen: "unix:" + path, group: "daemon"}
	s, err := flags.build(board.New(board.Options{}), false, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	s.begin(ctx, g)
	const nobody, daemon, others = 65534, 1, 65534
	if err := connectAs(nobody, daemon, path); err != nil {
		t.Errorf("a user of the group: got %v, want none", err)
	}
	if err := connectAs(nobody, others, path); !errors.Is(err, syscall.EACCES) {
		t.Errorf("another user: got %v, want EACCES", err)
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	flags.group = "no-such-group"
	if err := s.open(); !command.IsUsage(err) {
		t.Errorf("a group that does not exist: got %v, want a usage error", err)
	}
}

// connectAs connects to a Unix socket as a user of one group.
func connectAs(uid, gid uintptr, path string) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // only this thread becomes another user, and it ends with the goroutine
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETRESGID, gid, gid, gid)
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			result <- errno
			return
		}
		c, err := net.Dial("unix", path)
		if err == nil {
			err = c.Close()
		}
		result <- err
	}()
	return <-result
}
