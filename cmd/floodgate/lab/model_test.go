//go:build lab

package lab

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// A model is a server of a language model that was made for tests. It speaks OpenAI's chat format. A message says how many tokens its answer
// takes, as a number, or "fail". The answer takes its time: the last part, and the usage after it, come once the model may end.
type model struct {
	*httptest.Server

	calls  atomic.Int64
	ending atomic.Pointer[chan struct{}] // closed once answers may end
}

const (
	promptTokens = 10     // what each message costs
	tokenLimit   = 30_000 // of a key, in tests
)

func newModel(t testing.TB) *model {
	t.Helper()
	m := new(model)
	m.letEnd()
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	t.Cleanup(m.letEnd)
	return m
}

// stall makes answers that begin from now on wait for letEnd.
func (m *model) stall() {
	ending := make(chan struct{})
	m.ending.Store(&ending)
}

func (m *model) letEnd() {
	ended := make(chan struct{})
	close(ended)
	if old := m.ending.Swap(&ended); old != nil {
		select {
		case <-*old:
		default:
			close(*old)
		}
	}
}

func (m *model) answer(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	var asked struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, fmt.Sprintf(`{"error":{"message":"got %v"}}`, err), http.StatusBadRequest)
		return
	}
	tokens, err := strconv.Atoi(asked.Messages[len(asked.Messages)-1].Content)
	if err != nil {
		http.Error(w, `{"error":{"message":"failed as told"}}`, http.StatusInternalServerError)
		return
	}
	ending := *m.ending.Load()
	wait := func(maxWait <-chan time.Time) {
		select {
		case <-maxWait:
		case <-r.Context().Done():
		}
		select {
		case <-ending:
		case <-r.Context().Done():
		}
	}
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, promptTokens, tokens, promptTokens+tokens)
	if !asked.Stream {
		wait(time.After(100 * time.Millisecond))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"made","object":"chat.completion","created":1,"model":"made","choices":[`+
			`{"index":0,"message":{"role":"assistant","content":"an answer"},"finish_reason":"stop"}],`+usage+`}`) // or the client is gone
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(choices, more string) {
		_, _ = io.WriteString(w, `data: {"id":"made","object":"chat.completion.chunk","created":1,"model":"made","choices":[`+choices+`]`+more+"}\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	for range 5 {
		event(`{"index":0,"delta":{"role":"assistant","content":"some words "},"finish_reason":null}`, "")
	}
	wait(time.After(100 * time.Millisecond))
	event(`{"index":0,"delta":{},"finish_reason":"stop"}`, "")
	event("", ","+usage)
	_, _ = io.WriteString(w, "data: [DONE]\n\n") // or the client is gone
}

// A gateway is a proxy before models, under test.
type gateway struct {
	t     *testing.T
	url   string // of its chat completions
	model string
}

// ask begins a call that streams, with more fields in its header, and returns its status and header once the first words are there, and the
// rest. It ends with ctx.
func (g *gateway) ask(ctx context.Context, key, message string, declared int, fields ...string) (int, http.Header, io.ReadCloser) {
	g.t.Helper()
	body := fmt.Sprintf(`{"model":%q,"stream":true,"stream_options":{"include_usage":true},"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`,
		g.model, declared, message)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, resp.Body
}

// streams asks, and reads the whole answer if there is one. The tokens are those that the client is told of.
func (g *gateway) streams(key string, tokens, declared int) (status int, header http.Header, used int) {
	g.t.Helper()
	status, header, body := g.ask(g.t.Context(), key, strconv.Itoa(tokens), declared)
	defer body.Close()
	return status, header, g.usage(body)
}

