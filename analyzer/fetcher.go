package analyzer

import (
	"context"
	"errors"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// fetched is a batch of requests[p], or the gap that was found in its place.
type fetched struct {
	batch kafkaio.Batch
	lost  int64 // offsets that the log no longer holds, before the batch
	err   error // the log ends before what was counted: it was truncated or made anew
}

// fetcher reads requests[p] ahead of the fold.
type fetcher struct {
	log     Log
	config  OwnerConfig
	next    int64
	away    bool // the topic was not there the last time: it may be another one by now
	batches chan fetched
}

func newFetcher(log Log, c OwnerConfig, next int64) *fetcher {
	return &fetcher{log: log, config: c, next: next, batches: make(chan fetched, 2)}
}

const (
	fetchWait   = 500 * time.Millisecond // the longest a fetch waits for the first record
	retryFirst  = 20 * time.Millisecond
	retryLast   = time.Second
	fetchBytes  = 1 << 20
	fetchMinLen = 1

	maxBatchRecords = 10_000

	reasonCorrupt kafkaio.SkipReason = "corrupt" // the batch failed its checksum
)

// run fetches until ctx ends. What fails is tried again for ever: the state of the log is seen in the lag.
func (f *fetcher) run(ctx context.Context) {
	wait := retryFirst
	for ctx.Err() == nil {
		b, err := f.log.Fetch(ctx, kafkaio.FetchRequest{
			Topic: f.config.Requests, Partition: f.config.Fold.Partition, Offset: f.next,
			MaxWait: fetchWait, MinBytes: fetchMinLen, MaxBytes: fetchBytes,
		})
		out := fetched{batch: b}
		if err != nil {
			var skip bool
			if out, skip = f.failed(err); skip {
				f.away = f.away || errors.Is(err, kafkaio.ErrNoTopic)
				if ctx.Err() == nil {
					f.config.Logger.Warn("cannot fetch requests", "offset", f.next, "error", err)
				}
				sleep(ctx, wait)
				wait = min(2*wait, retryLast)
				continue
			}
		}
		wait = retryFirst
		if f.away {
			out = fetched{err: ErrTopicAway}
		}
		if b.Next > f.next {
			f.next = b.Next
		}
		if len(out.batch.Records) == 0 && len(out.batch.Skipped) == 0 && out.lost == 0 && out.err == nil {
			continue
		}
		select {
		case f.batches <- out:
		case <-ctx.Done():
		}
		if out.err != nil {
			return
		}
	}
}

// failed turns an error into a gap where the log has moved on, or asks for another try.
func (f *fetcher) failed(err error) (out fetched, again bool) {
	var outside *kafkaio.RangeError
	var corrupt *kafkaio.CorruptError
	switch {
	case errors.As(err, &outside) && f.next < outside.Start:
		out.lost = outside.Start - f.next
		f.next = outside.Start
		out.batch.Next = f.next
		return out, false
	case errors.As(err, &outside) && f.next > outside.End:
		return fetched{err: ErrLogTruncated}, false
	case errors.As(err, &corrupt):
		// The batch's own word on where it ends is not to be trusted: no more than a batch can hold is passed over.
		last := min(max(corrupt.To, f.next), f.next+maxBatchRecords)
		out.batch.Skipped = []kafkaio.Skip{{From: f.next, To: last, Reason: reasonCorrupt, Err: err}}
		f.next = last + 1
		out.batch.Next = f.next
		return out, false
	}
	return out, true
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
