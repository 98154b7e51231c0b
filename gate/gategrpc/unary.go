package gategrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/509da70d/floodgate/gate"
)

// Unary is a grpc.UnaryServerInterceptor.
func (g *Gates) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := info.FullMethod
	if g.skips(ctx, method) {
		return handler(ctx, req)
	}
	c := g.borrow()
	resource := g.identify(ctx, method, c)
	err := g.arrive(ctx, method, resource, c)
	if err == nil && g.responds() {
		return g.unaryRecorded(ctx, req, c, resource, method, handler)
	}
	g.free(c)
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// unaryRecorded handles an admitted call and records how it ended, also if the handler panics.
func (g *Gates) unaryRecorded(
	ctx context.Context, req any, c *gate.Callers, resource, method string, handler grpc.UnaryHandler,
) (any, error) {
	e := Ending{Method: method, Code: codes.Internal, Received: 1, Request: req}
	defer func() {
		g.end(ctx, c, resource, &e)
		g.free(c)
	}()
	reply, err := handler(ctx, req)
	if e.Code = codeOf(err); err == nil {
		e.Reply, e.Sent = reply, 1
	}
	return reply, err
}
