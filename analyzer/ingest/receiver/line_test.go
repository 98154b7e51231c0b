package receiver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	collectorv1 "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// message reads a message from testdata, where it stands as JSON.
func message[M proto.Message](t testing.TB, name string, to M) M {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err == nil {
		err = protojson.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// read returns what a format makes of each line, one a line.
func read(f *ingest.Format, lines []byte) string {
	var out strings.Builder
	s := f.Scanner()
	l := ingest.Line{Lasting: true}
	for line := range bytes.Lines(lines) {
		if r := ingest.Scan(s, bytes.TrimSuffix(line, []byte("\n")), &l); r != ingest.OK {
			fmt.Fprintf(&out, "- %v\n", r)
			continue
		}
		fmt.Fprint(&out, time.Unix(0, l.Time).UTC().Format(time.RFC3339Nano))
		for i, id := range l.IDs {
			fmt.Fprintf(&out, " %s:%s", f.Kinds()[i], id)
		}
		fmt.Fprintf(&out, " %.40q status %d cost %d", l.Resource, l.Status, l.Cost)
		if l.Blocked {
			fmt.Fprint(&out, " blocked")
		}
		if l.Arrived|l.Declared != 0 {
			fmt.Fprintf(&out, " for %v, arrived %d, declared %d", time.Duration(l.End-l.Time), l.Arrived, l.Declared)
		}
		fmt.Fprint(&out, []string{"", ", arrival only", ", response only"}[l.Part])
		fmt.Fprintln(&out)
	}
	return out.String()
}

// TestWhatIsReadOfMessages: the lines of messages, and what a mapping makes of them. The first are of Envoy 1.40.0 with deploy/envoy/accesslog.yaml,
// as a test server received them: of a client that sends a forged address, bytes that are no UTF-8, quotes, a key twice, a method of its own, and no HTTP.
// No line counts for 6.6.6.6. Those of starts are of the same Envoy with flush_access_log_on_new_request: of a request that passed, of one
// that was refused after its start was logged, and of an Envoy that names no types.
func TestWhatIsReadOfMessages(t *testing.T) {
	key := ingest.Mapping{Callers: []ingest.CallerTemplate{{Kind: "key", Template: "{request_headers.x-api-key}"}, {Kind: "tag", Template: "{custom_tags.tenant}"}}}
	tenant := ingest.Mapping{Callers: []ingest.CallerTemplate{{Kind: "tenant", Template: "{tenant}"}, {Kind: "service", Template: "{resource.service.name}"}}}
	starts := key
	starts.Arrivals = []ingest.FieldFilter{{Field: "access_log_type", Patterns: []pattern.Glob{pattern.NewGlob("DownstreamStart")}}}
	starts.Duration, starts.Unit = "duration", time.Millisecond
	starts.Cost, starts.Declared = "response_headers.x-tokens", "request_headers.x-max-tokens"
	for _, test := range []struct {
		name, format string
		mapping      ingest.Mapping
		record       bool
	}{
		{name: "envoy-1.40.0", format: ingest.FormatAuto, mapping: key},
		{name: "entries", format: "envoy", mapping: key},
		{name: "starts", format: "envoy", mapping: starts},
		{name: "tcp", format: ingest.FormatAuto},
		{name: "bodies", format: ingest.FormatAuto, record: true},
		{name: "bodies", format: "combined", record: true},
		{name: "attributes", format: ingest.FormatAuto, record: true},
		{name: "attributes", format: "ecs", mapping: tenant, record: true},
		{name: "maps", format: "envoy", mapping: tenant, record: true},
		{name: "objects", format: ingest.FormatAuto, record: true},
		{name: "objects", format: "envoy", mapping: ingest.Mapping{Unwrap: []string{"body"}}, record: true},
	} {
		f, err := ingest.NewFormat(test.format, test.mapping)
		if err != nil {
			t.Fatal(err)
		}
		var lines []byte
		if test.record {
			f = f.Records()
			lines = appendRecords(nil, message(t, test.name, new(collectorv1.ExportLogsServiceRequest)))
		} else {
			lines = (&entryService{receiver: New(nil, nil), starts: f.Splits()}).append(nil, message(t, test.name, new(accesslogv3.StreamAccessLogsMessage)))
		}
		areLines(t, lines, bytes.Count(lines, []byte("\n")))
		got := read(f, lines)
		path := filepath.Join("testdata", test.name+"."+test.format+".want")
		if testenv.Update() {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s: got\n%swant\n%s%v(%s writes it)", path, got, want, err, testenv.UpdateCommand(t))
		}
		if strings.Contains(got, ":6.6.6.6") {
			t.Errorf("%s: a client chose an address:\n%s", path, got)
		}
	}
}

// TestALongTextPushesNoShortOneOut: a client makes its line longer than what is read, by texts that cost two bytes for one. Its address and
// its key count, and so does the key of 200 bytes of another one.
func TestALongTextPushesNoShortOneOut(t *testing.T) {
	f, err := ingest.NewFormat("envoy", ingest.Mapping{Callers: []ingest.CallerTemplate{{Kind: "key", Template: "{request_headers.x-api-key}"}}})
	if err != nil {
		t.Fatal(err)
	}
	m := message(t, "entries", new(accesslogv3.StreamAccessLogsMessage))
	e := m.GetHttpLogs().GetLogEntry()[0]
	e.Request.UserAgent, e.Request.Referer = strings.Repeat(`"`, 40_000), strings.Repeat(`\`, 19_000)
	for _, key := range []string{"alice", strings.Repeat("k", 200)} {
		e.Request.RequestHeaders["x-api-key"] = key
		line := appendHTTP(nil, e)
		got := read(f, line)
		if len(line) < ingest.MaxLine || !strings.Contains(got, "ip:203.0.113.9 key:"+key+" \"GET /original\" status 429") {
			t.Errorf("got %s of a line of %d bytes, want the address, the key, the path and the status", got, len(line))
		}
	}
}

// TestDeepValues: values inside of values end somewhere.
func TestDeepValues(t *testing.T) {
	v := &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: "x"}}
	for range 1000 {
		v = &commonv1.AnyValue{Value: &commonv1.AnyValue_ArrayValue{ArrayValue: &commonv1.ArrayValue{Values: []*commonv1.AnyValue{v}}}}
	}
	line := appendRecord(nil, &logsv1.LogRecord{Attributes: []*commonv1.KeyValue{{Key: "a", Value: v}}}, nil)
	if !json.Valid(line) || len(line) > 100 {
		t.Errorf("got %q, want a short object", line)
	}
}

// FuzzEntries: whatever a message says, each entry is one line of JSON, and each line is read or refused.
func FuzzEntries(f *testing.F) {
	for _, name := range []string{"envoy-1.40.0", "entries", "tcp"} {
		b, err := proto.Marshal(message(f, name, new(accesslogv3.StreamAccessLogsMessage)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	format, err := ingest.NewFormat(ingest.FormatAuto, ingest.Mapping{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m accesslogv3.StreamAccessLogsMessage
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		s := &entryService{receiver: New(nil, nil)}
		lines := s.append(nil, &m)
		n := len(m.GetHttpLogs().GetLogEntry()) + len(m.GetTcpLogs().GetLogEntry()) - int(s.receiver.Stats().Intermediate)
		areLines(t, lines, n)
		read(format, lines)
	})
}

// FuzzRecords is FuzzEntries for records.
func FuzzRecords(f *testing.F) {
	for _, name := range []string{"bodies", "attributes", "maps", "objects"} {
		b, err := proto.Marshal(message(f, name, new(collectorv1.ExportLogsServiceRequest)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	format, err := ingest.NewFormat(ingest.FormatAuto, ingest.Mapping{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var req collectorv1.ExportLogsServiceRequest
		if proto.Unmarshal(b, &req) != nil {
			return
		}
		n := 0
		for _, resource := range req.GetResourceLogs() {
			for _, scope := range resource.GetScopeLogs() {
				n += len(scope.GetLogRecords())
			}
		}
		lines := appendRecords(nil, &req)
		areLines(t, lines, n)
		read(format.Records(), lines)
	})
}

// areLines checks that lines are n objects of JSON, each of which ends in its line.
func areLines(t *testing.T, lines []byte, n int) {
	t.Helper()
	if got := bytes.Count(lines, []byte("\n")); got != n {
		t.Errorf("got %d lines, want %d:\n%q", got, n, lines)
	}
	for line := range bytes.Lines(lines) {
		if !json.Valid(line) || line[0] != '{' || line[len(line)-2] != '}' {
			t.Errorf("got a line that is no object: %q", line)
		}
	}
}

// BenchmarkEntries and BenchmarkRecords: what an entry costs, from the bytes of its message to its line. Frames are package feed's.
func BenchmarkEntries(b *testing.B) {
	m := message(b, "envoy-1.40.0", new(accesslogv3.StreamAccessLogsMessage))
	e := m.GetHttpLogs()
	for len(e.LogEntry) < 50 {
		e.LogEntry = append(e.LogEntry, e.LogEntry[0])
	}
	bytes, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	s, text := &entryService{receiver: New(nil, nil)}, []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		var got accesslogv3.StreamAccessLogsMessage
		if err := proto.Unmarshal(bytes, &got); err != nil {
			b.Fatal(err)
		}
		text = s.append(text[:0], &got)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(e.LogEntry)), "ns/entry")
}

func BenchmarkRecords(b *testing.B) {
	req := message(b, "attributes", new(collectorv1.ExportLogsServiceRequest))
	r := req.GetResourceLogs()[0].GetScopeLogs()[0]
	for len(r.LogRecords) < 50 {
		r.LogRecords = append(r.LogRecords, r.LogRecords[0])
	}
	bytes, err := proto.Marshal(req)
	if err != nil {
		b.Fatal(err)
	}
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		var got collectorv1.ExportLogsServiceRequest
		if err := proto.Unmarshal(bytes, &got); err != nil {
			b.Fatal(err)
		}
		text = appendRecords(text[:0], &got)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(r.LogRecords)), "ns/entry")
}
