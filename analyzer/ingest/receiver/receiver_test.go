package receiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	collectorv1 "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/feed"
	"github.com/509da70d/floodgate/analyzer/ingest/reject"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaiotest"
)

const (
	testPartitions = 3
	testMaxBytes   = 512 << 10 // the least that there is
)

// world is a Kafka, and the ingest that runs now.
type world struct {
	*kafkaiotest.Kafka

	t        *testing.T
	feed     *feed.Feed
	receiver *Receiver
	dial     func() *grpc.ClientConn
	conn     *grpc.ClientConn
	stop     func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Kafka: kafkaiotest.New(), t: t}
	w.Create(testPartitions, "requests")
	w.Create(1, "rejects")
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts an ingest, and connects to it.
func (w *world) start() {
	w.t.Helper()
	format, err := ingest.NewFormat(ingest.FormatAuto, ingest.Mapping{})
	if err == nil {
		w.feed, err = feed.New(feed.Config{
			Producer: w.Kafka, Requests: "requests", Rejects: "rejects", Partitions: testPartitions, Key: schemas.DefaultPartitionKey(),
			Format: format, Now: time.Now, Logger: slog.New(slog.DiscardHandler), MaxBytes: testMaxBytes,
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.receiver = New(w.feed, slog.New(slog.DiscardHandler))
	l := bufconn.Listen(64 << 10)
	w.dial = func() *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:ingest", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
		if err != nil {
			w.t.Fatal(err)
		}
		return conn
	}
	w.conn = w.dial()
	ctx, stop := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.feed.Run(ctx, func(ctx context.Context) error { return w.receiver.Run(ctx, l) })
	}()
	w.stop = func() {
		stop()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
		w.conn.Close()
	}
}

// restart stops the ingest in good order, and starts another one.
func (w *world) restart() {
	w.stop()
	w.start()
}

// counts returns how often each address counts, as the analyzer sees it: it skips what a source has sent before.
func (w *world) counts() map[string]int {
	w.t.Helper()
	counts := make(map[string]int)
	for p := range testPartitions {
		last := make(map[schemas.ProducerID]int64)
		for _, r := range w.Records("requests", p) {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				w.t.Fatal(err)
			}
			line := int64(-1)
			for _, e := range f.Entries {
				if seen, ok := last[f.Producer]; e.Offset != line && ok && e.Offset <= seen {
					continue
				}
				line, last[f.Producer] = e.Offset, e.Offset
				if !e.Response {
					counts[e.ID]++
				}
			}
		}
	}
	return counts
}

func (w *world) count(want map[string]int) {
	w.t.Helper()
	if got := w.counts(); !maps.Equal(got, want) {
		w.t.Errorf("got counts %v, want %v", got, want)
	}
}

// export sends a request once.
func (w *world) export(ctx context.Context, req *collectorv1.ExportLogsServiceRequest, o ...grpc.CallOption) error {
	return w.conn.Invoke(ctx, exportMethod, req, new(collectorv1.ExportLogsServiceResponse), o...)
}

// deliver sends a request as a collector does: again, with some patience for each answer, until it is acknowledged.
func (w *world) deliver(req *collectorv1.ExportLogsServiceRequest, patience time.Duration) (tries int) {
	for {
		ctx, cancel := context.WithTimeout(w.t.Context(), patience)
		err := w.export(ctx, req)
		cancel()
		tries++
		switch status.Code(err) {
		case codes.OK:
			return tries
		case codes.Unavailable, codes.DeadlineExceeded:
			time.Sleep(time.Second)
		default:
			w.t.Errorf("got %v, want an error after which collectors try again", err)
			return tries
		}
	}
}

// requests returns a request of n records of one client, the first of which is at a time.
func requests(client string, n int, at time.Time) *collectorv1.ExportLogsServiceRequest {
	records := make([]*logsv1.LogRecord, n)
	for i := range records {
		at := at.Add(time.Duration(i))
		body := fmt.Sprintf(`%s - - [%s] "GET /%d HTTP/1.1" 200 7 "-" "-"`, client, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), i)
		records[i] = &logsv1.LogRecord{
			TimeUnixNano: uint64(at.UnixNano()), Body: &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: body}},
		}
	}
	return &collectorv1.ExportLogsServiceRequest{ResourceLogs: []*logsv1.ResourceLogs{{ScopeLogs: []*logsv1.ScopeLogs{{LogRecords: records}}}}}
}

// own is a time that is finer than a millisecond.
func own() time.Time { return time.Now().Truncate(time.Millisecond).Add(123_456 * time.Nanosecond) }

