package gategrpc

import (
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/509da70d/floodgate/gate"
)

// Stream is a grpc.StreamServerInterceptor.
func (g *Gates) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, method := ss.Context(), info.FullMethod
	if g.skips(ctx, method) {
		return handler(srv, ss)
	}
	c := new(gate.Callers) // not of the pool: handlers may leave a goroutine behind in RecvMsg
	resource := g.identify(ctx, method, c)
	if err := g.arrive(ctx, method, resource, c); err != nil {
		return err
	}
	s := &stream{ServerStream: ss, gates: g, callers: c, resource: resource, method: method}
	if g.options.EachMessage || g.responds() && g.options.Cost != nil {
		ss = s
	}
	if !g.responds() {
		return handler(srv, ss)
	}
	e := Ending{Method: method, Code: codes.Internal}
	defer func() {
		e.Received, e.Sent = s.received.Load(), s.sent.Load()
		g.end(ctx, c, resource, &e)
	}()
	err := handler(srv, ss)
	e.Code = codeOf(err)
	return err
}

// stream is a ServerStream that counts messages, and gates those it receives.
type stream struct {
	grpc.ServerStream
	gates            *Gates
	callers          *gate.Callers // read only
	resource, method string

	received, sent atomic.Int64
	refused        error // what RecvMsg returns from now on; one goroutine at a time may call it
}

// RecvMsg implements grpc.ServerStream.
func (s *stream) RecvMsg(m any) error {
	if s.refused != nil {
		return s.refused
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if s.received.Add(1) > 1 && s.gates.options.EachMessage { // the first is the call's own
		s.refused = s.gates.arrive(s.Context(), s.method, s.resource, s.callers)
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
