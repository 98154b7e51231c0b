package gategrpc_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gategrpc"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
)

// The Recorder that servers use must fit.
var _ gategrpc.Recorder = (*record.Recorder)(nil)

// retryDelay returns what an error's RetryInfo says, or -1.
func retryDelay(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return r.GetRetryDelay().AsDuration()
		}
	}
	return -1
}

func TestOpenAndClosedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec arrivals
		set := gatetest.Set(t, gatetest.Close("key:noisy", 12*time.Second))
		client := serve(t, gategrpc.Options{Set: set, Recorder: &rec, Callers: byKey()}, home, &service{})

		var trailer metadata.MD
		r, err := client.UnaryCall(as(t, "quiet"), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
		if err != nil || r.GetUsername() != "hello" || len(trailer["retry-after"]) != 0 {
			t.Errorf("quiet: got %v, %v, %v, want the answer and no trailer", r, err, trailer)
		}
		<-time.After(300 * time.Millisecond)
		_, err = client.UnaryCall(as(t, "noisy"), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
		if status.Code(err) != codes.ResourceExhausted || retryDelay(err) != 11_700*time.Millisecond {
			t.Errorf("noisy: got %v, retry in %v, want ResourceExhausted and 11.7 s", err, retryDelay(err))
		}
		if got := trailer["retry-after"]; !reflect.DeepEqual(got, []string{"12"}) {
			t.Errorf("noisy: got retry-after %q, want 12", got)
		}
		// The address's own gate is open: the refused call is not charged to it.
		want := []gatetest.Event{
			event("ip:192.0.2.1", gatetest.Event{Resource: unary}),
			event("key:quiet", gatetest.Event{Resource: unary}),
			event("key:noisy", gatetest.Event{Resource: unary, Blocked: true}),
		}
		if got := rec.Events(); !reflect.DeepEqual(got, want) {
			t.Errorf("recorded: got %+v, want %+v", got, want)
		}
		<-time.After(retryDelay(err) - 1)
		if _, err := client.UnaryCall(as(t, "noisy"), &pb.SimpleRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("just before the time that RetryInfo said: got %v, want refused", err)
		}
		<-time.After(1)
		if _, err := client.UnaryCall(as(t, "noisy"), &pb.SimpleRequest{}); err != nil {
			t.Errorf("at the time that RetryInfo said: got %v, want admitted", err)
		}
	})
}

// Callers that are closed together get different times to retry, so that they do not come back together. Each is admitted at
// its time, and not before.
func TestRetryInfoIsTheJitteredTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, length = 200, 100 * time.Second
		set := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)})
		gates := gategrpc.New(gategrpc.Options{Set: set, Callers: []gategrpc.CallerFunc{gategrpc.Metadata("key", "x-api-key")}})
		var closures []gatetest.Closure
		for i := range callers {
			closures = append(closures, gatetest.Close(fmt.Sprint("key:", i), length))
		}
		gatetest.Apply(t, set, closures...)
		call := func(i int) error {
			_, err := gates.Unary(incoming("x-api-key", fmt.Sprint(i)), nil, &grpc.UnaryServerInfo{FullMethod: unary},
				func(context.Context, any) (any, error) { return nil, nil })
			return err
		}
		delays := map[int]time.Duration{}
		for i := range callers {
			delays[i] = retryDelay(call(i))
		}
		order := slices.SortedFunc(maps.Keys(delays), func(a, b int) int { return cmp.Compare(delays[a], delays[b]) })
		began, distinct := time.Now(), map[time.Duration]bool{}
		for _, i := range order {
			distinct[delays[i]] = true
			<-time.After(delays[i] - time.Since(began) - 1)
			early := call(i)
			<-time.After(1)
			if now := call(i); status.Code(early) != codes.ResourceExhausted || now != nil {
				t.Errorf("caller %d: got %v just before it was to come back, and %v then", i, early, now)
			}
		}
		first, last := delays[order[0]], delays[order[callers-1]]
		if first < length || last > length+10*time.Second || last-first < 9*time.Second || len(distinct) < callers*9/10 {
			t.Errorf("got %v to %v, %d times of %d, want them spread over the 10 s after %v", first, last, len(distinct), callers, length)
		}
	})
}

