package receiver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // collectors send gzip, unless they are told otherwise
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/schemas"
)

// Bounds of a receiver.
const (
	maxConnections = 1024 // at a time; further ones wait
	maxCalls       = 1024 // at a time, of all connections; further ones are refused

	callWindow       = 64 << 10 // bytes that a client may send ahead in a call, by HTTP/2's flow control
	connectionWindow = 1 << 20  // … and in all calls of a connection
)

// Times of a receiver.
const (
	stopGrace    = time.Second     // for calls to end when the receiver is stopped
	answerWithin = 4 * time.Second // of an Export: less than the 5 s after which collectors send a request again
	pingEvery    = time.Minute     // so that the calls of a host that is gone do not stay
	pingsApart   = 5 * time.Second // of clients, at least
)

// Receiver serves Envoy's access log service and that of OpenTelemetry's logs. Make one with New. Any goroutine may call Stats.
type Receiver struct {
	feed   *feed.Feed
	logger *slog.Logger

	running      atomic.Int64 // calls
	intermediate atomic.Uint64
	repeated     atomic.Uint64

	mu    sync.Mutex
	ended map[string]uint64 // guarded by mu: calls, by code; codes are few
}

// New returns a receiver that feeds f. It does nothing before Run.
func New(f *feed.Feed, logger *slog.Logger) *Receiver {
	return &Receiver{feed: f, logger: logger, ended: make(map[string]uint64)}
}

// Stats is a snapshot of what a Receiver has done.
type Stats struct {
	Calls        map[string]uint64 // that ended, by gRPC's name of the code, such as Unavailable
	Intermediate uint64            // entries of Envoy's that were left out, because they are neither of the end of a request nor, if the mapping wants it, of its start
	Repeated     uint64            // requests of OpenTelemetry that were sent again, and were not counted again
}

// Stats returns a snapshot.
func (r *Receiver) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Calls: maps.Clone(r.ended), Intermediate: r.intermediate.Load(), Repeated: r.repeated.Load()}
}

// Run serves l until ctx ends. Then calls have a second to end, and what was fed has feed.Config.Drain to get to Kafka. Run closes l.
func (r *Receiver) Run(ctx context.Context, l net.Listener) error {
	feeding, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	entries, records := r.feed.Source(newSource(), "grpc:als", 0), r.feed.Records(newSource(), "grpc:otlp", 0)
	defer r.close(entries, records)
	server := grpc.NewServer(
		grpc.InTapHandle(r.admit), grpc.StatsHandler(callEnds{r}), grpc.WaitForHandlers(true), grpc.MaxConcurrentStreams(maxCalls),
		grpc.StaticStreamWindowSize(callWindow), grpc.StaticConnWindowSize(connectionWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
	)
	accesslogv3.RegisterAccessLogServiceServer(server, &entryService{receiver: r, inbox: newInbox(entries), starts: r.feed.Splits(), feeding: feeding})
	registerLogs(server, &recordService{receiver: r, inbox: newInbox(records), feeding: feeding})
	ending := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(stopGrace, func() { stop(); server.Stop() })
		defer late.Stop()
		server.GracefulStop()
	})
	defer ending()
	if err := server.Serve(netutil.LimitListener(l, maxConnections)); err != nil && !errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
		return fmt.Errorf("serve access logs: %w", err)
	}
	return nil
}

// close closes sources, when nobody feeds them any more.
func (r *Receiver) close(sources ...*feed.Source) {
	for _, s := range sources {
		if err := s.Close(); err != nil {
			r.logger.Warn("stopped before all entries were in Kafka: some may be lost", "error", err)
		}
	}
}

// newSource returns the id of a source that no other process has.
func newSource() (id schemas.ProducerID) {
	_, _ = rand.Read(id[:]) // it never fails: crypto/rand ends the process instead
	return id
}

// admit refuses a call if there are too many.
func (r *Receiver) admit(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if r.running.Add(1) > maxCalls {
		r.running.Add(-1)
		r.end(codes.Unavailable)
		return nil, status.Errorf(codes.Unavailable, "too many calls: want at most %d at a time", maxCalls)
	}
	context.AfterFunc(ctx, func() { r.running.Add(-1) })
	return ctx, nil
}

// end counts a call that ended.
func (r *Receiver) end(code codes.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[code.String()]++
}

// callEnds tells a receiver how calls end, also those whose messages cannot be read.
type callEnds struct{ r *Receiver }

func (callEnds) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (callEnds) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (callEnds) HandleConn(context.Context, stats.ConnStats)                       {}

// HandleRPC implements stats.Handler.
func (c callEnds) HandleRPC(_ context.Context, s stats.RPCStats) {
	if end, ok := s.(*stats.End); ok {
		c.r.end(status.Code(end.Error))
	}
}

// entryService is Envoy's access log service.
type entryService struct {
	accesslogv3.UnimplementedAccessLogServiceServer

	receiver *Receiver
	inbox    *inbox
	starts   bool            // the entry of a request's start counts, too
	feeding  context.Context //nolint:containedctx // of all calls; it ends when what they have read is not waited for any more
}

// StreamAccessLogs feeds what Envoy sends, until Envoy ends the stream.
func (s *entryService) StreamAccessLogs(stream accesslogv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(new(accesslogv3.StreamAccessLogsResponse))
		}
		if err != nil {
			return err // Envoy is away, or the message cannot be read
		}
		if err := s.feed(m); err != nil {
			return status.Error(codes.Unavailable, err.Error())
		}
	}
}

// feed feeds the entries of a message. It does not end with its call: what was read counts, although Envoy is gone.
func (s *entryService) feed(m *accesslogv3.StreamAccessLogsMessage) error {
	p, err := s.inbox.take(s.feeding)
	if err != nil {
		return err
	}
	defer func() { s.inbox.turn <- p }()
	p.text = s.append(p.text[:0], m)
	return s.inbox.write(s.feeding, p)
}

// counts reports whether an entry becomes a line.
func (s *entryService) counts(c *datav3.AccessLogCommon) bool {
	return isEnd(c) || s.starts && isStart(c)
}

// append appends the lines of a message, and counts the entries that are left out.
func (s *entryService) append(text []byte, m *accesslogv3.StreamAccessLogsMessage) []byte {
	for _, e := range m.GetHttpLogs().GetLogEntry() {
		if s.counts(e.GetCommonProperties()) {
			text = appendHTTP(text, e)
		} else {
			s.receiver.intermediate.Add(1)
		}
	}
	for _, e := range m.GetTcpLogs().GetLogEntry() {
		if s.counts(e.GetCommonProperties()) {
			text = appendTCP(text, e)
		} else {
			s.receiver.intermediate.Add(1)
		}
	}
	return text
}
