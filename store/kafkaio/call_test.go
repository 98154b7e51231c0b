package kafkaio

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// heard is the calls that a Client has reported.
type heard struct {
	mu    sync.Mutex
	calls []Call
}

func (h *heard) observe(c Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
}

func (h *heard) take() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := h.calls
	h.calls = nil
	return calls
}

// TestCallsAreObserved: each method that speaks to Kafka says once what became of it, also when it fails; a call that its own caller
// or Close has ended says nothing of Kafka.
func TestCallsAreObserved(t *testing.T) {
	var h heard
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	c := startClient(t, Config{Brokers: []string{"127.0.0.1:1"}, Dial: refused, Timeout: 300 * time.Millisecond, Observe: h.observe})
	methods := map[string]func(ctx context.Context) error{
		"Fetch": func(ctx context.Context) error { _, err := c.Fetch(ctx, FetchRequest{Topic: "t"}); return err },
		"Produce": func(ctx context.Context) error {
			_, err := c.Produce(ctx, "t", 0, Message{Value: []byte("v")})
			return err
		},
		"Range":        func(ctx context.Context) error { _, _, err := c.Range(ctx, "t", 0); return err },
		"Partitions":   func(ctx context.Context) error { _, err := c.Partitions(ctx, "t"); return err },
		"Reachable":    c.Reachable,
		"Identity":     func(ctx context.Context) error { _, err := c.Identity(ctx, "t"); return err },
		"EnsureTopics": func(ctx context.Context) error { _, err := c.EnsureTopics(ctx, TopicSpec{Name: "t"}); return err },
		"CheckTopics":  func(ctx context.Context) error { _, err := c.CheckTopics(ctx, TopicSpec{Name: "t"}); return err },
		"CheckBrokers": c.CheckBrokers,
	}
	ops := map[string]string{"Fetch": OpFetch, "Produce": OpProduce, "Range": OpRange}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, method := range methods {
		want := OpOther
		if op, ok := ops[name]; ok {
			want = op
		}
		err := method(t.Context())
		calls := h.take()
		if err == nil || len(calls) != 1 || calls[0].Op != want || !errors.Is(calls[0].Err, err) || calls[0].Took < 0 {
			t.Errorf("%s: got %v and %+v, want one call of op %s with that error", name, err, calls, want)
		}
		if !slices.Contains(Ops(), want) {
			t.Errorf("%s: op %s is not among Ops", name, want)
		}
		err = method(ended)
		for _, c := range h.take() {
			if err == nil || errors.Is(c.Err, context.Canceled) {
				t.Errorf("%s: got %v and call %+v, want none: its caller ended it", name, err, c)
			}
		}
	}
	c.Close()
	if err := c.Reachable(t.Context()); !errors.Is(err, ErrClosed) || len(h.take()) > 0 {
		t.Errorf("closed: got %v, want %v and no call", err, ErrClosed)
	}
}
