package sidecar

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/gatehttp"
)

// Bounds of the quota service. An Envoy has one stream for each domain, so that few are needed.
const (
	maxQuotaStreams = 8
	maxBuckets      = 1 << 14 // of a stream: those that learn of a decision at once
	maxBucketBytes  = 512     // of the id of such a bucket
)

// MaxReportBytes is the longest report of Envoy's that the quota service takes: all buckets in one message. Envoy forgets none while the
// sidecar is away, and a report that is refused would come again each 5 s.
const MaxReportBytes = 16 << 20

// Quota is what a Sidecar knows of Envoy's quota service. Asked and Refused count the requests that Envoy reports. It reports each
// 5 s, and nothing of the time in which its stream was broken.
type Quota struct {
	Answers

	Streams, Buckets int    // now
	Ignored          uint64 // reports on buckets that name no caller; their requests pass
	Crowded          uint64 // reports on buckets beyond the bound: a decision takes force at the next report
	TurnedAway       uint64 // streams beyond the bound
	Unreadable       uint64 // streams that ended because gRPC could not read a report
}

// quotas is Envoy's rate limit quota service, version 3.
type quotas struct {
	quotav3.UnimplementedRateLimitQuotaServiceServer
	answers

	set      *gate.Set
	board    *board.Board
	recorder gatehttp.Recorder
	kinds    *kinds

	streams, buckets                         atomic.Int64
	ignored, crowded, turnedAway, unreadable atomic.Uint64
}

// StreamRateLimitQuotas tells one Envoy which of the buckets that it reports are closed, until it hangs up.
func (q *quotas) StreamRateLimitQuotas(s grpc.BidiStreamingServer[quotav3.RateLimitQuotaUsageReports, quotav3.RateLimitQuotaResponse]) error {
	defer q.streams.Add(-1)
	if n := q.streams.Add(1); n > maxQuotaStreams {
		q.turnedAway.Add(1)
		return status.Errorf(codes.ResourceExhausted, "got %d streams, want at most %d", n, maxQuotaStreams)
	}
	changes, err := q.board.Subscribe(q.newest())
	if err != nil {
		q.turnedAway.Add(1)
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	defer changes.Close()
	t := newQuotaStream(q)
	defer t.forgetAll()
	g, ctx := errgroup.WithContext(s.Context())
	g.Go(func() error { return feedTo(ctx, t.changes, func() (board.Event, error) { return changes.Next(ctx) }) })
	g.Go(func() error {
		return feedTo(ctx, t.reports, func() (*quotav3.RateLimitQuotaUsageReports, error) { return q.receive(s) })
	})
	g.Go(func() error { return t.run(ctx, s.Send) })
	if err := g.Wait(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// receive reads the next report. One that cannot be read is counted here: gRPC ends its stream, and the other goroutines may see that first.
func (q *quotas) receive(s quotav3.RateLimitQuotaService_StreamRateLimitQuotasServer) (*quotav3.RateLimitQuotaUsageReports, error) {
	m, err := s.Recv()
	if code := status.Code(err); code == codes.Internal || code == codes.ResourceExhausted {
		q.unreadable.Add(1)
	}
	return m, err
}

// newest returns the number of the newest change. A stream begins without buckets, so that what is in force already is of no use to it.
func (q *quotas) newest() uint64 {
	for _, e := range q.board.Changes(1) {
		return e.Number
	}
	return 0
}

// feedTo sends what next returns to a channel, until next fails or ctx ends.
func feedTo[T any](ctx context.Context, out chan<- T, next func() (T, error)) error {
	for {
		v, err := next()
		if err != nil {
			return err
		}
		select {
		case out <- v:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// quota returns a snapshot.
func (q *quotas) quota() Quota {
	return Quota{
		Answers: q.snapshot(), Streams: int(q.streams.Load()), Buckets: int(q.buckets.Load()), Ignored: q.ignored.Load(),
		Crowded: q.crowded.Load(), TurnedAway: q.turnedAway.Load(), Unreadable: q.unreadable.Load(),
	}
}
