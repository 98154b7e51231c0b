package kafkaio

import (
	"context"
	"errors"
	"net"
	"testing"
)

// TestACanceledProduceIsNeverSent: on a slow machine the write was at times faster than what should have stopped it.
func TestACanceledProduceIsNeverSent(t *testing.T) {
	c := New(Config{Brokers: []string{"127.0.0.1:1"}, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("it asked for a connection")
		return nil, errors.New("refused")
	}})
	t.Cleanup(c.Close)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Produce(ctx, "topic", 0, Message{})
	if !errors.Is(err, context.Canceled) || OutcomeOf(err) != Unsent {
		t.Errorf("got %v, outcome %v, want Canceled and unsent", err, OutcomeOf(err))
	}
}
