//go:build lab

package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// liteLLM is LiteLLM's proxy and serve, with the files of deploy/recipes/litellm.
type liteLLM struct {
	gateway
	log string
}

// callLine is a line that the callback writes.
type callLine struct {
	Time, Declared, Cost, Duration int64
	Type, Key, Model               string
	Status                         int
}

func newLiteLLM(t *testing.T, m *model) *liteLLM {
	t.Helper()
	program := testenv.Program(t, "litellm")
	dir := t.TempDir()
	feed, log := filepath.Join(dir, "feed.sock"), filepath.Join(dir, "calls.log")
	writeIn(t, dir, "floodgate_litellm.py", configured(t, "recipes/litellm/floodgate_litellm.py", "/run/floodgate/feed.sock", feed,
		"/var/log/litellm/floodgate.log", log))
	for _, name := range []string{"floodgate.py", "floodgate_web.py"} {
		writeIn(t, dir, name, configured(t, "clients/python/"+name))
	}
	// LiteLLM knows keys by its database. Here any will do.
	writeIn(t, dir, "anyone.py", "from litellm.proxy._types import UserAPIKeyAuth\nasync def auth(request, api_key):\n    return UserAPIKeyAuth(api_key=api_key)\n")
	config := writeIn(t, dir, "config.yaml", configured(t, "recipes/litellm/config.yaml", "os.environ/OPENAI_API_KEY", "none, api_base: "+m.URL+"/v1")+
		"general_settings:\n  custom_auth: anyone.auth\n")
	writeIn(t, dir, "mapping.yaml", configured(t, "recipes/litellm/mapping.yaml"))
	writeIn(t, dir, "rules.yaml", recipeRules(t, "litellm"))
	metrics := testenv.FreeAddress(t)
	start(t, "serve", "--file", log, "--mapping", filepath.Join(dir, "mapping.yaml"), "--rules", filepath.Join(dir, "rules.yaml"),
		"--data", filepath.Join(dir, "data"), "--listen", testenv.FreeAddress(t), "--metrics-listen", metrics, "--feed-listen", "unix:"+feed)
	processtest.AwaitReady(t, "http://"+metrics, http.StatusOK, "")

	address := testenv.FreeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(program, "--config", config, "--host", host, "--port", port)
	cmd.Dir = dir
	cmd.Env = []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1", "LITELLM_MASTER_KEY=sk-0123456789abcdef0123456789abcdef", "LITELLM_LOCAL_MODEL_COST_MAP=True"}
	startCommand(t, cmd)
	serves(t, "http://"+address+"/health/liveliness", "litellm")
	return &liteLLM{gateway{t, "http://" + address + "/v1/chat/completions", "gpt-4o"}, log}
}

// lines returns the lines of the log, by key.
func (l *liteLLM) lines() map[string][]callLine {
	l.t.Helper()
	text, err := os.ReadFile(l.log)
	if err != nil {
		l.t.Fatal(err)
	}
	byKey := map[string][]callLine{}
	for line := range strings.Lines(string(text)) {
		var c callLine
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			l.t.Fatalf("%v in %s", err, line)
		}
		byKey[c.Key] = append(byKey[c.Key], c)
	}
	return byKey
}

// ended waits until each call of a key that was not refused has its line at the end, and checks each: its time less its duration is the time
// of a first line, and what was declared stands in both.
func (l *liteLLM) ended(key string, calls int) (ends []callLine) {
	l.t.Helper()
	var lines []callLine
	processtest.Eventually(l.t, 20*time.Second, "the ends of calls of "+key, func() bool {
		lines, ends = l.lines()[hashed(key)], nil
		for _, c := range lines {
			if c.Type == "end" {
				ends = append(ends, c)
			}
		}
		return len(ends) >= calls
	})
	type arrival struct{ time, declared int64 }
	running := map[arrival]int{}
	for _, c := range lines {
		switch {
		case c.Type == "start" && c.Status == 0:
			running[arrival{c.Time, c.Declared}]++
		case c.Type == "end":
			running[arrival{c.Time - c.Duration, c.Declared}]--
		case c.Status != http.StatusTooManyRequests || c.Cost != 0:
			l.t.Errorf("got %+v, want a start, an end or a refusal", c)
		}
	}
	for a, n := range running {
		if n != 0 {
			l.t.Errorf("%s: got %d more starts than ends of %+v, want as many", key, n, a)
		}
	}
	if len(ends) != calls {
		l.t.Errorf("%s: got %d ends, want %d", key, len(ends), calls)
	}
	return ends
}

// hashed is what LiteLLM makes of a key.
func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// TestLiteLLM: LiteLLM's proxy with the shipped callback tells floodgate of each call once, whatever becomes of it, and refuses the calls of a
// key that has spent its limit, and no others.
func TestLiteLLM(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	l := newLiteLLM(t, m)

	status, _, used := l.streams("sk-alice", 90, 400)
	if ends := l.ended("sk-alice", 1); status != http.StatusOK || used != 100 || ends[0].Cost != 100 || ends[0].Declared != 400 || ends[0].Model != "gpt-4o" {
		t.Errorf("a stream: got %d, %d tokens and %+v; want 200, 100, and the same in the log", status, used, ends[0])
	}

	m.stall()
	l.leaves("sk-leaver")
	if ends := l.ended("sk-leaver", 1); ends[0].Cost <= 0 || ends[0].Cost >= 5000 {
		t.Errorf("a client that went away: got %+v, want that what it got costs", ends[0])
	}
	m.letEnd()

	calls := m.calls.Load()
	if status, _, _ := l.ask(t.Context(), "sk-failing", "fail", 400); status != http.StatusInternalServerError {
		t.Errorf("got %d, want the failure of the model", status)
	}
	if ends := l.ended("sk-failing", 1); ends[0].Cost != 0 || m.calls.Load() < calls+2 {
		t.Errorf("a failure: got %+v after %d attempts, want an end without a cost after more than one", ends[0], m.calls.Load()-calls)
	}

	m.stall()
	var bodies []io.ReadCloser
	for range 2 { // clients may choose the ids of their calls
		_, _, body := l.ask(t.Context(), "sk-twice", "90", 400, "X-Litellm-Call-Id", "chosen")
		bodies = append(bodies, body)
	}
	m.letEnd()
	for _, body := range bodies {
		l.usage(body)
		_ = body.Close()
	}
	if ends := l.ended("sk-twice", 2); ends[0].Cost != 100 || ends[1].Cost != 100 {
		t.Errorf("two calls with one id: got %+v, want that both cost 100", ends)
	}

	cost, n := l.spends("sk-alice", 990, 1000)
	sum := int64(0)
	for _, c := range l.ended("sk-alice", n+1) {
		sum += c.Cost
	}
	if sum != int64(cost+used) {
		t.Errorf("got %d tokens in the log, want the %d that clients were told of", sum, cost+used)
	}

	const failing = 300 // calls of a model that there is not: they cost nothing, and say nothing of what others cost
	unknown := l.gateway
	unknown.model = "unknown"
	for range failing {
		status, _, body := unknown.ask(t.Context(), "sk-bob", "1", 1000)
		if _ = body.Close(); status != http.StatusBadRequest {
			t.Fatalf("got %d, want 400 of a model that there is not", status)
		}
	}
	l.ended("sk-bob", failing+l.fills(m, "sk-bob"))
	if status, _, _ := l.streams("sk-carol", 10, 10); status != http.StatusOK {
		t.Errorf("another key: got %d, want 200", status)
	}
}