// usage reads a stream to its end, and returns the total of its last event.
func (g *gateway) usage(body io.Reader) (total int) {
	g.t.Helper()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		var event struct {
			Usage struct {
				Total int `json:"total_tokens"`
			}
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: {"); ok && json.Unmarshal([]byte("{"+data), &event) == nil {
			total = cmp.Or(event.Usage.Total, total)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, context.Canceled) {
		g.t.Error(err)
	}
	return total
}

// leaves is a client that goes away after the first words.
func (g *gateway) leaves(key string) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	defer cancel()
	status, _, body := g.ask(ctx, key, "5000", 1000)
	defer body.Close()
	if _, err := bufio.NewReader(body).ReadString('\n'); err != nil || status != http.StatusOK {
		g.t.Fatalf("got %d and %v, want the first words", status, err)
	}
}

// fills begins calls that do not end, of 1000 tokens each, until the key is refused: what runs holds its limit. Then it lets them end, and the key
// is served again. It returns how many calls there were.
func (g *gateway) fills(m *model, key string) (calls int) {
	g.t.Helper()
	m.stall()
	defer m.letEnd()
	var running []io.ReadCloser
	processtest.Eventually(g.t, 60*time.Second, key+" is refused while its calls run", func() bool {
		status, header, body := g.ask(g.t.Context(), key, strconv.Itoa(1000-promptTokens), 1000)
		if status == http.StatusOK {
			running = append(running, body)
			return len(running) > tokenLimit/1000
		}
		_ = body.Close() // it says no more
		g.refused(status, header)
		return true
	})
	for range 200 { // that a call is refused does not make room
		status, header, body := g.ask(g.t.Context(), key, "1", 1000)
		_ = body.Close() // it says no more
		g.refused(status, header)
	}
	m.letEnd()
	for _, body := range running {
		if used := g.usage(body); used != 1000 {
			g.t.Errorf("%s: got %d tokens of a call that ran, want 1000", key, used)
		}
		_ = body.Close() // it has ended
	}
	g.t.Logf("%d calls of 1000 tokens ran when %s was refused", len(running), key)
	if n := len(running); n < tokenLimit/1000/2 || n >= tokenLimit/1000 {
		g.t.Errorf("%s: got a refusal when %d calls of 1000 tokens ran, want it when their tokens would reach the limit", key, n)
	}
	processtest.Eventually(g.t, 30*time.Second, key+" is served again", func() bool {
		status, _, _ := g.streams(key, 10, 10)
		return status == http.StatusOK
	})
	return len(running) + 1
}

// refused checks what a client is told whose key is closed.
func (g *gateway) refused(status int, header http.Header) {
	g.t.Helper()
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" || !strings.HasPrefix(header.Get("Ratelimit"), `"tokens";r=0`) {
		g.t.Fatalf("got %d and %v; want 200, or 429 with Retry-After and RateLimit", status, header)
	}
}

// spends asks until the key is refused, and checks what the client is told. It returns what its calls cost, and how many there were.
func (g *gateway) spends(key string, tokens, declared int) (cost, calls int) {
	g.t.Helper()
	processtest.Eventually(g.t, 60*time.Second, key+" is refused", func() bool {
		status, header, used := g.streams(key, tokens, declared)
		if status == http.StatusOK {
			if used != promptTokens+tokens {
				g.t.Errorf("%s: got %d tokens, want %d", key, used, promptTokens+tokens)
			}
			cost, calls = cost+used, calls+1
			return false
		}
		g.refused(status, header)
		return true
	})
	if cost < tokenLimit*3/4 || cost > tokenLimit*3/2 {
		g.t.Errorf("%s: got %d tokens until a refusal, want about the limit of %d", key, cost, tokenLimit)
	}
	return cost, calls
}

// recipeRules returns the rules of a recipe, with a limit that a test can spend, in a window that hardly ends in it.
func recipeRules(t *testing.T, recipe string) string {
	t.Helper()
	return configured(t, "recipes/"+recipe+"/rules.yaml", "limit: 100000", fmt.Sprintf("limit: %d", tokenLimit), "window: 1m", "window: 1h")
}
