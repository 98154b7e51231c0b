package gategrpc_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gategrpc"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// A server whose calls are counted, and refused when a gate is closed, by address and by API key; and a client that
// learns how long to wait.
func Example() {
	set := gate.New(gate.Options{})
	rec := record.New(record.Options{})
	// link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: brokers}) brings decisions and takes records.

	gates := gategrpc.New(gategrpc.Options{
		Set: set, Recorder: rec,
		Callers: []gategrpc.CallerFunc{gategrpc.ClientIP(nil), gategrpc.Metadata("key", "x-api-key")},
	})
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(gates.Unary), grpc.ChainStreamInterceptor(gates.Stream))
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer()) // your services

	client, stop := listen(srv)
	defer stop()
	ask := func(key string) {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", key)
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		fmt.Println(key, status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				fmt.Println("try again in", retry.GetRetryDelay().AsDuration().Round(time.Minute))
			}
		}
	}
	ask("abc")
	now := time.Now()
	set.Apply([]schemas.Decision{{ // as the link does
		Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: "abc"}, Mode: schemas.ModeEnforce,
		CloseAt: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(),
	}})
	ask("abc")
	ask("def")
	// Output:
	// abc OK
	// abc ResourceExhausted
	// try again in 1h0m0s
	// def OK
}

// Behind a proxy, with health checks that are neither gated nor counted, one gate for each method of an address, and
// streams whose messages count one by one.
func ExampleOptions() {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	set := gate.New(gate.Options{})
	gates := gategrpc.New(gategrpc.Options{
		Set: set,
		Callers: []gategrpc.CallerFunc{
			gategrpc.ClientIP(trusted),
			gategrpc.Composite("ip_method", gategrpc.IP(set, trusted), gategrpc.Method),
		},
		Skip:        func(_ context.Context, method string) bool { return strings.HasPrefix(method, "/grpc.health.") },
		EachMessage: true,
	})
	srv := grpc.NewServer(grpc.ChainUnaryInterceptor(gates.Unary), grpc.ChainStreamInterceptor(gates.Stream))
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
	client, stop := listen(srv)
	defer stop()
	answer, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err)
	// Output: SERVING <nil>
}

// listen serves on loopback, and returns a client and what ends both.
func listen(srv *grpc.Server) (grpc_health_v1.HealthClient, func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	return grpc_health_v1.NewHealthClient(conn), func() {
		_ = conn.Close()
		srv.Stop()
		<-done
	}
}
