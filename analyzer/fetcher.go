package analyzer

import (
	"context"
	"fmt"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// fetcher reads requests[p] ahead of the fold.
type fetcher struct {
	cursor  *kafkaio.Cursor
	batches chan kafkaio.Batch
}

// newFetcher returns a fetcher from an offset on. tail is the last record before it that was counted.
func newFetcher(log kafkaio.Fetcher, c OwnerConfig, next int64, tail kafkaio.Tail) *fetcher {
	return &fetcher{batches: make(chan kafkaio.Batch, 2), cursor: kafkaio.NewCursor(log, kafkaio.CursorConfig{
		Topic: c.Requests, Partition: c.Fold.Partition, Offset: next, Tail: tail, MaxBytes: fetchBytes, Retry: kafkaio.Always, Logger: c.Logger,
	})}
}

// run fetches until ctx ends, or until the log turns out not to be the one that was counted. After all other errors it tries again, without
// end: the lag shows it.
func (f *fetcher) run(ctx context.Context) {
	_ = f.cursor.Run(ctx, f.batches) // see err
}

// err returns why batches was closed: an errOtherLog, or the error of ctx. run's ctx comes from the ctx that
// err is given. So if run's ctx has ended, the other one ends as well, perhaps a moment later, and err waits for that.
func (f *fetcher) err(ctx context.Context) error {
	if err := f.cursor.Err(); err != nil {
		return fmt.Errorf("%w: %w", errOtherLog, err)
	}
	<-ctx.Done()
	return ctx.Err()
}
