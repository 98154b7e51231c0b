package gategrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
)

// Unary is a grpc.UnaryServerInterceptor.
func (g *Gates) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := info.FullMethod
	if g.skips(ctx, method) {
		return handler(ctx, req)
	}
	c := g.borrow()
	arrival, err := g.begin(ctx, method, req, c)
	if repeated := g.repeated(ctx); repeated != nil {
		handler = func(context.Context, any) (any, error) { return nil, repeated }
	}
	if err == nil && g.responds() {
		return g.unaryRecorded(ctx, req, c, &arrival, method, handler)
	}
	g.free(c)
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// unaryRecorded handles an admitted call and records how it ended, even if the handler panics.
func (g *Gates) unaryRecorded(
	ctx context.Context, req any, c *gate.Callers, arrival *record.Request, method string, handler grpc.UnaryHandler,
) (any, error) {
	result := CallResult{Method: method, Code: codes.Internal, Received: 1, Request: req}
	defer func() {
		defer g.free(c)
		g.recordResult(ctx, c, arrival, &result)
	}()
	reply, err := handler(ctx, req)
	if result.Code = codeOf(err); err == nil {
		result.Reply, result.Sent = reply, 1
	}
	return reply, err
}
