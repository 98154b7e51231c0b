//go:build unix

package gate

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
)

// A process is stopped over the end of a closure, and goes on with every processor busy asking: for how long does it
// refuse on the closure that has ended? Package documentation says until the overdue ticker runs.
func TestStoppedProcess(t *testing.T) {
	if os.Getenv("FLOODGATE_TEST_STOPPED") != "" {
		beStopped()
		return
	}
	testenv.Long(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestStoppedProcess$")
	child.Env = append(os.Environ(), "FLOODGATE_TEST_STOPPED=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		switch text := lines.Text(); {
		case text == "asking":
			_ = child.Process.Signal(syscall.SIGSTOP)
			time.Sleep(stoppedFor) // another process is to do nothing: no virtual time
			_ = child.Process.Signal(syscall.SIGCONT)
		case strings.HasPrefix(text, "served "):
			wrong, err := time.ParseDuration(strings.TrimPrefix(text, "served "))
			if err != nil || wrong > 250*time.Millisecond {
				t.Errorf("%s after it went on (%v), want some 10 ms at most", text, err)
			}
			t.Logf("an ended closure was served for %v after the process went on", wrong)
		}
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}

// stoppedFor outlasts the closure of beStopped, and the second for which a coarse clock is believed.
const stoppedFor = 2500 * time.Millisecond

// beStopped asks, on every processor at once, about a closure that ends while the process is stopped.
func beStopped() {
	s := New(exact())
	g := s.Gate("key")
	ctx, cancel := context.WithCancel(context.Background())
	var clock, asking, begun sync.WaitGroup
	clock.Go(func() { s.RunClock(ctx) })
	until := time.Now().Add(1500 * time.Millisecond)
	s.Apply([]schemas.Decision{decision("a", time.Now(), until)})
	var wrong atomic.Int64
	begun.Add(runtime.GOMAXPROCS(0))
	for range runtime.GOMAXPROCS(0) {
		asking.Go(func() {
			last := time.Now()
			begun.Done()
			var resumed time.Time
			for resumed.IsZero() && last.Before(until.Add(10*time.Second)) || last.Sub(resumed) < 200*time.Millisecond {
				asked := time.Now()
				if asked.Sub(last) > time.Second {
					resumed = asked
				}
				last = asked
				if g.Closed("abc") && asked.After(until) && !resumed.IsZero() {
					wrong.Store(max(wrong.Load(), int64(time.Since(resumed))))
				}
			}
		})
	}
	begun.Wait()
	fmt.Println("asking")
	asking.Wait()
	cancel()
	clock.Wait()
	fmt.Printf("served %v\n", time.Duration(wrong.Load()))
}
