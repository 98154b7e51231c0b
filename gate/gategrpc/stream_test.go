package gategrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gategrpc"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// talk sends a message and waits for the answer.
func talk(s pb.TestService_FullDuplexCallClient) error {
	if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) { // Recv says why
		return err
	}
	_, err := s.Recv()
	return err
}

func TestStreamsAreCheckedWhenTheyStart(t *testing.T) {
	var rec gatetest.Recorder
	set := gatetest.Set(t, gatetest.Close("key:noisy", 30*time.Second))
	client := serve(t, gategrpc.Options{Set: set, Recorder: &rec, Callers: byKey()}, home, &service{})
	for method, call := range map[string]func(context.Context) (grpc.ClientStream, error){
		chat: func(ctx context.Context) (grpc.ClientStream, error) { return client.FullDuplexCall(ctx) },
		feed: func(ctx context.Context) (grpc.ClientStream, error) {
			return client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		},
		upload: func(ctx context.Context) (grpc.ClientStream, error) { return client.StreamingInputCall(ctx) },
	} {
		rec.Reset()
		s, err := call(as(t, "noisy"))
		if err != nil {
			t.Fatal(err)
		}
		err = s.RecvMsg(&pb.StreamingOutputCallResponse{})
		if d := retryDelay(err); status.Code(err) != codes.ResourceExhausted || d <= 29*time.Second || d > 30*time.Second {
			t.Errorf("%s: got %v, retry in %v, want ResourceExhausted and 30 s", method, err, d)
		}
		if got := s.Trailer()["retry-after"]; !reflect.DeepEqual(got, []string{"30"}) {
			t.Errorf("%s: got retry-after %q, want 30", method, got)
		}
		want := []gatetest.Event{event("key:noisy", gatetest.Event{Resource: method, Blocked: true})}
		if got := rec.Events(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: recorded: got %+v, want %+v", method, got, want)
		}
	}
}

func TestAnAdmittedStreamIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec gatetest.Recorder
		set := gatetest.Set(t)
		client := serve(t, gategrpc.Options{Set: set, Recorder: &rec, Callers: byKey()}, home, &service{})
		s, err := client.FullDuplexCall(as(t, "k"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if err := talk(s); err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			gatetest.Apply(t, set, gatetest.Close("key:k", time.Minute)) // does not cut it off
		}
		if got := len(rec.Events()); got != 2 {
			t.Errorf("got %d events before its end, want one a caller", got)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want the stream's end", err)
		}
		want := []gatetest.Event{
			event("ip:192.0.2.1", gatetest.Event{Resource: chat}), event("key:k", gatetest.Event{Resource: chat}),
			event("ip:192.0.2.1", gatetest.Event{Resource: chat, Response: true, Status: 200}),
			event("key:k", gatetest.Event{Resource: chat, Response: true, Status: 200}),
		}
		if got := rec.Events(); !reflect.DeepEqual(got, want) {
			t.Errorf("recorded: got %+v, want %+v", got, want)
		}
	})
}

func TestEachMessageIsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec gatetest.Recorder
		set := gatetest.Set(t)
		client := serve(t, gategrpc.Options{
			Set: set, Recorder: &rec, Callers: byKey(), EachMessage: true,
			Cost: func(_ context.Context, result gategrpc.CallResult) int64 { return 100*result.Received + result.Sent },
		}, home, &service{})
		s, err := client.FullDuplexCall(as(t, "k"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := len(rec.Events()); got != 2 {
			t.Errorf("got %d events at the start, want one a caller", got)
		}
		for i, want := range []int{2, 4, 6} { // the first message is the call's own
			if err := talk(s); err != nil {
				t.Fatal(err)
			}
			if got := len(rec.Events()); got != want {
				t.Errorf("got %d events after message %d, want %d", got, i+1, want)
			}
		}
		rec.Reset()
		gatetest.Apply(t, set, gatetest.Close("key:k", time.Minute))
		err = talk(s)
		if status.Code(err) != codes.ResourceExhausted || retryDelay(err) != time.Minute {
			t.Errorf("got %v, retry in %v, want ResourceExhausted and a minute", err, retryDelay(err))
		}
		if got := s.Trailer()["retry-after"]; !reflect.DeepEqual(got, []string{"60"}) {
			t.Errorf("got retry-after %q, want 60", got)
		}
		want := []gatetest.Event{
			event("key:k", gatetest.Event{Resource: chat, Blocked: true}),
			event("ip:192.0.2.1", gatetest.Event{Resource: chat, Response: true, Status: 429, Cost: 403}),
			event("key:k", gatetest.Event{Resource: chat, Response: true, Status: 429, Cost: 403}),
		}
		if got := rec.Events(); !reflect.DeepEqual(got, want) {
			t.Errorf("recorded: got %+v, want %+v", got, want)
		}
	})
}

// A handler that does not heed the error gets no further message, and floods neither the log nor the trailer.
func TestARefusedStreamStaysRefused(t *testing.T) {
	var rec arrivals
	set := gatetest.Set(t)
	tries := make(chan error, 100)
	client := serve(t, gategrpc.Options{Set: set, Recorder: &rec, Callers: byKey(), EachMessage: true}, home, &service{
		chat: func(s pb.TestService_FullDuplexCallServer) error {
			if _, err := s.Recv(); err != nil {
				return err
			}
			gatetest.Apply(t, set, gatetest.Close("ip:192.0.2.1", time.Minute))
			for range cap(tries) {
				_, err := s.Recv()
				tries <- err
			}
			gatetest.Apply(t, set, gatetest.Open("ip:192.0.2.1"))
			_, err := s.Recv()
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("got %v after the gate has reopened, want the stream refused for good", err)
			}
			return nil // as if nothing were wrong
		},
	})
	s, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range cap(tries) {
		if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
			break // the stream has ended meanwhile
		}
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want what the handler returned", err)
	}
	for range cap(tries) {
		if err := <-tries; status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("got %v, want every Recv refused", err)
		}
	}
	if got := s.Trailer()["retry-after"]; len(got) != 1 {
		t.Errorf("got retry-after %q, want it once", got)
	}
	if got := len(rec.Events()); got != 2 {
		t.Errorf("recorded %d events, want the first message and the one refused", got)
	}
}

