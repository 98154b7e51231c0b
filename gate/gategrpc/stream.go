package gategrpc

import (
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
)

// Stream is a grpc.StreamServerInterceptor.
func (g *Gates) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, method := ss.Context(), info.FullMethod
	if g.skips(ctx, method) {
		return handler(srv, ss)
	}
	c := new(gate.Callers) // not from the pool: a goroutine of the handler may still be in RecvMsg after the call
	arrival, err := g.begin(ctx, method, nil, c)
	if err != nil {
		return err
	}
	if repeated := g.repeated(ctx); repeated != nil {
		handler = func(any, grpc.ServerStream) error { return repeated }
	}
	s := &stream{ServerStream: ss, gates: g, callers: c, resource: arrival.Resource, method: method}
	if g.options.EachMessage || g.responds() && g.options.Cost != nil {
		ss = s
	}
	if !g.responds() {
		return handler(srv, ss)
	}
	result := CallResult{Method: method, Code: codes.Internal}
	defer func() {
		result.Received, result.Sent = s.received.Load(), s.sent.Load()
		g.recordResult(ctx, c, &arrival, &result)
	}()
	err = handler(srv, ss)
	result.Code = codeOf(err)
	return err
}

// stream is a ServerStream that counts messages, and gates those it receives.
type stream struct {
	grpc.ServerStream
	gates            *Gates
	callers          *gate.Callers // read only
	resource, method string

	received, sent atomic.Int64
	refused        error // the error of RecvMsg once a message was refused; one goroutine at a time calls RecvMsg
}

// RecvMsg implements grpc.ServerStream.
func (s *stream) RecvMsg(m any) error {
	if s.refused != nil {
		return s.refused
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if s.received.Add(1) > 1 && s.gates.options.EachMessage { // the first message counts as the call
		s.refused = s.gates.arrive(s.Context(), s.method, nil, s.callers, &record.Request{Resource: s.resource})
	}
	return s.refused
}

// SendMsg implements grpc.ServerStream.
func (s *stream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.sent.Add(1)
	}
	return err
}
