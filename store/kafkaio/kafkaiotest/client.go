package kafkaiotest

import (
	"context"
	"errors"
	"sync"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Client is a client of the cluster that can be closed, as a kafkaio.Client can. Make one with Kafka.Client. Its methods are
// safe for concurrent use.
type Client struct {
	kafka  *Kafka
	closed context.Context //nolint:containedctx // it ends when the client is closed, and is not passed to calls
	cancel context.CancelFunc
	calls  sync.WaitGroup
}

var _ kafkaio.Log = (*Client)(nil)

// Client returns a client.
func (k *Kafka) Client() *Client {
	closed, cancel := context.WithCancel(context.Background())
	return &Client{kafka: k, closed: closed, cancel: cancel}
}

// Close ends the calls in flight and waits for them. Calls after it return kafkaio.ErrClosed.
func (c *Client) Close() {
	c.cancel()
	c.calls.Wait()
}

// call bounds a call by Close.
func (c *Client) call(ctx context.Context, f func(ctx context.Context) error) error {
	if c.closed.Err() != nil {
		return kafkaio.ErrClosed
	}
	c.calls.Add(1)
	defer c.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)()
	err := f(ctx)
	if r, ok := errors.AsType[*kafkaio.RequestError](err); ok && c.closed.Err() != nil && errors.Is(err, context.Canceled) {
		r.Err = kafkaio.ErrClosed
	}
	return err
}

// Fetch does what kafkaio.Client.Fetch does.
func (c *Client) Fetch(ctx context.Context, r kafkaio.FetchRequest) (b kafkaio.Batch, err error) {
	err = c.call(ctx, func(ctx context.Context) error { b, err = c.kafka.Fetch(ctx, r); return err })
	return b, err
}

// Produce does what kafkaio.Client.Produce does.
func (c *Client) Produce(ctx context.Context, topic string, partition int, msgs ...kafkaio.Message) (base int64, err error) {
	base = -1
	err = c.call(ctx, func(ctx context.Context) error {
		base, err = c.kafka.Produce(ctx, topic, partition, msgs...)
		return err
	})
	return base, err
}

// Range does what kafkaio.Client.Range does.
func (c *Client) Range(ctx context.Context, topic string, partition int) (start, end int64, err error) {
	err = c.call(ctx, func(ctx context.Context) error { start, end, err = c.kafka.Range(ctx, topic, partition); return err })
	return start, end, err
}

// Partitions does what kafkaio.Client.Partitions does.
func (c *Client) Partitions(ctx context.Context, topic string) (n int, err error) {
	err = c.call(ctx, func(ctx context.Context) error { n, err = c.kafka.Partitions(ctx, topic); return err })
	return n, err
}
