package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// beMain makes the test binary the program itself, so that tests run real processes without building another one.
const beMain = "FLOODGATE_TEST_BE_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a running floodgate process.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}

	mu     sync.Mutex
	output []string      // guarded by mu: both streams, by line
	more   chan struct{} // guarded by mu: closed when output grows
}

// start runs floodgate in a process of its own, which is killed when the test ends.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(os.Args[0], args...), exited: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), beMain+"=1")
	out, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var read sync.WaitGroup
	read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.add(lines.Text())
		}
	})
	read.Go(func() {
		_ = p.cmd.Wait() // the exit code is asked for where it matters
		w.Close()
		close(p.exited)
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		read.Wait()
	})
	return p
}

func (p *program) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output = append(p.output, line)
	close(p.more)
	p.more = make(chan struct{})
}

// waitFor returns the first submatch of the first line that matches, from the program's start.
func (p *program) waitFor(pattern string, d time.Duration) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(d)
	for i := 0; ; {
		p.mu.Lock()
		lines, more := p.output[i:], p.more
		i = len(p.output)
		p.mu.Unlock()
		for _, line := range lines {
			if m := re.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
		}
		select {
		case <-more:
		case <-deadline:
			p.t.Fatalf("%v did not print %q within %v:\n%s", p.cmd.Args[1:], pattern, d, p.text())
		}
	}
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.output, "\n")
}

// kill is kill -9.
func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// stop asks the program to end and returns its exit code.
func (p *program) stop(signal os.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%v did not stop within 30s of %v:\n%s", p.cmd.Args[1:], signal, p.text())
	}
	return p.cmd.ProcessState.ExitCode()
}

// get returns the body of an HTTP answer and its status; 0 if there was none.
func get(ctx context.Context, url string) (string, int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error(), 0
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error(), 0
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body) // what was read is compared
	return string(b), resp.StatusCode
}

// metricSum adds up a metric over all its labels.
func metricSum(body, name string) (sum float64) {
	for line := range strings.Lines(body) {
		var v float64
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err == nil {
			sum += v
		}
	}
	return sum
}

// eventually asks until ok, or fails the test.
func eventually(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, d)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
