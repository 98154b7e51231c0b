package kafkaio

import "context"

// Fetcher reads partitions. A *Client is a Fetcher, and so is the cluster in memory of package kafkaiotest. Its methods are
// safe for concurrent use, and return the errors that the methods of Client return.
type Fetcher interface {
	Fetch(ctx context.Context, r FetchRequest) (Batch, error)
	Range(ctx context.Context, topic string, partition int) (start, end int64, err error)
}

// Producer appends to partitions. A *Client is a Producer. Produce is safe for concurrent use, and returns the errors that
// Client.Produce returns.
type Producer interface {
	Produce(ctx context.Context, topic string, partition int, msgs ...Message) (base int64, err error)
}

// Log reads partitions and appends to them. A *Client is a Log.
type Log interface {
	Fetcher
	Producer
}

var _ Log = (*Client)(nil)
