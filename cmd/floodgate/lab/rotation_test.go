//go:build lab

package lab

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	oldSecret = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
	newSecret = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"
)

// rotation is an analyzer of API keys that are hashed with secrets, and the sidecars that hash them.
type rotation struct {
	*processtest.Deployment

	old, fresh string // files
	programs   []*processtest.Program
}

func newRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{Deployment: processtest.NewDeployment(t, start)}
	r.old, r.fresh = filepath.Join(r.Dir, "old"), filepath.Join(r.Dir, "new")
	if err := errors.Join(os.WriteFile(r.old, []byte(oldSecret+"\n"), 0o600), os.WriteFile(r.fresh, []byte(newSecret+"\r\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r.WriteRules("version: 1\nrules:\n  - {name: per-key, callers: key, limit: 10, window: 1h, overrides: {sk_paying: 1000}} # sk_paying pays\n")
	r.Start("--hash-kinds", "key", "--hash-secret-file", r.old+","+r.fresh, "--snapshot", "1s")
	r.programs = append(r.programs, r.Analyzer)
	return r
}

// sidecar starts a sidecar with these secrets, and returns how it answers a request with a key.
func (r *rotation) sidecar(secrets ...string) func(key string) int {
	r.T.Helper()
	args := []string{"sidecar", "--brokers", r.Broker, "--listen", "127.0.0.1:0", "--record", "--callers", "key=X-Api-Key", "--hash-kinds", "key"}
	for _, s := range secrets {
		args = append(args, "--hash-secret-file", s)
	}
	p := start(r.T, args...)
	r.programs = append(r.programs, p)
	url := "http://" + p.WaitFor(`msg=listening address=(\S+)`, 10*time.Second)
	processtest.Eventually(r.T, 20*time.Second, "the sidecar is ready", func() bool {
		_, status := processtest.Get(r.T.Context(), url+"/readyz")
		return status == 200
	})
	return func(key string) int {
		q, err := http.NewRequestWithContext(r.T.Context(), http.MethodGet, url+"/auth", http.NoBody)
		if err != nil {
			r.T.Fatal(err)
		}
		q.Header.Set("X-Api-Key", key)
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			r.T.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
}

// floods sends requests with a key until it is refused.
func (r *rotation) floods(ask func(string) int, key string) {
	r.T.Helper()
	processtest.Eventually(r.T, 20*time.Second, key+" refused", func() bool { return ask(key) == http.StatusTooManyRequests })
}

// Secrets rotate while all runs: each server takes the new one as its second, then as its first, then alone. Whichever
// secret a caller was counted under, all servers that know it refuse the caller; the override in clear holds under both; and
// nobody who reads Kafka, the store or an output learns a key or a secret.
func TestSecretsRotateEndToEnd(t *testing.T) {
	r := newRotation(t)
	before, first, second, after := r.sidecar(r.old), r.sidecar(r.old, r.fresh), r.sidecar(r.fresh, r.old), r.sidecar(r.fresh)

	r.floods(first, "sk_noisy_1") // counted under the old secret
	r.floods(second, "sk_noisy_2")
	for name, c := range map[string]struct {
		ask func(string) int
		key string
	}{
		"before, of the old": {before, "sk_noisy_1"}, "second, of the old": {second, "sk_noisy_1"},
		"first, of the new": {first, "sk_noisy_2"}, "after, of the new": {after, "sk_noisy_2"},
	} {
		processtest.Eventually(t, 10*time.Second, name+" secret: refused", func() bool { return c.ask(c.key) == http.StatusTooManyRequests })
	}
	for _, ask := range []func(string) int{before, first, second, after} {
		for range 15 {
			if got := ask("sk_paying"); got != http.StatusOK {
				t.Fatalf("who pays: got %d, want 200", got)
			}
		}
	}
	metrics := func() string { text, _ := processtest.Get(t.Context(), r.URL+"/metrics"); return text }
	processtest.Eventually(t, 20*time.Second, "all counted, and a snapshot in Kafka", func() bool {
		m := metrics()
		return processtest.MetricSum(m, "floodgate_requests_total") >= 80 && processtest.MetricSum(m, "floodgate_snapshots_total") >= 1
	})
	for _, ask := range []func(string) int{before, first, second, after} {
		if got := ask("sk_paying"); got != http.StatusOK {
			t.Errorf("who pays, once all is counted: got %d, want 200", got)
		}
	}
	for _, p := range r.programs[1:] {
		if code := p.Stop(os.Interrupt); code != 0 {
			t.Errorf("a sidecar: got exit code %d, want 0", code)
		}
	}
	r.Counted()
	r.seesNoKeys()
	r.auditsExactly()
}

// auditsExactly audits with the secrets, and finds a caller by the key.
func (r *rotation) auditsExactly() {
	r.T.Helper()
	hash := []string{"--hash-kinds", "key", "--hash-secret-file", r.old + "," + r.fresh}
	audit := append([]string{"audit", "--brokers", r.Broker, "--rules", r.RulesPath(), "--data", r.Counts()}, hash...)
	if out, err := runCommand(audit...); err != nil {
		r.T.Errorf("audit: got %v\n%s", err, out)
	}
	out, err := runCommand(append([]string{"store", "--rules", r.RulesPath(), "--data", r.Counts(), "--caller", "key:sk_noisy_1"}, hash...)...)
	if err != nil || !matches(`key:hmac:[0-9a-f]{32} `, out) || !strings.Contains(out, "1 of 1 rows") {
		r.T.Errorf("store: got %v\n%s\nwant one row of a hashed key", err, out)
	}
}

// seesNoKeys looks for keys and secrets in all that others may read.
func (r *rotation) seesNoKeys() {
	r.T.Helper()
	look := func(where string, data []byte) {
		for _, word := range []string{"sk_noisy", "sk_paying", oldSecret, newSecret} {
			if bytes.Contains(data, []byte(word)) {
				r.T.Errorf("%s holds %q", where, word)
			}
		}
	}
	for _, p := range r.programs {
		look("an output", []byte(p.Text()))
	}
	seen := 0
	for _, topic := range []string{"floodgate.requests", "floodgate.decisions", "floodgate.state"} {
		for _, value := range r.values(r.T.Context(), topic) {
			look(topic, value)
			seen++
		}
	}
	err := filepath.WalkDir(filepath.Join(r.Dir, "counts"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		look(path, data)
		seen++
		return err
	})
	if err != nil || seen < 10 {
		r.T.Errorf("got %v after %d places, want all read", err, seen)
	}
}

// values returns all records of a topic's first partition.
func (r *rotation) values(ctx context.Context, topic string) (values [][]byte) {
	r.T.Helper()
	next, end, err := r.Client.Range(ctx, topic, 0)
	for err == nil && next < end {
		var b kafkaio.Batch
		b, err = r.Client.Fetch(ctx, kafkaio.FetchRequest{Topic: topic, Offset: next, MaxBytes: 1 << 20})
		for _, rec := range b.Records {
			values = append(values, bytes.Clone(rec.Value))
		}
		next = b.Next
	}
	if err != nil {
		r.T.Fatal(err)
	}
	return values
}