// A client whose policy is to try again when a resource is exhausted would make one refused call five.
func TestClientsDoNotRetryRefusedCallsByThemselves(t *testing.T) {
	policy := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`)
	closed := true
	for _, want := range []int{1, 5} {
		var rec arrivals
		set := gatetest.Set(t)
		if closed {
			gatetest.Apply(t, set, gatetest.Close("ip:192.0.2.1", time.Minute))
		}
		o := gategrpc.Options{Set: set, Recorder: &rec, Callers: byKey()}
		client := pb.NewTestServiceClient(dialWith(t, o, home, &service{
			unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { // of its own, not the gate's
				return nil, status.Error(codes.ResourceExhausted, "no memory")
			},
		}, policy))
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v, want ResourceExhausted", err)
		}
		if got := len(rec.Events()); got != want {
			t.Errorf("closed %v: got %d attempts, want %d", closed, got, want)
		}
		closed = false
	}
}

func TestTheHandlerOfARefusedCallIsNotRun(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("ip:192.0.2.1", time.Minute))
	client := serve(t, gategrpc.Options{Set: set, Callers: byKey()}, home, &service{
		unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			t.Error("the handler ran")
			return nil, nil
		},
	})
	if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
}

// recovering turns a panic into an error, as interceptors before the gates do.
func recovering(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Error(codes.Unavailable, fmt.Sprint(p))
		}
	}()
	return h(ctx, req)
}

func TestTheEndOfACallIsRecordedByWhatItsClientSees(t *testing.T) {
	for _, p := range []struct {
		name   string
		handle func() error
		code   codes.Code // the client's
		status int
	}{
		{"success", func() error { return nil }, codes.OK, 200},
		{"a status", func() error { return status.Error(codes.NotFound, "no item") }, codes.NotFound, 404},
		{"a wrapped status", func() error { return fmt.Errorf("get: %w", status.Error(codes.NotFound, "no item")) }, codes.NotFound, 404},
		{"any error", func() error { return errors.New("broken") }, codes.Unknown, 500},
		{"a deadline", func() error { return fmt.Errorf("get: %w", context.DeadlineExceeded) }, codes.DeadlineExceeded, 504},
		{"canceled", func() error { return context.Canceled }, codes.Canceled, 499},
		{"a panic, whatever becomes of it", func() error { panic("broken") }, codes.Unavailable, 500},
	} {
		t.Run(p.name, func(t *testing.T) {
			var rec gatetest.Recorder
			client := serve(t, gategrpc.Options{Set: gatetest.Set(t), Recorder: &rec, Callers: byKey()}, home, &service{
				unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					return &pb.SimpleResponse{}, p.handle()
				},
			}, grpc.UnaryInterceptor(recovering))
			if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != p.code {
				t.Errorf("got %v, want %v", err, p.code)
			}
			want := []gatetest.Event{
				event("ip:192.0.2.1", gatetest.Event{Resource: unary}),
				event("ip:192.0.2.1", gatetest.Event{Resource: unary, Response: true, Status: p.status}),
			}
			if got := rec.Events(); !reflect.DeepEqual(got, want) {
				t.Errorf("recorded: got %+v, want %+v", got, want)
			}
		})
	}
}

func TestTheEndOfARefusedCallIsNotRecorded(t *testing.T) {
	var rec gatetest.Recorder
	set := gatetest.Set(t, gatetest.Close("ip:192.0.2.1", time.Minute))
	client := serve(t, gategrpc.Options{Set: set, Recorder: &rec, Callers: byKey()}, home, &service{})
	_, _ = client.UnaryCall(t.Context(), &pb.SimpleRequest{})
	want := []gatetest.Event{event("ip:192.0.2.1", gatetest.Event{Resource: unary, Blocked: true})}
	if got := rec.Events(); !reflect.DeepEqual(got, want) {
		t.Errorf("recorded: got %+v, want %+v", got, want)
	}
}

func TestCostIsWhatTheServerSays(t *testing.T) {
	var rec gatetest.Recorder
	var got gategrpc.CallResult
	client := serve(t, gategrpc.Options{
		Set: gatetest.Set(t), Recorder: &rec, Callers: byKey(),
		Cost: func(_ context.Context, result gategrpc.CallResult) int64 {
			got = result
			if r, ok := result.Reply.(*pb.SimpleResponse); ok {
				return int64(len(r.GetPayload().GetBody()))
			}
			return 1
		},
	}, home, &service{unary: func(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if r.GetResponseSize() == 0 {
			return &pb.SimpleResponse{}, status.Error(codes.InvalidArgument, "nothing to send")
		}
		return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, r.GetResponseSize())}}, nil
	}})
	cost := func(size int32) int64 {
		_, _ = client.UnaryCall(t.Context(), &pb.SimpleRequest{ResponseSize: size})
		es := rec.Events()
		return es[len(es)-1].Cost
	}
	if c := cost(1234); c != 1234 || got.Method != unary || got.Code != codes.OK || got.Received != 1 || got.Sent != 1 ||
		got.Request.(*pb.SimpleRequest).GetResponseSize() != 1234 {
		t.Errorf("success: got cost %d of %+v", c, got)
	}
	if c := cost(0); c != 1 || got.Code != codes.InvalidArgument || got.Reply != nil || got.Sent != 0 {
		t.Errorf("failure: got cost %d of %+v, want no reply", c, got)
	}
}

func TestSkippedCallsAreNeitherGatedNorRecorded(t *testing.T) {
	var rec gatetest.Recorder
	set := gatetest.Set(t, gatetest.Close("ip:192.0.2.1", time.Minute))
	client := serve(t, gategrpc.Options{
		Set: set, Recorder: &rec, Callers: byKey(),
		Skip: func(_ context.Context, method string) bool { return method == empty || method == feed },
	}, home, &service{})
	if _, err := client.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
		t.Errorf("got %v, want the skipped call admitted", err)
	}
	s, err := client.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) == codes.ResourceExhausted {
		t.Errorf("got %v, want the skipped stream admitted", err)
	}
	if got := rec.Events(); len(got) != 0 {
		t.Errorf("recorded: got %+v, want nothing", got)
	}
	if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v for a call that is not skipped, want ResourceExhausted", err)
	}
}

func TestOnClosedAnswersAsItLikes(t *testing.T) {
	set := gatetest.Set(t, gatetest.Close("ip:192.0.2.1", time.Minute))
	answer := func(_ context.Context, method string, v gate.Verdict) error {
		return status.Error(codes.Unavailable, v.Caller.String()+" by "+v.Rule+" at "+method)
	}
	for _, p := range []struct {
		name     string
		onClosed func(context.Context, string, gate.Verdict) error
		code     codes.Code
		message  string
	}{
		{"an error", answer, codes.Unavailable, "ip:192.0.2.1 by gatetest at " + unary},
		{"nothing", func(context.Context, string, gate.Verdict) error { return nil }, codes.ResourceExhausted, "too many requests: retry after 1m0s"},
	} {
		t.Run(p.name, func(t *testing.T) {
			client := serve(t, gategrpc.Options{Set: set, Callers: byKey(), OnClosed: p.onClosed}, home, &service{})
			var trailer metadata.MD
			_, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
			if got := status.Convert(err); got.Code() != p.code || got.Message() != p.message {
				t.Errorf("got %v, want %v %q", err, p.code, p.message)
			}
			if got := trailer["retry-after"]; len(got) != 1 || got[0] != "60" {
				t.Errorf("got retry-after %q, want 60 all the same", got)
			}
		})
	}
}

func TestShadowAdmitsAndTells(t *testing.T) {
	set := gatetest.Set(t, gatetest.Shadow("key:k", time.Minute), gatetest.Close("key:closed", time.Minute))
	for mode, want := range map[gate.Mode]string{
		gate.Enforce: "key:k " + unary, gate.Shadow: "key:k " + unary + ";key:closed " + unary, gate.Off: "",
	} {
		t.Run(mode.String(), func(t *testing.T) {
			set.SetMode(mode)
			var rec arrivals
			shadowed := ""
			client := serve(t, gategrpc.Options{Set: set, Recorder: &rec, Callers: byKey(),
				OnShadow: func(_ context.Context, method string, v gate.Verdict) {
					if shadowed != "" {
						shadowed += ";"
					}
					shadowed += v.Caller.String() + " " + method
				},
			}, home, &service{})
			for _, key := range []string{"k", "open", "closed"} {
				_, err := client.UnaryCall(as(t, key), &pb.SimpleRequest{})
				if refused := key == "closed" && mode == gate.Enforce; (err != nil) != refused {
					t.Errorf("%s: got %v, want refused %v", key, err, refused)
				}
			}
			if shadowed != want {
				t.Errorf("OnShadow got %q, want %q", shadowed, want)
			}
		})
	}
}

func TestNewPanicsOnMistakes(t *testing.T) {
	set := gatetest.Set(t)
	for name, o := range map[string]gategrpc.Options{
		"no Set":     {Callers: byKey()},
		"no callers": {Set: set},
		"too many":   {Set: set, Callers: make([]gategrpc.CallerFunc, gate.MaxCallers+1)},
		"bad kind":   {Set: set, Callers: []gategrpc.CallerFunc{gategrpc.Metadata("API Key", "x-api-key")}},
		"messages that hold, and that no response ends": {Set: set, Callers: byKey(), EachMessage: true, Recorder: &gatetest.Recorder{Hold: true}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got gates, want a panic")
				}
			}()
			gategrpc.New(o)
		})
	}
}
