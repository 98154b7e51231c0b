package receiver

import (
	"math"
	"strconv"
	"time"

	collectorv1 "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/slim/otlp/logs/v1"
)

// maxDepth is how deep values inside of values are written.
const maxDepth = 16

// appendRecords appends the lines of a request, one for each record.
func appendRecords(text []byte, req *collectorv1.ExportLogsServiceRequest) []byte {
	for _, resource := range req.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, r := range scope.GetLogRecords() {
				text = appendRecord(text, r, resource.GetResource().GetAttributes())
			}
		}
	}
	return text
}

func appendRecord(text []byte, r *logsv1.LogRecord, resource []*commonv1.KeyValue) []byte {
	o := object(append(text, '{'))
	nanos := r.GetTimeUnixNano()
	if nanos == 0 {
		nanos = r.GetObservedTimeUnixNano()
	}
	if nanos != 0 && nanos <= math.MaxInt64 {
		at := time.Unix(0, int64(nanos))
		o.time("@timestamp", at)
		o.time("timestamp", at)
		o.time("time", at)
	}
	if body := r.GetBody(); body.GetKvlistValue() != nil {
		o.members("", body.GetKvlistValue().GetValues(), 0)
	} else if body.GetValue() != nil {
		o.name("body")
		o.value(body, 0)
	}
	o.members("", r.GetAttributes(), 0)
	o.members("resource.", resource, 0)
	return append(o, "}\n"...)
}

// members appends members whose names have a prefix.
func (o *object) members(prefix string, list []*commonv1.KeyValue, depth int) {
	for _, m := range list {
		o.name(prefix + m.GetKey())
		o.value(m.GetValue(), depth)
	}
}

// value appends a value.
func (o *object) value(v *commonv1.AnyValue, depth int) {
	if depth > maxDepth {
		*o = append(*o, "null"...)
		return
	}
	switch v := v.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		o.quote(v.StringValue)
	case *commonv1.AnyValue_BoolValue:
		*o = strconv.AppendBool(*o, v.BoolValue)
	case *commonv1.AnyValue_IntValue:
		*o = strconv.AppendInt(*o, v.IntValue, 10)
	case *commonv1.AnyValue_DoubleValue:
		if math.IsNaN(v.DoubleValue) || math.IsInf(v.DoubleValue, 0) {
			*o = append(*o, "null"...)
			return
		}
		*o = strconv.AppendFloat(*o, v.DoubleValue, 'g', -1, 64)
	case *commonv1.AnyValue_BytesValue:
		o.bytes(v.BytesValue)
	case *commonv1.AnyValue_ArrayValue:
		*o = append(*o, '[')
		for i, element := range v.ArrayValue.GetValues() {
			if i > 0 {
				*o = append(*o, ',')
			}
			o.value(element, depth+1)
		}
		*o = append(*o, ']')
	case *commonv1.AnyValue_KvlistValue:
		*o = append(*o, '{')
		o.members("", v.KvlistValue.GetValues(), depth+1)
		*o = append(*o, '}')
	default:
		*o = append(*o, "null"...)
	}
}

// hasOwnTime reports whether a record of a request has a time that is finer than a millisecond. No two requests have such a record in
// common, unless one is the other, sent again.
func hasOwnTime(req *collectorv1.ExportLogsServiceRequest) bool {
	const millisecond = uint64(time.Millisecond)
	for _, resource := range req.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, r := range scope.GetLogRecords() {
				if r.GetTimeUnixNano()%millisecond != 0 || r.GetObservedTimeUnixNano()%millisecond != 0 {
					return true
				}
			}
		}
	}
	return false
}
