package gategrpc

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/front"
	"github.com/509da70d/floodgate/gate/record"
)

// Recorder counts calls; *record.Recorder is one. Its methods must be safe for concurrent use and must not block.
type Recorder interface {
	Record(*gate.Callers, gate.Verdict, record.Request)
	Respond(*gate.Callers, record.Response)
	Responses() bool // whether Respond does anything
	Holds() bool     // whether it wants to know what calls are expected to cost
}

// Options configure Gates. Set and Callers are required. The functions get the context and the full method of the call, and
// must be safe for concurrent use.
type Options struct {
	Set      *gate.Set
	Recorder Recorder     // nil records nothing
	Callers  []CallerFunc // at most gate.MaxCallers

	// Resource returns what a call asks for. If it is nil, the resource is the full method. A server with an
	// UnknownServiceHandler must set it: there clients choose the method, and each new method would be an entry of its own.
	Resource func(ctx context.Context, method string) string

	// Skip reports whether a call, such as a health check, is neither gated nor recorded. If it is nil, none is skipped.
	Skip func(ctx context.Context, method string) bool

	// RejectRepeated names metadata keys that a call may have only once, such as the one with an API key. If a call has one
	// of them twice, or with a comma in it (proxies join two values by a comma), it fails with InvalidArgument before the
	// handler is called. It is counted like any other call, by its first value, and a closed gate refuses it first.
	RejectRepeated []string

	// EachMessage counts, and gates, every message that a client sends on a stream. See the package documentation. The Recorder must
	// not hold: a message has no response that would end what it holds.
	EachMessage bool

	// OnClosed returns the error of a refused call. The trailers are set before it is called. If it is nil, or returns nil,
	// the error is the Refusal of the verdict.
	OnClosed func(ctx context.Context, method string, v gate.Verdict) error

	// OnShadow is called for each admitted request that a closure in mode shadow would have refused, to count or log it. It
	// runs before the handler and should be quick. It may be nil.
	OnShadow func(ctx context.Context, method string, v gate.Verdict)

	// Cost returns the cost of a call after it has ended, for rules that measure cost. It is called only if the Recorder
	// wants responses, and also if the handler panicked or the client has gone away. If it is nil, the cost is 0.
	Cost func(ctx context.Context, result CallResult) int64

	// Declared returns what a call is expected to cost; 0 is unknown. request is the message of a unary call, and nil for a stream. It
	// is called once for each admitted call, before it is recorded, and only if the Recorder holds. It must not wait. If it is nil,
	// nothing is declared.
	Declared func(ctx context.Context, method string, request any) int64
}

// CallResult says how a call ended.
type CallResult struct {
	Method         string
	Code           codes.Code // Internal if the handler panicked
	Received, Sent int64      // messages
	Request, Reply any        // of unary calls; nil for streams
}

// Gates are the interceptors of a server. New makes them. Any goroutine may use them, and any number of servers:
//
//	grpc.NewServer(grpc.ChainUnaryInterceptor(gates.Unary), grpc.ChainStreamInterceptor(gates.Stream))
type Gates struct {
	options    Options
	callers    []AddFunc
	singleKeys []string  // Options.RejectRepeated, in lower case
	pool       sync.Pool // of *gate.Callers: calls of caller functions would move each one to the heap
}

var (
	_ grpc.UnaryServerInterceptor  = (*Gates)(nil).Unary
	_ grpc.StreamServerInterceptor = (*Gates)(nil).Stream
)

// New returns Gates. It panics without a Set or callers, with too many callers, on kinds that Set.Gate refuses, and on EachMessage
// with a Recorder that holds. Such mistakes show when the program starts for the first time.
func New(o Options) *Gates {
	switch {
	case o.Set == nil:
		panic("gategrpc: Options.Set is nil")
	case len(o.Callers) == 0 || len(o.Callers) > gate.MaxCallers:
		panic("gategrpc: Options.Callers needs 1 to gate.MaxCallers functions")
	case o.EachMessage && o.Recorder != nil && o.Recorder.Holds():
		panic("gategrpc: got Options.EachMessage and a Recorder that holds, want one of them: a message has no response")
	}
	if o.Resource == nil {
		o.Resource = Method
	}
	g := &Gates{options: o}
	g.pool.New = func() any { return new(gate.Callers) }
	for _, f := range o.Callers {
		g.callers = append(g.callers, f(o.Set))
	}
	for _, key := range o.RejectRepeated {
		g.singleKeys = append(g.singleKeys, strings.ToLower(key))
	}
	return g
}