// TestARequestCountsOnceHoweverOftenItIsSent: Kafka is away for a while, and two collectors send their requests again and again, one of
// them with less patience than the receiver has. One of them loses the answer, too.
func TestARequestCountsOnceHoweverOftenItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if tries := w.deliver(requests("203.0.113.1", 10, own()), 5*time.Second); tries != 1 {
			t.Errorf("got %d tries, want 1 while all is well", tries)
		}
		w.SetDown(true)
		if err := w.export(t.Context(), requests("203.0.113.2", 20, own())); status.Code(err) != codes.Unavailable {
			t.Fatalf("got %v, want Unavailable while Kafka is away", err)
		} else if details := status.Convert(err).Details(); len(details) != 1 {
			t.Errorf("got details %v, want when to try again", details)
		} else if info, ok := details[0].(*errdetails.RetryInfo); !ok || info.GetRetryDelay().AsDuration() != retryAfter {
			t.Errorf("got %v, want when to try again", details[0])
		}
		patient, hasty, tries := requests("203.0.113.3", 30, own()), requests("203.0.113.4", 40, own()), make(chan int)
		go func() { tries <- w.deliver(patient, 5*time.Second) }()
		go func() { tries <- w.deliver(hasty, time.Second) }()
		time.Sleep(time.Minute)
		w.SetDown(false)
		n := <-tries + <-tries
		if err := w.export(t.Context(), hasty); err != nil { // its answer was lost
			t.Error(err)
		}
		w.count(map[string]int{"203.0.113.1": 10, "203.0.113.2": 20, "203.0.113.3": 30, "203.0.113.4": 40})
		synctest.Wait() // gRPC counts a call after its answer
		if s := w.receiver.Stats(); n < 20 || int(s.Repeated) != n-2+1 || s.Calls["Unavailable"] == 0 || s.Calls["OK"] != 4 {
			t.Errorf("got %d tries, %+v", n, s)
		}
	})
}

// TestEqualRequestsWithoutTheirOwnTimesCountEach: nothing tells whether the second one is the first, sent again.
func TestEqualRequestsWithoutTheirOwnTimesCountEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		coarse := requests("203.0.113.1", 1, time.Now().Truncate(time.Second))
		w.deliver(coarse, time.Second)
		w.deliver(coarse, time.Second)
		w.count(map[string]int{"203.0.113.1": 2})
	})
}

// TestARestartInGoodOrderLosesAndRepeatsNothing of what collectors send, while an Envoy has a stream open.
func TestARestartInGoodOrderLosesAndRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		want := make(map[string]int)
		for i := range 3 {
			stream := w.stream()
			sendEntries(t, stream, "198.51.100.1", 100)
			synctest.Wait()
			client := fmt.Sprintf("203.0.113.%d", i)
			want[client], want["198.51.100.1"] = 200, want["198.51.100.1"]+100
			w.deliver(requests(client, 200, own()), 5*time.Second)
			w.restart()
			if _, err := stream.CloseAndRecv(); err == nil {
				t.Error("the stream goes on")
			}
		}
		w.count(want)
	})
}

// TestAStopThatComesFirstIsNoFailure: gRPC refuses to serve then.
func TestAStopThatComesFirstIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 100 {
			w.restart()
		}
	})
}

// TestWhatCountsTwiceIfTheProcessDies: the frames of a request are in Kafka, and the process dies before it answers. The next process cannot
// know the request.
func TestWhatCountsTwiceIfTheProcessDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answered, dying := requests("203.0.113.1", 10, own()), requests("203.0.113.2", 10, own())
		w.deliver(answered, time.Second)
		w.SetFault(func(kafkaiotest.Call) kafkaiotest.Fault { return kafkaiotest.LostAnswer() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.export(ctx, dying); err == nil {
			t.Fatal("got an answer from a dead process")
		}
		w.restart()
		w.SetFault(nil)
		w.deliver(dying, time.Second)
		w.count(map[string]int{"203.0.113.1": 10, "203.0.113.2": 20})
	})
}

// stream begins a stream as Envoy does.
func (w *world) stream() accesslogv3.AccessLogService_StreamAccessLogsClient {
	w.t.Helper()
	stream, err := accesslogv3.NewAccessLogServiceClient(w.conn).StreamAccessLogs(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return stream
}

// entries returns a message of n entries of a client.
func entries(client string, n int) *accesslogv3.StreamAccessLogsMessage {
	list := make([]*datav3.HTTPAccessLogEntry, n)
	for i := range list {
		list[i] = &datav3.HTTPAccessLogEntry{
			CommonProperties: &datav3.AccessLogCommon{
				StartTime: timestamppb.Now(), AccessLogType: datav3.AccessLogType_DownstreamEnd,
				DownstreamRemoteAddress: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: client}}},
			},
			Request: &datav3.HTTPRequestProperties{Path: "/", RequestMethod: corev3.RequestMethod_GET},
		}
	}
	return &accesslogv3.StreamAccessLogsMessage{LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: list},
	}}
}

func sendEntries(t *testing.T, stream accesslogv3.AccessLogService_StreamAccessLogsClient, client string, n int) {
	t.Helper()
	if err := stream.Send(entries(client, n)); err != nil {
		t.Fatal(err)
	}
}

