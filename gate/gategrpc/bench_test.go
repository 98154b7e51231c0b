package gategrpc

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/record"
)

// incoming is the context of a call from 192.0.2.1 with an API key.
func incoming() context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}})
	return metadata.NewIncomingContext(ctx, metadata.Pairs("x-api-key", "abc"))
}

func gatesOf(o record.Options, callers ...CallerFunc) *Gates {
	return New(Options{
		Set: gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)}), Recorder: record.New(o), Callers: callers,
	})
}

func handle(context.Context, any) (any, error) { return 1, nil }

func TestUnaryAllocatesWhatMetadataDoes(t *testing.T) {
	info := &grpc.UnaryServerInfo{FullMethod: "/shop.Items/Get"}
	for _, p := range []struct {
		name  string
		gates *Gates
		want  float64
	}{
		{"by address", gatesOf(record.Options{}, ClientIP(nil)), 0},
		{"by address and key", gatesOf(record.Options{}, ClientIP(nil), Metadata("key", "x-api-key")), 1},
	} {
		ctx := incoming()
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := p.gates.Unary(ctx, nil, info, handle); err != nil {
				t.Error(err)
			}
		}); n > p.want+0.5 { // the pool may be emptied meanwhile
			t.Errorf("%s: got %v allocations a call, want %v", p.name, n, p.want)
		}
	}
}

func BenchmarkUnary(b *testing.B) {
	ctx, info := incoming(), &grpc.UnaryServerInfo{FullMethod: "/shop.Items/Get"}
	for _, p := range []struct {
		name  string
		gates *Gates
	}{
		{"by address", gatesOf(record.Options{}, ClientIP(nil))},
		{"by address and key", gatesOf(record.Options{}, ClientIP(nil), Metadata("key", "x-api-key"))},
		{"with responses", gatesOf(record.Options{Responses: true}, ClientIP(nil))},
	} {
		b.Run(p.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = p.gates.Unary(ctx, nil, info, handle)
			}
		})
	}
}
