package receiver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	collectorv1 "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retryAfter is when a client is to send a request again that Kafka has not acknowledged in time.
const retryAfter = time.Second

// recordService is the service of OpenTelemetry's logs.
type recordService struct {
	receiver *Receiver
	inbox    *inbox
	feeding  context.Context //nolint:containedctx // of all calls; it ends when what they have read is not waited for any more
}

// exportMethod is the one method of the service.
const exportMethod = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"

// registerLogs registers a service. The module with the messages has no code for gRPC: that one would bring a gateway for HTTP with it.
func registerLogs(server *grpc.Server, s *recordService) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "opentelemetry.proto.collector.logs.v1.LogsService",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Export",
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				req := new(collectorv1.ExportLogsServiceRequest)
				if err := decode(req); err != nil {
					return nil, err
				}
				return s.export(ctx, req)
			},
		}},
	}, s)
}

// export feeds the records of a request, and answers when Kafka has acknowledged them.
func (s *recordService) export(ctx context.Context, req *collectorv1.ExportLogsServiceRequest) (*collectorv1.ExportLogsServiceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	end, err := s.feed(ctx, req)
	if err == nil {
		err = s.inbox.source.Wait(ctx, end)
	}
	if err != nil {
		return nil, sendAgain(err)
	}
	return new(collectorv1.ExportLogsServiceResponse), nil
}

// feed feeds the records of a request, unless the request is known. It returns the position behind them.
func (s *recordService) feed(ctx context.Context, req *collectorv1.ExportLogsServiceRequest) (end int64, err error) {
	own := hasOwnTime(req)
	var sum digest
	if own {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
		if err != nil {
			return 0, fmt.Errorf("encode request: %w", err)
		}
		sum = sha256.Sum256(b)
	}
	p, err := s.inbox.take(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { s.inbox.turn <- p }()
	if end, known := p.known.ends[sum]; own && known {
		s.receiver.repeated.Add(1)
		return end, nil
	}
	p.text = appendRecords(p.text[:0], req)
	if err := s.inbox.write(s.feeding, p); err != nil {
		return 0, err
	}
	if own {
		p.known.add(sum, p.end)
	}
	return p.end, nil
}

// sendAgain returns the error that makes a client send its request again.
func sendAgain(err error) error {
	s := status.Newf(codes.Unavailable, "not all of the request is in Kafka: %v; send it again", err)
	if with, failed := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)}); failed == nil {
		s = with
	}
	return s.Err()
}
