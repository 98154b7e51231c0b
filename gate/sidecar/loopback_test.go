package sidecar_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// beClient makes the test binary a proxy that asks a sidecar: its value is a loopbackPlan.
const beClient = "FLOODGATE_TEST_BE_PROXY"

// loopbackPlan is a proxy: so many connections, each asking at this interval.
type loopbackPlan struct {
	Address     string
	Connections int
	Every       time.Duration
	Questions   int // over each connection
}

func TestMain(m *testing.M) {
	if plan := os.Getenv(beClient); plan != "" {
		os.Exit(runProxy(plan))
	}
	os.Exit(m.Run())
}

// BenchmarkLoopback is what a proxy waits for: 20 000 questions a second over eight connections that stay, as nginx and
// Envoy keep them. The proxy is a process of its own, which does nothing but write, read and look at the clock. It reports
// percentiles of the wait, from before the question is written until the answer is read; beside them those of a server
// that says yes without reading what it was asked, which is what this machine takes for anybody. Run it with -benchtime
// 100000x.
func BenchmarkLoopback(b *testing.B) {
	for name, serve := range map[string]func(testing.TB, net.Listener) func(){"sidecar": serveSidecar, "yes": serveYes} {
		b.Run(name, func(b *testing.B) {
			waits, asked := askServer(b, serve, loopbackPlan{Connections: 8, Every: 400 * time.Microsecond, Questions: b.N/8 + 1})
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(asked, "asked/s")
			for name, q := range map[string]float64{"p50-µs": 0.5, "p99-µs": 0.99, "p99.9-µs": 0.999} {
				b.ReportMetric(float64(waits[int(q*float64(len(waits)))])/float64(time.Microsecond), name)
			}
		})
	}
}

// TestLoopback is the same for a moment: each question has an answer.
func TestLoopback(t *testing.T) {
	for name, serve := range map[string]func(testing.TB, net.Listener) func(){"sidecar": serveSidecar, "yes": serveYes} {
		waits, _ := askServer(t, serve, loopbackPlan{Connections: 3, Every: time.Millisecond, Questions: 20})
		if len(waits) != 60 || waits[0] <= 0 {
			t.Errorf("%s: got %d answers, the first after %v, want 60", name, len(waits), waits[0])
		}
	}
}

// serveSidecar serves a sidecar's HTTP until it is stopped.
func serveSidecar(tb testing.TB, l net.Listener) (stop func()) {
	tb.Helper()
	server := &http.Server{Handler: newSidecar(tb, nil, "ip:203.0.113.9").Handler(), ReadHeaderTimeout: time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return func() {
		_ = server.Close() // it is only to end
		serving.Wait()
	}
}

// serveYes answers whatever arrives with 200.
func serveYes(_ testing.TB, l net.Listener) (stop func()) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				question := make([]byte, 4096)
				for {
					if _, err := c.Read(question); err != nil {
						return
					}
					if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")); err != nil {
						return
					}
				}
			})
		}
	})
	return func() {
		_ = l.Close()
		serving.Wait()
	}
}

// askServer lets a proxy ask and returns how long it waited for each answer, sorted, and how many a second it asked.
func askServer(tb testing.TB, serve func(testing.TB, net.Listener) func(), plan loopbackPlan) (waits []time.Duration, asked float64) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer serve(tb, l)()
	plan.Address = l.Addr().String()
	text, err := json.Marshal(plan)
	if err != nil {
		tb.Fatal(err)
	}
	proxy := exec.CommandContext(tb.Context(), os.Args[0])
	proxy.Env = append(os.Environ(), beClient+"="+string(text))
	proxy.Stderr = os.Stderr
	out, err := proxy.Output()
	if err != nil {
		tb.Fatalf("proxy: %v", err)
	}
	var answer struct {
		Waits []time.Duration
		Took  time.Duration
	}
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Waits) == 0 {
		tb.Fatalf("proxy: got %d answers, %v", len(answer.Waits), err)
	}
	return slices.Sorted(slices.Values(answer.Waits)), float64(len(answer.Waits)) / answer.Took.Seconds()
}

// runProxy is the main function of the proxy.
func runProxy(text string) int {
	var plan loopbackPlan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	waits, errs := make([][]time.Duration, plan.Connections), make([]error, plan.Connections)
	began := time.Now()
	var asking sync.WaitGroup
	for i := range waits {
		asking.Go(func() {
			waits[i], errs[i] = askEvery(plan, time.Duration(i)*plan.Every/time.Duration(plan.Connections))
		})
	}
	asking.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"Waits": slices.Concat(waits...), "Took": took}); err != nil {
		return 1
	}
	return 0
}

// askEvery asks over one connection, beginning after phase, and returns how long each answer took. A question that would
// be late for its turn is asked at once.
func askEvery(plan loopbackPlan, phase time.Duration) ([]time.Duration, error) {
	c, err := net.Dial("tcp", plan.Address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	question := []byte("GET /auth_request HTTP/1.1\r\nHost: floodgate\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
	answers := bufio.NewReader(c)
	waits := make([]time.Duration, 0, plan.Questions)
	first := time.Now().Add(phase)
	for i := range plan.Questions {
		time.Sleep(time.Until(first.Add(time.Duration(i) * plan.Every)))
		sent := time.Now()
		if _, err := c.Write(question); err != nil {
			return nil, err
		}
		if err := readAnswer(answers); err != nil {
			return nil, err
		}
		waits = append(waits, time.Since(sent))
	}
	return waits, nil
}

// readAnswer reads an answer, which must be 200 and have no body.
func readAnswer(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("got %q, want 200", status)
	}
	empty := false
	for {
		field, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(field)) == 0 {
			break
		}
		empty = empty || strings.EqualFold(string(bytes.TrimSpace(field)), "content-length: 0")
	}
	if !empty {
		return fmt.Errorf("got an answer with a body, want none")
	}
	return nil
}
