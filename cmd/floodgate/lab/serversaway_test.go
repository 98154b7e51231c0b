//go:build lab

package lab

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestServersLetPassWithoutASidecar: behind each shipped configuration a closed client is refused while the sidecar runs, and
// passes while it is stopped and when it was killed. What passes reaches the backend once, with its body. Where the gate is inside
// the server, the closed client stays closed, and all others pass.
func TestServersLetPassWithoutASidecar(t *testing.T) {
	for _, s := range shippedServers() {
		t.Run(s.name, func(t *testing.T) {
			testenv.Program(t, s.program)
			b := processtest.NewSidecar(t, start, "--record", "--trusted", "127.0.0.1/32") // clients are 127.0.0.2 and 127.0.0.3
			echo := newEcho(t)
			b.Backend = echo.Server
			url := s.begin(t, asks(b))
			b.FloodsThrough(url, "203.0.113.1", "203.0.113.1")
			signal := func(signal syscall.Signal) {
				if err := b.Program.Cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			processtest.Eventually(t, 20*time.Second, "the sidecar stopped", func() bool { return allStopped(t, b.Program.Cmd.Process.Pid) })
			without := func(what string) {
				if s.inside {
					staysClosed(t, what, url)
				} else {
					passes(t, what, url, echo)
				}
			}
			without("stopped")
			signal(syscall.SIGCONT)
			processtest.Eventually(t, 20*time.Second, "refused again once the sidecar goes on", func() bool {
				status, _ := processtest.GetFrom(t, "127.0.0.2", "", url)
				return status == http.StatusTooManyRequests
			})
			b.Program.Kill()
			without("killed")
		})
	}
}

// staysClosed sends requests of the closed client and of others.
func staysClosed(t *testing.T, what, url string) {
	t.Helper()
	for i := range 5 {
		for addr, want := range map[string]int{"127.0.0.2": http.StatusTooManyRequests, fmt.Sprintf("127.0.1.%d", i): http.StatusOK} {
			if status, _ := processtest.GetFrom(t, addr, "", url); status != want {
				t.Errorf("%s, %s: got %d, want %d", what, addr, status, want)
			}
		}
	}
}

// allStopped reports whether SIGSTOP has reached all threads of a process.
func allStopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("got %d threads of process %d, %v", len(threads), pid, err)
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(stat, []byte(") T ")) {
			return false
		}
	}
	return true
}

// TestServersLetPassWhatTheSidecarAnswersBadly puts another program in the sidecar's place, which answers late or nonsense.
func TestServersLetPassWhatTheSidecarAnswersBadly(t *testing.T) {
	for _, s := range shippedServers() {
		t.Run(s.name, func(t *testing.T) {
			testenv.Program(t, s.program)
			impostor, echo := newImpostor(t), newEcho(t)
			impostor.answer.Store(new(answerWith("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")))
			url := s.begin(t, question{sidecar: impostor.address, envoy: impostor.address, feed: impostor.address, backend: echo.Listener.Addr().String()})
			for _, bad := range badAnswers() {
				impostor.answer.Store(&bad.answer)
				passes(t, bad.name, url, echo)
			}
		})
	}
}

// badAnswer is what an impostor does with a connection once it has read a question.
type badAnswer struct {
	name   string
	answer func(c net.Conn, question string)
}

func badAnswers() []badAnswer {
	const long = 256 << 10
	bad := []badAnswer{
		{"no answer", func(c net.Conn, _ string) { _, _ = io.Copy(io.Discard, c) }},
		{"a refusal that is late", func(c net.Conn, question string) {
			time.Sleep(2 * time.Second)
			status := "429 Too Many Requests"
			if strings.Contains(question, "/auth_request") {
				status = "403 Forbidden"
			}
			answerWith("HTTP/1.1 "+status+"\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n")(c, question)
		}},
		{"a closed connection", func(net.Conn, string) {}},
		{"another protocol", answerWith("SSH-2.0-OpenSSH_9.2\r\n\x00\x01\xff\xfe")},
		{"half a status line", answerWith("HTTP/1.1 42")},
		{"half a header", answerWith("HTTP/1.1 429 Too Many Requests\r\nRetry-Af")},
		{"a header that is too long", answerWith("HTTP/1.1 429 Too Many Requests\r\n" + strings.Repeat("A: "+strings.Repeat("a", 1020)+"\r\n", long/1024))},
		{"a header field without a name", answerWith("HTTP/1.1 429 Too Many Requests\r\n: a\r\n\x00\r\n")},
		{"zeros", answerWith(strings.Repeat("\x00", long))},
	}
	for _, status := range []int{300, 301, 302, 307, 401, 402, 404, 405, 418, 422, 451, 500, 502, 503, 504, 511, 599, 999} {
		bad = append(bad, badAnswer{fmt.Sprint("status ", status), answerWith(
			fmt.Sprintf("HTTP/1.1 %d Nonsense\r\nLocation: http://127.0.0.1:1/\r\nRetry-After: 60\r\nContent-Length: 4\r\n\r\noops", status))})
	}
	return bad
}

func answerWith(text string) func(net.Conn, string) {
	return func(c net.Conn, _ string) { _, _ = io.WriteString(c, text) }
}

// impostor answers in the place of a sidecar.
type impostor struct {
	address string
	answer  atomic.Pointer[func(c net.Conn, question string)]
}

func newImpostor(t *testing.T) *impostor {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &impostor{address: l.Addr().String()}
	var serving sync.WaitGroup
	ending := make(chan struct{})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answered := make(chan struct{})
			serving.Go(func() {
				defer close(answered)
				i.serve(c)
			})
			serving.Go(func() {
				select {
				case <-answered:
				case <-ending:
				}
				_ = c.Close() // the question has its answer, or never will
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(ending)
		serving.Wait()
	})
	return i
}

// serve answers one question.
func (i *impostor) serve(c net.Conn) {
	var question []byte
	part := make([]byte, 4096)
	for !bytes.Contains(question, []byte("\r\n\r\n")) {
		n, err := c.Read(part)
		if err != nil {
			return
		}
		question = append(question, part[:n]...)
	}
	(*i.answer.Load())(c, string(question))
}

// echo is a backend that answers with the method and the body, and counts.
type echo struct {
	*httptest.Server

	served atomic.Int64
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	e := &echo{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.served.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
	}))
	t.Cleanup(e.Close)
	return e
}

// passes sends requests of the closed client one after the other, and expects each at the backend once. How long they take
// is for the reader: a busy machine is slow.
func passes(t *testing.T, what, url string, e *echo) {
	t.Helper()
	var took []time.Duration
	for range 5 {
		before, began := e.served.Load(), time.Now()
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).DialContext,
		}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"a", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Errorf("%s: got %v after %v, want it to pass", what, err, time.Since(began))
			return
		}
		body, err := io.ReadAll(resp.Body)
		took = append(took, time.Since(began))
		_ = resp.Body.Close()
		if n := e.served.Load() - before; err != nil || resp.StatusCode != http.StatusOK || string(body) != "POST /a body" || n != 1 {
			t.Errorf("%s: got %s, %.80q, %v, and %d requests at the backend; want it to pass once, as it was sent", what, resp.Status, body, err, n)
			return
		}
	}
	t.Logf("%s: passes after %v at most", what, slices.Max(took).Round(100*time.Microsecond))
}
