package gategrpc

import (
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
	"github.com/509da70d/floodgate/gate/record"
)

// Recorder counts calls; *record.Recorder is one. Its methods must be safe for concurrent use and must not block.
type Recorder interface {
	Record(*gate.Callers, gate.Verdict, record.Request)
	Respond(*gate.Callers, record.Response)
	Responses() bool // whether Respond does anything
}

// Options say what Gates do. Set and Callers are required. Functions are given the call's context and full method, and
// must be safe for concurrent use.
type Options struct {
	Set      *gate.Set
	Recorder Recorder     // nil records nothing
	Callers  []CallerFunc // at most gate.MaxCallers

	// Resource says what a call asks for. nil is the full method. A server with an UnknownServiceHandler needs it: there
	// clients choose the method, and each new one would be an entry of its own.
	Resource func(ctx context.Context, method string) string

	// Skip says which calls are neither gated nor recorded, such as health checks. nil is none.
	Skip func(ctx context.Context, method string) bool

	// EachMessage counts, and gates, every message that a client sends on a stream. See the package documentation.
	EachMessage bool

	// OnClosed returns the error of a refused call. The trailers are set before. nil, as a function or as an error, is the
	// Refusal of the verdict.
	OnClosed func(ctx context.Context, method string, v gate.Verdict) error

	// OnShadow is told of requests that a closure in mode shadow would have refused, and that are admitted, for counting
	// or logging them. It runs before the handler and should be quick. nil is nothing.
	OnShadow func(ctx context.Context, method string, v gate.Verdict)

	// Cost says what a call has cost once it has ended, for rules that measure cost. nil is nothing. It is asked only if
	// the Recorder wants responses.
	Cost func(ctx context.Context, e Ending) int64
}

// Ending is how a call ended.
type Ending struct {
	Method         string
	Code           codes.Code // Internal if the handler panicked
	Received, Sent int64      // messages
	Request, Reply any        // of unary calls; nil for streams
}

// Gates are the interceptors of a server. New makes them. Any goroutine may use them, and any number of servers:
//
//	grpc.NewServer(grpc.ChainUnaryInterceptor(gates.Unary), grpc.ChainStreamInterceptor(gates.Stream))
type Gates struct {
	options Options
	callers []AddFunc
	pool    sync.Pool // of *gate.Callers: calls of caller functions would move each one to the heap
}

var (
	_ grpc.UnaryServerInterceptor  = (*Gates)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Gates)(nil).Stream
)

// New returns Gates. It panics without a Set or callers, with too many callers, and on kinds that Set.Gate refuses:
// mistakes that show at the first start.
func New(o Options) *Gates {
	switch {
	case o.Set == nil:
		panic("gategrpc: Options.Set is nil")
	case len(o.Callers) == 0 || len(o.Callers) > gate.MaxCallers:
		panic("gategrpc: Options.Callers needs 1 to gate.MaxCallers functions")
	}
	if o.Resource == nil {
		o.Resource = Method
	}
	g := &Gates{options: o}
	g.pool.New = func() any { return new(gate.Callers) }
	for _, f := range o.Callers {
		g.callers = append(g.callers, f(o.Set))
	}
	return g
}

func (g *Gates) skips(ctx context.Context, method string) bool {
	return g.options.Skip != nil && g.options.Skip(ctx, method)
}

// responds reports whether somebody wants to know how calls end.
func (g *Gates) responds() bool { return g.options.Recorder != nil && g.options.Recorder.Responses() }

// identify adds a call's callers to c, and returns what it asks for.
func (g *Gates) identify(ctx context.Context, method string, c *gate.Callers) (resource string) {
	for _, add := range g.callers {
		add(ctx, method, c)
	}
	if g.options.Recorder != nil {
		resource = g.options.Resource(ctx, method)
	}
	return resource
}

// arrive gates and records one request. The error refuses it.
func (g *Gates) arrive(ctx context.Context, method, resource string, c *gate.Callers) error {
	o := &g.options
	var now time.Time
	if o.Recorder != nil {
		now = time.Now() // the Recorder's time: with it no closure that has ended refuses anybody, not even after a pause
	}
	v := o.Set.CheckAt(c, now)
	if o.Recorder != nil {
		o.Recorder.Record(c, v, record.Request{Resource: resource, At: now})
	}
	switch {
	case v.Closed:
		return g.refuse(ctx, method, v)
	case v.Shadow && o.OnShadow != nil:
		o.OnShadow(ctx, method, v)
	}
	return nil
}

// pushback is gRPC's word for when clients may retry by themselves (its proposal A6): -1 is never.
const pushback = "-1"

// refuse sets the trailers and returns the error.
func (g *Gates) refuse(ctx context.Context, method string, v gate.Verdict) error {
	seconds := strconv.FormatInt(front.WholeSeconds(v.RetryAfter), 10)
	_ = grpc.SetTrailer(ctx, metadata.Pairs("retry-after", seconds, "grpc-retry-pushback-ms", pushback)) // fails where nobody waits for it any more
	if g.options.OnClosed != nil {
		if err := g.options.OnClosed(ctx, method, v); err != nil {
			return err
		}
	}
	return Refusal(v).Err()
}

// end records how a call ended.
func (g *Gates) end(ctx context.Context, c *gate.Callers, resource string, e *Ending) {
	p := record.Response{Resource: resource, Status: HTTPStatus(e.Code)}
	if g.options.Cost != nil {
		p.Cost = g.options.Cost(ctx, *e)
	}
	g.options.Recorder.Respond(c, p)
}

func (g *Gates) borrow() *gate.Callers {
	return g.pool.Get().(*gate.Callers) //nolint:errcheck,forcetypeassert // the pool holds nothing else
}

func (g *Gates) free(c *gate.Callers) {
	c.Reset()
	g.pool.Put(c)
}