func (g *Gates) skips(ctx context.Context, method string) bool {
	return g.options.Skip != nil && g.options.Skip(ctx, method)
}

// responds reports whether the Recorder wants to know how calls end.
func (g *Gates) responds() bool { return g.options.Recorder != nil && g.options.Recorder.Responses() }

// begin adds a call's callers to c, and gates and records the call. request is Declared's. It returns what it has recorded, and an
// error if the call is refused.
func (g *Gates) begin(ctx context.Context, method string, request any, c *gate.Callers) (arrival record.Request, err error) {
	for _, add := range g.callers {
		add(ctx, method, c)
	}
	if g.options.Recorder != nil {
		arrival.Resource = g.options.Resource(ctx, method)
	}
	err = g.arrive(ctx, method, request, c, &arrival)
	return arrival, err
}

// arrive gates and records one request, as which it completes q. It returns an error if the request is refused.
func (g *Gates) arrive(ctx context.Context, method string, request any, c *gate.Callers, q *record.Request) error {
	o := &g.options
	if o.Recorder != nil {
		q.At = time.Now() // the Recorder needs it. With it, a closure that has ended refuses no request, even after a pause
	}
	v := o.Set.CheckAt(c, q.At)
	if o.Recorder != nil {
		if o.Declared != nil && !v.Closed && o.Recorder.Holds() {
			q.Declared = o.Declared(ctx, method, request)
		}
		o.Recorder.Record(c, v, *q)
	}
	switch {
	case v.Closed:
		return g.refuse(ctx, method, v)
	case v.Shadow && o.OnShadow != nil:
		o.OnShadow(ctx, method, v)
	}
	return nil
}

// pushback is the value of grpc-retry-pushback-ms, after which clients may retry by themselves (gRPC proposal A6). -1 is
// never.
const pushback = "-1"

// refuse sets the trailers and returns the error.
func (g *Gates) refuse(ctx context.Context, method string, v gate.Verdict) error {
	seconds := strconv.FormatInt(front.WholeSeconds(v.RetryAfter), 10)
	_ = grpc.SetTrailer(ctx, metadata.Pairs("retry-after", seconds, "grpc-retry-pushback-ms", pushback)) // fails if the client does not wait any more
	if g.options.OnClosed != nil {
		if err := g.options.OnClosed(ctx, method, v); err != nil {
			return err
		}
	}
	return Refusal(v).Err()
}

// recordResult records how a call ended, even if Options.Cost panics.
func (g *Gates) recordResult(ctx context.Context, c *gate.Callers, arrival *record.Request, result *CallResult) {
	p := record.Response{
		Resource: arrival.Resource, Status: HTTPStatus(result.Code), Arrived: arrival.At, Declared: arrival.Declared,
	}
	defer func() { g.options.Recorder.Respond(c, p) }()
	if g.options.Cost != nil {
		p.Cost = g.options.Cost(ctx, *result)
	}
}

// errRepeated is the error of a call that has a metadata key twice.
var errRepeated = status.Error(codes.InvalidArgument, "metadata that identifies the caller was sent more than once")

// repeated returns an error if a call has a metadata key twice that it may have only once.
func (g *Gates) repeated(ctx context.Context) error {
	for _, key := range g.singleKeys {
		if front.Repeated(metadata.ValueFromIncomingContext(ctx, key)) {
			return errRepeated
		}
	}
	return nil
}

func (g *Gates) borrow() *gate.Callers {
	return g.pool.Get().(*gate.Callers) //nolint:errcheck,forcetypeassert // the pool holds nothing else
}

func (g *Gates) free(c *gate.Callers) {
	c.Reset()
	g.pool.Put(c)
}
