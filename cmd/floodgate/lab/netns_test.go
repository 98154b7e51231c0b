//go:build lab

package lab

import (
	"errors"
	"io"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// networkSpace is a network namespace of its own, with a loopback device and nothing else. Sockets and programs that are made in do belong
// to it.
type networkSpace struct {
	t    *testing.T
	work chan func()
}

// newNetworkSpace skips the test where a process may not make one.
func newNetworkSpace(t *testing.T) *networkSpace {
	t.Helper()
	s := &networkSpace{t: t, work: make(chan func())}
	made := make(chan error)
	var ended sync.WaitGroup
	ended.Go(func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		made <- syscall.Unshare(syscall.CLONE_NEWNET)
		for f := range s.work {
			f()
		}
	})
	err := <-made
	t.Cleanup(func() { close(s.work); ended.Wait() })
	if err != nil {
		t.Skipf("needs a network namespace: %v", err)
	}
	if out := s.run("ip", "link", "set", "lo", "up"); out != "" {
		t.Fatalf("got %s, want a loopback device that is up", out)
	}
	return s
}

// do calls f in the namespace, and waits for it.
func (s *networkSpace) do(f func()) {
	done := make(chan struct{})
	s.work <- func() { defer close(done); f() }
	<-done
}

// run runs a program there, and returns what it says.
func (s *networkSpace) run(name string, args ...string) (out string) {
	s.do(func() {
		text, err := exec.CommandContext(s.t.Context(), name, args...).CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && s.t.Context().Err() == nil {
			s.t.Errorf("%s: %v", name, err)
		}
		out = string(text)
	})
	return out
}

// forward makes an address of the test's own network reachable there, under the same name.
func (s *networkSpace) forward(address string) {
	s.t.Helper()
	var l net.Listener
	var err error
	s.do(func() { l, err = net.Listen("tcp", address) })
	if err != nil {
		s.t.Fatal(err)
	}
	var open sync.WaitGroup
	s.t.Cleanup(open.Wait)
	s.t.Cleanup(func() { _ = l.Close() })
	open.Go(func() {
		for {
			inside, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { joinConnections(inside, address) })
		}
	})
}

// joinConnections passes on what one connection says to another one, until either ends.
func joinConnections(inside net.Conn, address string) {
	defer inside.Close()
	outside, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer outside.Close()
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(inside, outside)
		_ = inside.Close()
	})
	_, _ = io.Copy(outside, inside)
	_ = outside.Close()
	answers.Wait()
}
