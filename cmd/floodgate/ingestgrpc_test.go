package main

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/509da70d/floodgate/cmd/floodgate/processtest"
)

// TestIngestTakesWhatCollectorsSend: records come to the socket of an ingest, some of them twice. The ingest is killed, another one takes its
// place, and is stopped in good order. The analyzer counts each record that was acknowledged once: the fifth closes the caller.
func TestIngestTakesWhatCollectorsSend(t *testing.T) {
	t.Parallel()
	d := processtest.NewDeployment(t, start)
	d.Start()
	mapping, socket := filepath.Join(d.Dir, "mapping.yaml"), "unix:"+filepath.Join(d.Dir, "ingest.sock")
	processtest.WriteFile(t, mapping, "{version: 1, format: ecs, callers: {key: \"{tenant}\"}}")
	ingest := func() *processtest.Program {
		p := start(t, "ingest", "--brokers", d.Broker, "--grpc-listen", socket, "--mapping", mapping, "--listen", "")
		p.WaitFor(`(msg="listening for Envoy and OpenTelemetry")`, 10*time.Second)
		return p
	}
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(req *collectorv1.ExportLogsServiceRequest) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := conn.Invoke(ctx, "/opentelemetry.proto.collector.logs.v1.LogsService/Export", req, new(collectorv1.ExportLogsServiceResponse), grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	running := ingest()
	three := tenantRecords("noisy", 3)
	send(three)
	send(three)
	running.Kill()
	running = ingest()
	send(tenantRecords("noisy", 1))
	send(tenantRecords("quiet", 4))
	if code := running.Stop(syscall.SIGTERM); code != 0 || !strings.Contains(running.Text(), "msg=read lines=5 ") {
		t.Errorf("SIGTERM: got exit code %d, want 0 after 5 lines:\n%s", code, running.Text())
	}
	processtest.Eventually(t, 10*time.Second, "8 requests and their responses counted", func() bool {
		metrics, _ := processtest.Get(t.Context(), d.URL+"/metrics")
		return processtest.MetricSum(metrics, "floodgate_entries_total") == 16
	})
	if closed := d.ClosedKeys(t.Context()); len(closed) != 0 {
		t.Errorf("got %v closed after 4 requests each, want none", closed)
	}
	ingest()
	send(tenantRecords("noisy", 1))
	d.AwaitClosed("noisy", true)
	d.AwaitClosed("quiet", false)
}

// tenantRecords returns a request of n records about a tenant.
func tenantRecords(tenant string, n int) *collectorv1.ExportLogsServiceRequest {
	records := make([]*logsv1.LogRecord, n)
	for i := range records {
		records[i] = &logsv1.LogRecord{
			TimeUnixNano: uint64(time.Now().UnixNano()),
			Attributes:   []*commonv1.KeyValue{{Key: "tenant", Value: &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: tenant}}}},
		}
	}
	return &collectorv1.ExportLogsServiceRequest{ResourceLogs: []*logsv1.ResourceLogs{{ScopeLogs: []*logsv1.ScopeLogs{{LogRecords: records}}}}}
}

// TestIngestRefusesWhatDoesNotGoTogether with --grpc-listen, and says what it wants.
func TestIngestRefusesWhatDoesNotGoTogether(t *testing.T) {
	for want, args := range map[string][]string{
		"--once: got --grpc-listen too, want files only":                        {"--grpc-listen", "127.0.0.1:0", "--once"},
		"--topic, --file, --grpc-listen: got none, want something to read":      nil,
		"--grpc-listen: listen tcp: address 127.0.0.1: missing port in address": {"--grpc-listen", "127.0.0.1"},
	} {
		if out, err := runCommand(append([]string{"ingest", "--brokers", "127.0.0.1:1", "--listen", ""}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v and %s, want %q", args, err, out, want)
		}
	}
}
