package gategrpc_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate/gategrpc"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// RetryInfo of a call that an early closure refuses is the end of that closure, and the call is recorded as blocked early.
func TestEarlyClosuresRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec arrivals
		set := gatetest.Set(t, gatetest.Early("key:fast", 300*time.Millisecond))
		client := serve(t, gategrpc.Options{Set: set, Recorder: &rec, Callers: byKey()}, home, &service{})
		_, err := client.UnaryCall(as(t, "fast"), &pb.SimpleRequest{})
		if status.Code(err) != codes.ResourceExhausted || retryDelay(err) != 300*time.Millisecond {
			t.Errorf("got %v, retry in %v, want ResourceExhausted and 300 ms", err, retryDelay(err))
		}
		want := []gatetest.Event{event("key:fast", gatetest.Event{Resource: unary, Blocked: true, Early: true})}
		if got := rec.Events(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v recorded, want %+v", got, want)
		}
		<-time.After(300 * time.Millisecond)
		if _, err := client.UnaryCall(as(t, "fast"), &pb.SimpleRequest{}); err != nil {
			t.Errorf("got %v at the end of the closure, want it admitted", err)
		}
	})
}