// TestASlowKafkaStopsEnvoy: nothing is lost, and what waits has a bound. When Kafka is away for long, no more is read, and HTTP/2's flow
// control holds Envoy back, which then drops and counts by itself.
func TestASlowKafkaStopsEnvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.SetDown(true)
		stream, sent, stopped := w.stream(), 0, make(chan struct{})
		message := entries("203.0.113.1", 100)
		go func() {
			defer close(stopped)
			for range 150 {
				if stream.Send(message) != nil {
					return
				}
				sent++
			}
			_, _ = stream.CloseAndRecv()
		}()
		time.Sleep(time.Minute)
		s := w.feed.Stats()
		if s.Lines == 0 || s.Lines >= 15_000 || s.Queued > testMaxBytes {
			t.Errorf("got %d lines read and %d bytes that wait while Kafka is away", s.Lines, s.Queued)
		}
		t.Logf("read %d lines, of which %d bytes wait", s.Lines, s.Queued)
		w.SetDown(false)
		<-stopped
		time.Sleep(time.Minute) // the stream is answered before Kafka has the last message
		w.count(map[string]int{"203.0.113.1": 100 * sent})
		if sent != 150 {
			t.Errorf("sent %d messages, want 150", sent)
		}
	})
}

// raw is a message as bytes, which no codec understands.
type raw []byte

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return v.(raw), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { return nil }

var _ encoding.Codec = rawCodec{}

// TestWhatStrangersSend: garbage, too much of it, and too many calls are refused and counted. Nobody else is held up.
func TestWhatStrangersSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, test := range []struct {
			message string
			want    codes.Code
		}{
			{"\xff\xff\xff", codes.Internal},
			{"\x0a\x7f", codes.Internal},
			{strings.Repeat("\x0a\x00", 2<<20+1), codes.ResourceExhausted},
		} {
			err := w.conn.Invoke(t.Context(), exportMethod, raw(test.message), raw(nil), grpc.ForceCodec(rawCodec{}))
			if status.Code(err) != test.want {
				t.Errorf("Export of %.10q: got %v, want %v", test.message, err, test.want)
			}
			desc := &grpc.StreamDesc{ClientStreams: true}
			stream, err := w.conn.NewStream(t.Context(), desc, "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs", grpc.ForceCodec(rawCodec{}))
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.SendMsg(raw(test.message)); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(raw(nil)); status.Code(err) != test.want {
				t.Errorf("stream of %.10q: got %v, want %v", test.message, err, test.want)
			}
		}
		bomb := requests("203.0.113.6", 1, own())
		bomb.ResourceLogs[0].SchemaUrl = strings.Repeat("a", 5<<20)
		if err := w.export(t.Context(), bomb, grpc.UseCompressor(gzip.Name)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("5 MiB as 5 KiB of gzip: got %v, want %v", err, codes.ResourceExhausted)
		}
		if err := w.export(t.Context(), requests("203.0.113.1", 10, own()), grpc.UseCompressor(gzip.Name)); err != nil {
			t.Errorf("gzip, as collectors send it: got %v", err)
		}
		var streams []grpc.ClientStream
		for range maxCalls {
			streams = append(streams, w.stream())
		}
		synctest.Wait()
		before := w.conn
		w.conn = w.dial() // the first one waits for one of its own streams to end
		defer before.Close()
		if err := w.export(t.Context(), requests("203.0.113.2", 10, own())); status.Code(err) != codes.Unavailable {
			t.Errorf("one call too many: got %v, want %v", err, codes.Unavailable)
		}
		if err := streams[0].CloseSend(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := w.export(t.Context(), requests("203.0.113.3", 10, own())); err != nil {
			t.Errorf("after one has ended: got %v", err)
		}
		w.count(map[string]int{"203.0.113.1": 10, "203.0.113.3": 10})
		if got, want := w.receiver.Stats().Calls, map[string]uint64{"Internal": 4, "ResourceExhausted": 3, "Unavailable": 1, "OK": 3}; !maps.Equal(got, want) {
			t.Errorf("got calls %v, want %v", got, want)
		}
	})
}

// TestWhatCannotBeReadIsRejected with its reason, as a line of a file. The rest of the request counts.
func TestWhatCannotBeReadIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		req := requests("203.0.113.1", 3, own())
		req.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()[1].Body = nil
		w.deliver(req, time.Second)
		stream := w.stream()
		m := entries("203.0.113.2", 3)
		m.GetHttpLogs().GetLogEntry()[1].CommonProperties.StartTime = nil
		m.GetHttpLogs().GetLogEntry()[2].CommonProperties.AccessLogType = datav3.AccessLogType_DownstreamPeriodic
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.CloseAndRecv(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.count(map[string]int{"203.0.113.1": 2, "203.0.113.2": 1})
		var got []string
		for _, r := range w.Records("rejects", 0) {
			r, err := reject.Decode(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Source+" "+r.Reason)
		}
		if s := strings.Join(got, ", "); s != "grpc:otlp other format, grpc:als missing field" {
			t.Errorf("got rejects %q", s)
		}
		if s := w.receiver.Stats(); s.Intermediate != 1 {
			t.Errorf("got %d intermediate entries, want 1", s.Intermediate)
		}
	})
}
