package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// beMain makes the test binary the program itself, so that tests run real processes without building another one.
const beMain = "FLOODGATE_TEST_BE_MAIN"

// noAPI lets several analyzers run on one machine: the default is one port. A test that wants an API gives the flag.
const noAPI = "FLOODGATE_API_LISTEN="

// parallel is how many parallel tests run at once, unless -parallel says so: they mostly wait, for sessions to run out and
// for processes that start.
const parallel = 4

// long reports whether tests may take as long as they need, as in CI: FLOODGATE_LONG is set. Without it each test of the
// laboratory is to take a few seconds.
func long() bool { return os.Getenv("FLOODGATE_LONG") != "" }

// sized returns how much of something a test does by default: some, or all that CI wants.
func sized[T any](some, all T) T {
	if long() {
		return all
	}
	return some
}

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		if kind := os.Getenv(beServer); kind != "" {
			os.Exit(runServer(kind, os.Getenv(serverPlan)))
		}
		main()
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0)))) // there is such a flag
	}
	os.Exit(m.Run())
}

// program is a running floodgate process.
type program struct {
	*transcript
	t      testing.TB
	cmd    *exec.Cmd
	exited chan struct{}
}

// transcript is what a program prints on both streams. Any goroutine may use it.
type transcript struct {
	t    testing.TB
	name string

	mu     sync.Mutex
	output []string      // guarded by mu: by line
	part   string        // guarded by mu: of a line that has not ended
	more   chan struct{} // guarded by mu: closed when output grows
}

func newTranscript(t testing.TB, args []string) *transcript {
	t.Helper()
	return &transcript{t: t, name: strings.Join(args, " "), more: make(chan struct{})}
}

// start runs floodgate in a process of its own, which is killed when the test ends.
func start(t testing.TB, args ...string) *program {
	t.Helper()
	return startWith(t, nil, args...)
}

// startWith is start with a standard input.
func startWith(t testing.TB, stdin *os.File, args ...string) *program {
	t.Helper()
	return startAs(t, nil, stdin, args...)
}

// startAs is startWith with more in the environment.
func startAs(t testing.TB, env []string, stdin *os.File, args ...string) *program {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), beMain+"=1", noAPI), env...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	return startCommand(t, cmd)
}

// startCommand runs another build of floodgate likewise.
func startCommand(t testing.TB, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{transcript: newTranscript(t, cmd.Args[1:]), t: t, cmd: cmd, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.transcript, p.transcript
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = p.cmd.Wait() // the exit code is asked for where it matters
		close(p.exited)
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		ended.Wait()
	})
	return p
}

// Write implements io.Writer; it never fails.
func (p *transcript) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.Split(p.part+string(b), "\n")
	p.output = append(p.output, lines[:len(lines)-1]...)
	p.part = lines[len(lines)-1]
	close(p.more)
	p.more = make(chan struct{})
	return len(b), nil
}

// waitFor returns the first submatch of the first line that matches, from the program's start.
func (p *transcript) waitFor(pattern string, d time.Duration) string {
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
			p.t.Fatalf("%s did not print %q within %v:\n%s", p.name, pattern, d, p.text())
		}
	}
}

func (p *transcript) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(append(slices.Clip(p.output), p.part), "\n")
}

// session is floodgate run in this process, beside the test: quicker to start than a program, but without signals.
type session struct {
	*transcript
	stop  context.CancelFunc // what SIGINT and SIGTERM do
	ended chan struct{}
	err   error // once ended
}

// begin runs a subcommand until it ends or the test does.
func begin(t *testing.T, args ...string) *session {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &session{transcript: newTranscript(t, args), stop: stop, ended: make(chan struct{})}
	p := inside(s.transcript, nil)
	var running sync.WaitGroup
	running.Go(func() {
		defer close(s.ended)
		s.err = realMain(ctx, args, p)
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return s
}

// end stops the session, if it hasn't ended, and returns its error and how long it took to end.
func (s *session) end() (took time.Duration, err error) {
	s.t.Helper()
	began := time.Now()
	s.stop()
	err = s.wait(30 * time.Second)
	return time.Since(began), err
}

// wait returns the session's error once it has ended.
func (s *session) wait(maxWait time.Duration) error {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(maxWait):
		s.t.Fatalf("%s did not end within %v:\n%s", s.name, maxWait, s.text())
	}
	return s.err
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

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

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
func eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, d)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// lines returns what was printed so far, by line.
func (p *transcript) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.output)
}
