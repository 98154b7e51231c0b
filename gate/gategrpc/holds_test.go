package gategrpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/509da70d/floodgate/gate/gategrpc"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// fixedStream is a stream with a context, which nobody reads or writes.
type fixedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s fixedStream) Context() context.Context { return s.ctx }

// TestWhatACallHolds: one call of key k that declares what its message says, or 500 if it is a stream. Whatever becomes of it, its
// response names the arrival, and gives back what the arrival declared.
func TestWhatACallHolds(t *testing.T) {
	const took = 3 * time.Second
	for name, test := range map[string]struct {
		closures                      []gatetest.Closure
		end                           func() error
		costPanics, plain             bool
		arrivals, responses, declares int
		status                        int
	}{
		"a call":                        {arrivals: 1, responses: 1, declares: 1, status: 200},
		"a call that fails":             {end: func() error { return context.Canceled }, arrivals: 1, responses: 1, declares: 1, status: 499},
		"a handler that panics":         {end: func() error { panic(errors.New("handler")) }, arrivals: 1, responses: 1, declares: 1, status: 500},
		"a cost that panics":            {costPanics: true, arrivals: 1, responses: 1, declares: 1, status: 200},
		"refused":                       {closures: []gatetest.Closure{gatetest.Close("key:k", time.Hour)}, arrivals: 1},
		"by a Recorder that holds none": {plain: true, arrivals: 1, responses: 1, status: 200},
	} {
		for _, streams := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rec, began, declares := gatetest.Recorder{Hold: !test.plain}, time.Now(), 0
					gates := gategrpc.New(gategrpc.Options{
						Set: gatetest.Set(t, test.closures...), Recorder: &rec, Callers: []gategrpc.CallerFunc{gategrpc.Metadata("key", "x-api-key")},
						Cost: func(context.Context, gategrpc.CallResult) int64 {
							if test.costPanics {
								panic(errors.New("cost"))
							}
							return 7
						},
						Declared: func(_ context.Context, method string, request any) int64 {
							declares++
							if r, ok := request.(*pb.SimpleRequest); ok != !streams || method != unary {
								t.Errorf("got %s with %v, want the message of a unary call, and none of a stream", method, request)
							} else if ok {
								return int64(r.GetResponseSize())
							}
							return 500
						},
					})
					handle := func() error {
						<-time.After(took)
						if test.end != nil {
							return test.end()
						}
						return nil
					}
					func() {
						defer func() { _ = recover() }()
						ctx := incoming("x-api-key", "k")
						if streams {
							_ = gates.Stream(nil, fixedStream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: unary}, func(any, grpc.ServerStream) error { return handle() })
							return
						}
						_, _ = gates.Unary(ctx, &pb.SimpleRequest{ResponseSize: 500}, &grpc.UnaryServerInfo{FullMethod: unary},
							func(context.Context, any) (any, error) { return nil, handle() })
					}()
					var arrivals, responses int
					for _, e := range rec.Events() {
						if want := int64(500); !test.plain && !e.Blocked && e.Declared != want || (test.plain || e.Blocked) && e.Declared != 0 {
							t.Errorf("got %+v, want declared %d if the Recorder holds and the call was admitted", e, want)
						}
						if !e.Response {
							arrivals++
							continue
						}
						if responses++; e.Status != test.status || e.Arrived.Equal(began) == test.plain {
							t.Errorf("got %+v, want status %d, arrived %v", e, test.status, began)
						}
					}
					if arrivals != test.arrivals || responses != test.responses || declares != test.declares {
						t.Errorf("got %d arrivals, %d responses and %d calls of Declared, want %d, %d and %d",
							arrivals, responses, declares, test.arrivals, test.responses, test.declares)
					}
				})
			})
		}
	}
}
