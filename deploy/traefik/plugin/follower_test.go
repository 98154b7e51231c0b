package plugin

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// TestRoutersShareAFollower: all routers with one feed share a follower, also the next configuration's. It ends when no router uses it.
func TestRoutersShareAFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := CreateConfig()
	c.Feed = "unix:" + path
	use := func() context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := New(ctx, http.NotFoundHandler(), c, ""); err != nil {
			t.Fatal(err)
		}
		return cancel
	}
	endFirst, endSecond := use(), use()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		t.Fatal(err)
	}
	followers.Lock()
	f := followers.byFeed[c.Feed+" "]
	users := f.users
	followers.Unlock()
	if users != 2 {
		t.Errorf("got %d users of the follower, want 2", users)
	}
	if _, err := conn.Write([]byte("HTTP/1.0 200 OK\r\n\r\n" + `{"type":"start","version":1}` + "\n")); err != nil {
		t.Fatal(err)
	}
	endFirst()
	endSecond()
	endThird := use() // the next configuration
	used := func() int {
		followers.Lock()
		defer followers.Unlock()
		return f.users
	}
	for used() != 1 {
		time.Sleep(time.Millisecond)
	}
	f.endUnused()
	followers.Lock()
	kept := followers.byFeed[f.name] == f
	followers.Unlock()
	if !kept {
		t.Fatal("the follower has ended, want it kept for the next configuration")
	}
	endThird()
	for used() != 0 {
		time.Sleep(time.Millisecond)
	}
	f.endUnused()
	if _, err := conn.Write([]byte(`{"type":"heartbeat","at":1}` + "\n")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || err.Error() != "EOF" {
		t.Errorf("got %v, want the connection closed", err)
	}
}
