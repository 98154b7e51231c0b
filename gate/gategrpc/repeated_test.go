package gategrpc_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate/gategrpc"
	"github.com/509da70d/floodgate/gate/gatetest"
)

// A client that sends its key twice fails where the server says so, in unary calls and in streams. It counts all the same.
func TestMetadataThatIsThereTwiceIsRejected(t *testing.T) {
	for _, test := range []struct {
		name string
		send []string
		once []string
		want codes.Code
	}{
		{"once", []string{"x-api-key", "abc"}, []string{"X-Api-Key"}, codes.OK},
		{"twice", []string{"x-api-key", "abc", "x-api-key", "other"}, []string{"X-Api-Key"}, codes.InvalidArgument},
		{"joined by a proxy", []string{"x-api-key", "abc,other"}, []string{"X-Api-Key"}, codes.InvalidArgument},
		{"twice without RejectRepeated", []string{"x-api-key", "abc", "x-api-key", "other"}, nil, codes.OK},
		{"twice and closed", []string{"x-api-key", "spent", "x-api-key", "other"}, []string{"X-Api-Key"}, codes.ResourceExhausted},
	} {
		t.Run(test.name, func(t *testing.T) {
			var rec gatetest.Recorder
			client := serve(t, gategrpc.Options{
				Set: gatetest.Set(t, gatetest.Close("key:spent", time.Minute)), Recorder: &rec,
				Callers: []gategrpc.CallerFunc{gategrpc.Metadata("key", "x-api-key")}, RejectRepeated: test.once,
			}, home, &service{})
			ctx := metadata.AppendToOutgoingContext(t.Context(), test.send...)
			if _, err := client.UnaryCall(ctx, &pb.SimpleRequest{}); status.Code(err) != test.want {
				t.Errorf("a unary call: got %v, want %v", err, test.want)
			}
			stream, err := client.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = stream.Recv()
			}
			if got := status.Code(err); test.want != codes.OK && got != test.want {
				t.Errorf("a stream: got %v, want %v", err, test.want)
			}
			if events := rec.Events(); len(events) < 2 || events[0].Caller.ID != test.send[1] {
				t.Errorf("got %+v, want both calls counted for %s", events, test.send[1])
			}
		})
	}
}
