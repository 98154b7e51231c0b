package gategrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/509da70d/floodgate/gate/gategrpc"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/schemas"
)

// The methods of the service, gRPC's own for tests.
const (
	unary  = "/grpc.testing.TestService/UnaryCall"
	empty  = "/grpc.testing.TestService/EmptyCall"
	upload = "/grpc.testing.TestService/StreamingInputCall"
	feed   = "/grpc.testing.TestService/StreamingOutputCall"
	chat   = "/grpc.testing.TestService/FullDuplexCall"
)

// service does what the test says. What it does not say succeeds.
type service struct {
	pb.UnimplementedTestServiceServer
	unary func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error)
	chat  func(s pb.TestService_FullDuplexCallServer) error
}

func (s *service) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) { return &pb.Empty{}, nil }

func (s *service) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary == nil {
		return &pb.SimpleResponse{Username: "hello"}, nil
	}
	return s.unary(ctx, r)
}

// StreamingOutputCall sends as many messages as there are parameters.
func (s *service) StreamingOutputCall(r *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
	for range r.GetResponseParameters() {
		if err := out.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	return nil
}

// StreamingInputCall counts messages.
func (s *service) StreamingInputCall(in pb.TestService_StreamingInputCallServer) error {
	for n := int32(0); ; n++ {
		switch _, err := in.Recv(); {
		case errors.Is(err, io.EOF):
			return in.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n})
		case err != nil:
			return err
		}
	}
}

// FullDuplexCall answers each message with one.
func (s *service) FullDuplexCall(both pb.TestService_FullDuplexCallServer) error {
	if s.chat != nil {
		return s.chat(both)
	}
	for {
		switch _, err := both.Recv(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := both.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// peers is a listener whose connections come from where the test says.
type peers struct {
	*bufconn.Listener
	addr net.Addr
}

type connFrom struct {
	net.Conn
	addr net.Addr
}

func (c connFrom) RemoteAddr() net.Addr { return c.addr }

func (l peers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return connFrom{c, l.addr}, nil
}

var home = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}

// serve serves behind gates until the test ends, and returns a client whose calls come from an address.
func serve(t testing.TB, o gategrpc.Options, from net.Addr, s *service, more ...grpc.ServerOption) pb.TestServiceClient {
	t.Helper()
	return pb.NewTestServiceClient(dial(t, o, from, s, more...))
}

func dial(t testing.TB, o gategrpc.Options, from net.Addr, s *service, more ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	return dialWith(t, o, from, s, grpc.EmptyDialOption{}, more...)
}

// dialWith is dial with an option for the client.
func dialWith(t testing.TB, o gategrpc.Options, from net.Addr, s *service, d grpc.DialOption, more ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	gates := gategrpc.New(o)
	srv := grpc.NewServer(append(more, grpc.ChainUnaryInterceptor(gates.Unary), grpc.ChainStreamInterceptor(gates.Stream))...)
	pb.RegisterTestServiceServer(srv, s)
	l := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(peers{l, from}) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", d, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return conn
}

func byKey() []gategrpc.CallerFunc {
	return []gategrpc.CallerFunc{gategrpc.ClientIP(nil), gategrpc.Metadata("key", "X-Api-Key")}
}

// as returns a context of calls with an API key.
func as(t testing.TB, key string) context.Context {
	t.Helper()
	return metadata.AppendToOutgoingContext(t.Context(), "x-api-key", key)
}

func event(caller string, e gatetest.Event) gatetest.Event {
	e.Caller, _ = schemas.ParseCaller(caller)
	return e
}

// arrivals is a Recorder that wants no responses.
type arrivals struct{ gatetest.Recorder }

func (*arrivals) Responses() bool { return false }
