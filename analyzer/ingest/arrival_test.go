package ingest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// TestFormatsKnowWhichEndTheirTimeIs: a mapping with a duration says it only where the format does not, or where it names another time.
func TestFormatsKnowWhichEndTheirTimeIs(t *testing.T) {
	for _, test := range []struct {
		format, time string
		at           TimeAt
		want         TimeAt // unknown: refused
	}{
		{format: "envoy", want: TimeAtStart},
		{format: "envoy", at: TimeAtEnd, want: TimeAtEnd},
		{format: "envoy", time: "end_time"},
		{format: "envoy", time: "end_time", at: TimeAtEnd, want: TimeAtEnd},
		{format: "nginx", want: TimeAtEnd},
		{format: "nginx:$remote_addr [$time_local] $request_time", want: TimeAtEnd},
		{format: `nginx:{"ip":"$remote_addr","msec":"$msec","request_time":"$request_time"}`, want: TimeAtEnd},
		{format: `apache:%h %l %u %t "%r" %>s %b %D`, want: TimeAtStart},
		{format: `apache:%h %{end:sec}t "%r" %>s %b %D`},
		{format: "haproxy", want: TimeAtStart}, {format: "squid", want: TimeAtEnd}, {format: "json"}, {format: "ltsv"}, {format: "auto", at: TimeAtEnd, want: TimeAtEnd},
	} {
		field := "duration"
		switch {
		case strings.HasPrefix(test.format, "nginx"):
			field = "request_time"
		case strings.HasPrefix(test.format, "apache"):
			field = "duration_us"
		case test.format == "haproxy":
			field = "ta"
		case test.format == "squid":
			field = "elapsed"
		}
		m := Mapping{Callers: callers(t, "k="+field), Time: test.time, TimeAt: test.at, Duration: field, Unit: time.Second}
		f, err := NewFormat(test.format, m)
		if test.want == TimeAtUnknown {
			if !errors.Is(err, ErrMapping) || !strings.Contains(err.Error(), "want time: {at: start} or {at: end}") {
				t.Errorf("%s, time %q: got %v, want an error that asks for the end", test.format, test.time, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.format, err)
			continue
		}
		if test.format == FormatAuto {
			continue
		}
		if got := f.open().(*scan).m.arrivals.fromTime; got != (test.want == TimeAtStart) {
			t.Errorf("%s, time %q: got the start: %v, want the %s", test.format, test.time, got, test.want)
		}
	}
}

// TestAMappingThatContradictsItself, as a program makes it: a file has messages of its own.
func TestAMappingThatContradictsItself(t *testing.T) {
	for _, m := range []Mapping{
		{TimeAt: timeAts},
		{Duration: "d", TimeAt: TimeAtEnd},
		{Unit: time.Second},
		{Duration: "d", Unit: time.Minute, TimeAt: TimeAtEnd},
		{Declared: "d"},
		{NoArrivals: true, NoResponses: true},
		{NoArrivals: true, Arrivals: []FieldFilter{{Field: "f"}}},
		{Arrivals: make([]FieldFilter, maxFilters+1)},
	} {
		m.Callers = callers(t, "k=k")
		if _, err := NewFormat("json", m); !errors.Is(err, ErrMapping) {
			t.Errorf("%+v: got %v, want %v", m, err, ErrMapping)
		}
	}
}

// FuzzArrival: whatever a log says, an arrival is not after its response, both are times that count, and entries of them are valid.
func FuzzArrival(f *testing.F) {
	for _, duration := range []string{"", "-", "0", "-1", "0.25", "1e3", "86400", "86400.000000001", "1e400", "9999999999999999999", "NaN", "Inf", "0x10", "1s", "+5", ".5", "5."} {
		for _, at := range []string{"0", "1", "1772366400.5", "9214646399.999999999"} {
			f.Add(at, duration, "1000", true)
			f.Add(at, duration, "-1", false)
		}
	}
	f.Fuzz(func(t *testing.T, at, duration, declared string, start bool) {
		m := Mapping{Callers: callers(t, "k=k"), Duration: "d", Unit: time.Second, Declared: "n", TimeAt: TimeAtEnd, CostScale: 1000}
		if start {
			m.TimeAt = TimeAtStart
		}
		format, err := NewFormat("json", m)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Appendf(nil, `{"time":%q,"d":%q,"n":%q,"k":"a"}`, at, duration, declared)
		var l, plain Line
		if r := Scan(format.Scanner(), line, &l); r != OK {
			return
		}
		m.Duration, m.Declared, m.Unit = "", "", 0
		if format, err = NewFormat("json", m); err != nil || Scan(format.Scanner(), line, &plain) != OK {
			t.Fatalf("%s: got %v without a duration", line, err)
		}
		own, took := l.End, l.End-l.Time
		if start {
			own = l.Time
		}
		if l.Time < 0 || took < 0 || took > maxDuration || own != plain.Time || plain.End != plain.Time || plain.Arrived|plain.Declared != 0 {
			t.Errorf("%s: got %d to %d, and %+v without a duration", line, l.Time, l.End, plain)
		}
		var enc schemas.FrameEncoder
		enc.Reset(true)
		response := schemas.Entry{Time: l.End, Kind: "k", ID: "a", Count: 1, Response: true, Cost: l.Cost, Arrived: l.Arrived, Declared: l.Declared}
		if err := enc.Add(&response); err != nil || l.Arrived != schemas.Tick(l.Time) {
			t.Errorf("%s: got %v, and arrived %d at %d", line, err, l.Arrived, l.Time)
		}
	})
}
