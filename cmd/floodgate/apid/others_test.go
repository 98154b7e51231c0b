package apid

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// beOthers is the variable of the environment with the API's address, for a process that is ten dashboards and a broker.
const beOthers = "FLOODGATE_TEST_BE_DASHBOARDS"

// TestMain can also be ten dashboards and a broker: those of an analyzer are on other machines, and do not use its CPU.
func TestMain(m *testing.M) {
	if url := os.Getenv(beOthers); url != "" {
		if err := runOthers(url, os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	m.Run()
}

// others is the process of dashboards and broker, as its parent sees it.
type others struct {
	broker string // its address
	stdin  io.Writer
	stdout *bufio.Reader
}

// startOthers starts the process. It ends with the test.
func startOthers(t testing.TB, url string) *others {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), beOthers+"="+url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	o := &others{stdin: in, stdout: bufio.NewReader(out)}
	o.broker = o.line(t)
	return o
}

// say gives a command, and waits until it is done.
func (o *others) say(t testing.TB, command string) {
	t.Helper()
	if _, err := fmt.Fprintln(o.stdin, command); err != nil {
		t.Fatal(err)
	}
	if got := o.line(t); got != command {
		t.Fatalf("got %q, want %q done", got, command)
	}
}

func (o *others) line(t testing.TB) string {
	t.Helper()
	line, err := o.stdout.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// runOthers is the process: a broker, and ten dashboards between the commands begin and end.
func runOthers(url string, in io.Reader, out io.Writer) error {
	broker, err := embedded.Start(embedded.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, broker.Addr())
	end := func() error { return nil }
	commands := bufio.NewScanner(in)
	for commands.Scan() {
		switch commands.Text() {
		case "begin":
			end = beginDashboards(url)
		case "end":
			if err := end(); err != nil {
				return err
			}
		}
		fmt.Fprintln(out, commands.Text())
	}
	return errors.Join(commands.Err(), broker.Close())
}

// beginDashboards opens ten, and returns when each has all that is in force, and answers to its first questions.
func beginDashboards(url string) (end func() error) {
	ctx, stop := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	var begun sync.WaitGroup
	for i := range 10 {
		begun.Add(1)
		g.Go(func() error {
			ready := sync.OnceFunc(begun.Done)
			defer ready() // the error is seen at the end
			return dashboard(ctx, url, time.Duration(i)*time.Second/10, ready)
		})
	}
	begun.Wait()
	return func() error {
		stop()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// asks is what the page asks, and every how many seconds: js/series.js, status.js, busiest.js, closedlist.js and main.js.
func asks() map[string]int {
	all := map[string]int{
		"/v1/series?seconds=4": 1, "/v1/status": 2, "/v1/callers?sort=rate&limit=10": 3, "/v1/callers?sort=blocked&limit=10": 3, "/v1/rules": 10,
		"/v1/actions?action=close&state=in_force&limit=1000": 5,
	}
	for i := range 10 { // the busiest
		all[fmt.Sprintf("/v1/caller?caller=ip:10.0.0.%d", i)] = 3
	}
	return all
}

// dashboard is one, without a browser, until ctx ends. Dashboards ask at different parts of a second.
func dashboard(ctx context.Context, url string, part time.Duration, ready func()) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 6}}
	defer client.CloseIdleConnections()
	body, err := get(ctx, client, url+"/v1/decisions/stream")
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := gzip.NewReader(body)
	if err != nil {
		return err
	}
	lines := bufio.NewReader(text)
	for line := ""; line != "event: current\n"; {
		if line, err = lines.ReadString('\n'); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { _, err := io.Copy(io.Discard, lines); return err })
	g.Go(func() error {
		for second := 0; ; second++ {
			for path, every := range asks() {
				if second%every != 0 {
					continue
				}
				answer, err := get(ctx, client, url+path)
				if err != nil {
					return err
				}
				_, _ = io.Copy(io.Discard, answer)
				_ = answer.Close()
			}
			if second == 0 {
				ready()
			}
			now := time.Now()
			next := time.NewTimer(now.Truncate(time.Second).Add(time.Second + part).Sub(now))
			select {
			case <-ctx.Done():
				next.Stop()
				return ctx.Err()
			case <-next.C:
			}
		}
	})
	return g.Wait()
}

// get asks, and returns the body of an answer that is 200. It does not unpack it.
func get(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: got %d, want 200", url, resp.StatusCode)
	}
	return resp.Body, nil
}
