package main

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

	"github.com/509da70d/floodgate/store/kafkaio"
)

const (
	oldSecret = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
	newSecret = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"
)

// rotation is an analyzer of API keys that are hashed with secrets, and the sidecars that hash them.
type rotation struct {
	*deployment

	old, fresh string // files
	programs   []*program
}

func newRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{deployment: newDeployment(t)}
	r.old, r.fresh = filepath.Join(r.dir, "old"), filepath.Join(r.dir, "new")
	if err := errors.Join(os.WriteFile(r.old, []byte(oldSecret+"\n"), 0o600), os.WriteFile(r.fresh, []byte(newSecret+"\r\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r.writeRules("version: 1\nrules:\n  - {name: per-key, callers: key, limit: 10, window: 1h, overrides: {sk_paying: 1000}} # sk_paying pays\n")
	r.start("--hash-kinds", "key", "--hash-secret-file", r.old+","+r.fresh, "--snapshot", "1s")
	r.programs = append(r.programs, r.prog)
	return r
}

// sidecar starts a sidecar with these secrets, and returns how it answers a request with a key.
func (r *rotation) sidecar(secrets ...string) func(key string) int {
	r.t.Helper()
	args := []string{"sidecar", "--brokers", r.broker, "--listen", "127.0.0.1:0", "--record", "--callers", "key=X-Api-Key", "--hash-kinds", "key"}
	for _, s := range secrets {
		args = append(args, "--hash-secret-file", s)
	}
	p := start(r.t, args...)
	r.programs = append(r.programs, p)
	url := "http://" + p.waitFor(`msg=listening address=(\S+)`, 10*time.Second)
	eventually(r.t, 20*time.Second, "the sidecar is ready", func() bool {
		_, status := get(r.t.Context(), url+"/readyz")
		return status == 200
	})
	return func(key string) int {
		q, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, url+"/auth", http.NoBody)
		if err != nil {
			r.t.Fatal(err)
		}
		q.Header.Set("X-Api-Key", key)
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			r.t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
}

// floods sends requests with a key until it is refused.
func (r *rotation) floods(ask func(string) int, key string) {
	r.t.Helper()
	eventually(r.t, 20*time.Second, key+" refused", func() bool { return ask(key) == http.StatusTooManyRequests })
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
		eventually(t, 10*time.Second, name+" secret: refused", func() bool { return c.ask(c.key) == http.StatusTooManyRequests })
	}
	for _, ask := range []func(string) int{before, first, second, after} {
		for range 15 {
			if got := ask("sk_paying"); got != http.StatusOK {
				t.Fatalf("who pays: got %d, want 200", got)
			}
		}
	}
	metrics := func() string { text, _ := get(t.Context(), r.url+"/metrics"); return text }
	eventually(t, 20*time.Second, "all counted, and a snapshot in Kafka", func() bool {
		m := metrics()
		return metricSum(m, "floodgate_requests_total") >= 80 && metricSum(m, "floodgate_snapshots_total") >= 1
	})
	for _, ask := range []func(string) int{before, first, second, after} {
		if got := ask("sk_paying"); got != http.StatusOK {
			t.Errorf("who pays, once all is counted: got %d, want 200", got)
		}
	}
	for _, p := range r.programs[1:] {
		if code := p.stop(os.Interrupt); code != 0 {
			t.Errorf("a sidecar: got exit code %d, want 0", code)
		}
	}
	r.counted()
	r.seesNoKeys()
	r.auditsExactly()
}

// auditsExactly audits with the secrets, and finds a caller by the key.
func (r *rotation) auditsExactly() {
	r.t.Helper()
	hash := []string{"--hash-kinds", "key", "--hash-secret-file", r.old + "," + r.fresh}
	var out strings.Builder
	if err := realMain(r.t.Context(), r.auditArgs(hash...), inside(&out, nil)); err != nil {
		r.t.Errorf("audit: got %v\n%s", err, out.String())
	}
	out.Reset()
	args := append([]string{"store", "--rules", r.rulesPath(), "--data", filepath.Join(r.dir, "counts"), "--caller", "key:sk_noisy_1"}, hash...)
	if err := realMain(r.t.Context(), args, inside(&out, nil)); err != nil || !matches(`key:hmac:[0-9a-f]{32} `, out.String()) || !strings.Contains(out.String(), "1 of 1 rows") {
		r.t.Errorf("store: got %v\n%s\nwant one row of a hashed key", err, out.String())
	}
}

// seesNoKeys looks for keys and secrets in all that others may read.
func (r *rotation) seesNoKeys() {
	r.t.Helper()
	look := func(where string, data []byte) {
		for _, word := range []string{"sk_noisy", "sk_paying", oldSecret, newSecret} {
			if bytes.Contains(data, []byte(word)) {
				r.t.Errorf("%s holds %q", where, word)
			}
		}
	}
	for _, p := range r.programs {
		look("an output", []byte(p.text()))
	}
	seen := 0
	for _, topic := range []string{"floodgate.requests", "floodgate.decisions", "floodgate.state"} {
		for _, value := range r.values(r.t.Context(), topic) {
			look(topic, value)
			seen++
		}
	}
	err := filepath.WalkDir(filepath.Join(r.dir, "counts"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		look(path, data)
		seen++
		return err
	})
	if err != nil || seen < 10 {
		r.t.Errorf("got %v after %d places, want all read", err, seen)
	}
}

// values returns all records of a topic's first partition.
func (d *deployment) values(ctx context.Context, topic string) (values [][]byte) {
	d.t.Helper()
	next, end, err := d.client.Range(ctx, topic, 0)
	for err == nil && next < end {
		var b kafkaio.Batch
		b, err = d.client.Fetch(ctx, kafkaio.FetchRequest{Topic: topic, Offset: next, MaxBytes: 1 << 20})
		for _, rec := range b.Records {
			values = append(values, bytes.Clone(rec.Value))
		}
		next = b.Next
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return values
}

// A secret that cannot be used stops every command that takes one, and no message shows it.
func TestASecretThatCannotBeUsedIsNotShown(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, short := write("good", oldSecret), write("short", "hunter2hunter2hunter2hunter2hun\n")
	long := write("long", strings.Repeat("hunter2", 200))
	rulesFile := write("rules.yaml", "version: 1\nrules: [{name: r, callers: 'key:hunter2*', limit: 1, window: 1m}]\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--hash-kinds", "key"}, "got one of them, want both or neither"},
		{[]string{"--hash-secret-file", good}, "got one of them, want both or neither"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", short}, "secret 1: got 31 bytes, want 32 to 1024"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", long}, "bytes, want 32 to 1024"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", filepath.Join(dir, "none")}, "no such file"},
		{[]string{"--hash-kinds", "ip", "--hash-secret-file", good}, "kind ip cannot be hashed"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", good + "," + good}, "one secret twice"},
		{[]string{"--hash-kinds", "key", "--hash-secret-file", good}, "rules.yaml:2:28: callers: got a pattern of ids"},
	} {
		for _, command := range [][]string{
			{"rules", "check", rulesFile}, {"replay", "--rules", rulesFile, os.DevNull},
			{"analyze", "--brokers", "127.0.0.1:1", "--rules", rulesFile, "--data", filepath.Join(dir, "data")},
			{"audit", "--brokers", "127.0.0.1:1", "--rules", rulesFile, "--data", dir}, {"store", "--rules", rulesFile, "--data", dir},
			{"ingest", "--brokers", "127.0.0.1:1", "--file", os.DevNull, "--data", dir}, {"sidecar", "--brokers", "127.0.0.1:1"},
		} {
			readsRules := command[0] != "ingest" && command[0] != "sidecar"
			if strings.Contains(test.want, "pattern") && !readsRules {
				continue
			}
			var out strings.Builder
			err := realMain(t.Context(), append(command, test.args...), inside(&out, nil))
			text := out.String()
			if err != nil {
				text += err.Error()
			}
			if err == nil || !strings.Contains(text, test.want) || strings.Contains(text, "hunter2") || strings.Contains(text, oldSecret) {
				t.Errorf("%v: got %v\n%s\nwant %q and no secret", append(command, test.args...), err, out.String(), test.want)
			}
		}
	}
}