func TestShadowTellsOfEachMessage(t *testing.T) {
	shadowed := 0
	set := gatetest.Set(t, gatetest.Shadow("key:k", time.Minute))
	client := serve(t, gategrpc.Options{Set: set, Callers: byKey(), EachMessage: true,
		OnShadow: func(context.Context, string, gate.Verdict) { shadowed++ },
	}, home, &service{})
	s, err := client.FullDuplexCall(as(t, "k"))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := talk(s); err != nil {
			t.Fatal(err)
		}
	}
	if shadowed != 5 {
		t.Errorf("OnShadow called for %d messages, want 5", shadowed)
	}
}

func TestMessagesOfTheServerAreNoRequests(t *testing.T) {
	var rec arrivals
	client := serve(t, gategrpc.Options{Set: gatetest.Set(t), Recorder: &rec, Callers: byKey(), EachMessage: true}, home, &service{})
	s, err := client.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{
		ResponseParameters: make([]*pb.ResponseParameters, 50),
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; err == nil; n++ {
		_, err = s.Recv()
	}
	if n != 51 || !errors.Is(err, io.EOF) || len(rec.Events()) != 1 {
		t.Errorf("got %d messages, %v and %d events, want 50, the end, and one", n-1, err, len(rec.Events()))
	}
}

func TestAStreamWhoseHandlerPanicsIsRecorded(t *testing.T) {
	var rec gatetest.Recorder
	client := serve(t, gategrpc.Options{Set: gatetest.Set(t), Recorder: &rec, Callers: byKey()}, home, &service{
		chat: func(pb.TestService_FullDuplexCallServer) error { panic("broken") },
	}, grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
		defer func() { err = status.Error(codes.Internal, fmt.Sprint(recover())) }()
		return h(srv, ss)
	}))
	s, err := client.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("got %v, want Internal", err)
	}
	es := rec.Events()
	if want := event("ip:192.0.2.1", gatetest.Event{Resource: chat, Response: true, Status: 500}); len(es) != 2 || es[1] != want {
		t.Errorf("recorded: got %+v, want an arrival and %+v", es, want)
	}
}

// Where a server hands on methods that it does not know, clients make them up: Resource keeps them from the log.
func TestMethodsThatClientsMakeUp(t *testing.T) {
	var rec arrivals
	conn := dial(t, gategrpc.Options{Set: gatetest.Set(t), Recorder: &rec, Callers: byKey(),
		Resource: func(_ context.Context, method string) string {
			if len(method) > 10 {
				return "other"
			}
			return method
		},
	}, home, &service{}, grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }))
	for _, method := range []string{"/a/b", "/made.up/" + t.Name()} {
		_ = conn.Invoke(t.Context(), method, &pb.Empty{}, &pb.Empty{})
	}
	want := []gatetest.Event{
		event("ip:192.0.2.1", gatetest.Event{Resource: "/a/b"}), event("ip:192.0.2.1", gatetest.Event{Resource: "other"}),
	}
	if got := rec.Events(); !reflect.DeepEqual(got, want) {
		t.Errorf("recorded: got %+v, want %+v", got, want)
	}
}

// Many clients at once, gates that close and open, and a real Recorder: each request is accounted for, to the unit.
func TestEveryMessageOfManyStreamsIsRecordedOnce(t *testing.T) {
	const clients, calls, messages = 8, 10, 20
	set := gatetest.Set(t)
	rec := record.New(record.Options{Responses: true})
	client := serve(t, gategrpc.Options{Set: set, Recorder: rec, EachMessage: true,
		Callers: []gategrpc.CallerFunc{gategrpc.Metadata("key", "x-api-key")},
	}, home, &service{})
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", fmt.Sprint("client ", i))
			for range calls {
				if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
					t.Error(err)
				}
				s, err := client.FullDuplexCall(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for range messages {
					if err := talk(s); err != nil {
						t.Error(err)
					}
				}
				_ = s.CloseSend()
				if _, err := s.Recv(); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				gatetest.Apply(t, set, gatetest.Close("key:another", time.Minute), gatetest.Open("key:another"))
			}
		})
	}
	wg.Wait()
	arrived, ended := map[string]int{}, map[string]int{}
	rec.Drain(func(_ uint64, e *schemas.Entry) {
		switch {
		case e.Response && e.Status == 200:
			ended[string([]byte(e.ID))] += int(e.Count)
		case !e.Response && !e.Blocked:
			arrived[string([]byte(e.ID))] += int(e.Count)
		default:
			t.Errorf("got %+v, want admitted arrivals and responses of status 200", e)
		}
	})
	for i := range clients {
		id := fmt.Sprint("client ", i)
		if arrived[id] != calls*(messages+1) || ended[id] != 2*calls {
			t.Errorf("%s: got %d arrivals and %d ends, want %d and %d", id, arrived[id], ended[id], calls*(messages+1), 2*calls)
		}
	}
}
