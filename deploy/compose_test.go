package deploy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// service is what the tests want to know of one in a compose file.
type service struct {
	Image       string
	Build       struct{ Target string }
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	User        string
	Privileged  bool
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	Healthcheck struct{ Test []string }
	Grace       string `yaml:"stop_grace_period"`
}

func services(t *testing.T, compose string) map[string]service {
	t.Helper()
	text, err := os.ReadFile(compose)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

func TestCompose(t *testing.T) {
	for _, compose := range []string{"compose.yaml", "compose-serve.yaml"} {
		t.Run(compose, func(t *testing.T) { checkServices(t, services(t, compose)) })
	}
}

func checkServices(t *testing.T, all map[string]service) {
	t.Helper()
	pinned := regexp.MustCompile(`^[a-z/-]+:v?\d+\.\d+\.\d+$`)
	stages := dockerfile(t)
	for name, s := range all {
		if s.Build.Target != "" {
			if stages[s.Build.Target] == nil {
				t.Errorf("%s: got target %q, want a stage of the Dockerfile", name, s.Build.Target)
			}
			if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || s.Privileged || s.User != "" {
				t.Errorf("%s: got %+v, want it read-only, without capabilities and as the image's user", name, s)
			}
		} else if !pinned.MatchString(s.Image) {
			t.Errorf("%s: got image %q, want one version of it", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: got port %q, want it on loopback: whoever needs more says so", name, p)
			}
		}
		for _, v := range s.Volumes {
			if from, _, _ := strings.Cut(v, ":"); strings.HasPrefix(from, ".") {
				if _, err := os.Stat(from); err != nil {
					t.Errorf("%s: volume: %v", name, err)
				}
			}
		}
	}
}

// output is what a process printed, safe to read while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs a service of the compose file until the returned function stops it with SIGTERM, which must end it with
// code 0 and in time. Hosts and ports of the containers' network are replaced.
func start(t *testing.T, i *image, s service, places *strings.Replacer) (stop func()) {
	t.Helper()
	var env []string
	for name, value := range s.Environment {
		env = append(env, name+"="+places.Replace(value))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	out := &output{}
	c := i.command(ctx, env, s.Command...)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	var once sync.Once
	stop = func() {
		once.Do(func() {
			began := time.Now()
			cancel()
			err := c.Wait()
			grace := 10 * time.Second // as Docker's
			if s.Grace != "" {
				grace, _ = time.ParseDuration(s.Grace)
			}
			if took := time.Since(began); c.ProcessState.ExitCode() != 0 || took > grace {
				t.Errorf("%s: got exit code %d (%v) after %v, want 0 within %v", i.entry, c.ProcessState.ExitCode(), err, took, grace)
			}
			if t.Failed() {
				t.Logf("%s printed:\n%s", i.entry, out)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// eventually asks until the answer is nil.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// testCompose starts what the compose file starts, against an embedded broker in place of its Kafka, and floods the server
// until its gate closes.
func testCompose(t *testing.T, floodgate, example *image) {
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	metrics, web := testenv.FreeAddress(t), testenv.FreeAddress(t)
	places := strings.NewReplacer("kafka:9092", broker.Addr(), "0.0.0.0:9090", metrics, "127.0.0.1:9090", metrics, "127.0.0.1:9096", testenv.FreeAddress(t), "0.0.0.0:8080", web, "0.0.0.0:9091", testenv.FreeAddress(t))
	all := services(t, "compose.yaml")
	shareKey(t, floodgate, example, all["topics"], places)
	// A machine that stands still for a second makes the predictor close callers before their limit, as it should: here the
	// count alone closes.
	all["analyzer"].Environment["FLOODGATE_PREDICT"] = "off"
	stopAnalyzer := start(t, floodgate, all["analyzer"], places)
	stopServer := start(t, example, all["server"], places)

	check := all["analyzer"].Healthcheck.Test
	if len(check) != 4 || check[0] != "CMD" || check[1] != floodgate.entry {
		t.Fatalf("got health check %q, want CMD %s and its arguments", check, floodgate.entry)
	}
	eventually(t, "health check", func() error {
		out, err := floodgate.command(t.Context(), nil, check[2], places.Replace(check[3])).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	admitted := flood(t, "http://"+web+"/")
	if limit := 100; admitted < limit || admitted > 2*limit {
		t.Errorf("got %d requests admitted, want the limit of %d and little more", admitted, limit)
	}
	intrude(t, broker.Addr())
	checkMetrics(t, "http://"+metrics+"/metrics")
	stopServer()
	stopAnalyzer()
}

// shareKey runs the service that creates the topics and the partition key, twice as two starts of everything do, and puts
// the key where the volume puts it for the server.
func shareKey(t *testing.T, floodgate, example *image, s service, places *strings.Replacer) {
	t.Helper()
	var env []string
	for name, value := range s.Environment {
		env = append(env, name+"="+places.Replace(value))
	}
	path := filepath.Join(floodgate.root, s.Environment["FLOODGATE_PARTITION_KEY_FILE"])
	var key []byte
	for _, want := range []string{"created, fingerprint", "not changed, fingerprint"} {
		out, err := floodgate.command(t.Context(), env, s.Command...).CombinedOutput()
		made, rerr := os.ReadFile(path)
		if err != nil || rerr != nil || !bytes.Contains(out, []byte(want)) || key != nil && !bytes.Equal(key, made) {
			t.Fatalf("topics: got %v, %v and\n%s\nwant %q", err, rerr, out, want)
		}
		key = made
	}
	to := filepath.Join(example.root, s.Environment["FLOODGATE_PARTITION_KEY_FILE"])
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(path, to, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(to, example.uid, example.gid); err != nil {
			t.Fatal(err)
		}
	}
}

// flood sends requests until one is refused, checks that one, and returns how many were admitted.
func flood(t *testing.T, url string) (admitted int) {
	t.Helper()
	eventually(t, "flood", func() error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		switch resp.StatusCode {
		case http.StatusOK:
			admitted++
			return fmt.Errorf("%d admitted, none refused", admitted)
		case http.StatusTooManyRequests:
			if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || s < 1 || s > 120 {
				t.Errorf("got Retry-After %q, want the seconds to the end of a minute's window", resp.Header.Get("Retry-After"))
			}
			if got, want := resp.Header.Get("RateLimit-Policy"), `"per-ip";q=100;w=60`; got != want {
				t.Errorf("got RateLimit-Policy %q, want %q", got, want)
			}
			return nil
		}
		t.Fatalf("got %s, want 200 or 429", resp.Status)
		return nil
	})
	return admitted
}

// intrude writes something that is no frame, which the analyzer must count as refused.
func intrude(t *testing.T, broker string) {
	t.Helper()
	c := kafkaio.New(kafkaio.Config{Brokers: []string{broker}})
	defer c.Close()
	eventually(t, "intrude", func() error {
		_, err := c.Produce(t.Context(), schemas.DefaultTopicNames().Requests, 0,
			kafkaio.Message{Time: time.Now().UnixNano(), Value: []byte("not a frame")})
		return err
	})
}

// checkMetrics waits until every metric that an alert reads is there, at the analyzer or among those of gates.
func checkMetrics(t *testing.T, url string) {
	t.Helper()
	alerts, err := os.ReadFile("prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bfloodgate_\w+`).FindAllString(string(alerts), -1)
	if len(names) == 0 {
		t.Fatal("got no metrics in the alerts, want some")
	}
	gates := gateMetrics()
	names = slices.DeleteFunc(names, func(name string) bool {
		return gates[family(name)] != nil || strings.HasPrefix(name, "floodgate_ingest_") || // nothing is ingested here
			strings.HasPrefix(name, "floodgate_webhook_") || strings.HasPrefix(name, "floodgate_notify_") || // and nothing is delivered
			strings.HasPrefix(name, "floodgate_pool_") || // and no rule has a capacity
			name == "floodgate_log_full" || // and no log is in files
			name == "floodgate_brake_since_seconds" || // and nobody pulls the brake
			name == "floodgate_rule_unused" // it comes after a minute
	})
	eventually(t, "metrics", func() error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !bytes.Contains(body, []byte("\n"+name+"{")) && !bytes.Contains(body, []byte("\n"+name+" ")) {
				return fmt.Errorf("no metric %s, which an alert reads", name)
			}
		}
		return nil
	})
}
