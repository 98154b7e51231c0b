package httpd

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAUnixSocketThatADeadProcessLeftIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen("listen", "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("listen", "unix:"+path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("beside a living one: got %v, want it to say so", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it is one
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Listen("listen", "unix:"+path)
	if err != nil {
		t.Fatalf("after it: got %v, want to take its place", err)
	}
	_ = again.Close()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("listen", "unix:"+file); err == nil {
		t.Error("over a file: got a listener, want an error")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("got %q and %v, want the file as it was", b, err)
	}
}
