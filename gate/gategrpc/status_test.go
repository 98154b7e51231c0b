package gategrpc

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/509da70d/floodgate/gate"
)

func TestEveryCodeHasAnHTTPStatus(t *testing.T) {
	for c := range codes.Code(17) {
		got := HTTPStatus(c)
		switch class := got / 100; {
		case c == codes.OK && got != 200, c != codes.OK && class != 4 && class != 5:
			t.Errorf("%v: got %d, want 200 for OK, and else an error", c, got)
		}
	}
	for c, want := range map[codes.Code]int{
		codes.Canceled: 499, codes.ResourceExhausted: 429, codes.Unauthenticated: 401, codes.Unavailable: 503,
		17: 500, math.MaxUint32: 500,
	} {
		if got := HTTPStatus(c); got != want {
			t.Errorf("%v: got %d, want %d", c, got, want)
		}
	}
}

func TestCodeOfIsWhatTheServerSends(t *testing.T) {
	for _, p := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{status.Error(codes.Code(77), "made up"), 77},
		{errors.Join(errors.New("a"), status.Error(codes.Aborted, "b")), codes.Aborted},
		{errors.New("a"), codes.Unknown},
	} {
		if got := codeOf(p.err); got != p.want {
			t.Errorf("%v: got %v, want %v", p.err, got, p.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, p := range []struct {
		name    string
		v       gate.Verdict
		message string
		delay   time.Duration
		quota   string // subject: description
	}{
		{"all is known", gate.Verdict{Rule: "per-ip", RetryAfter: 11*time.Second + 1, Limit: 100, Window: time.Minute},
			"too many requests: retry after 12s", 11*time.Second + 1, "per-ip: limit of 100 in 1m0s"},
		{"no limit", gate.Verdict{Rule: "control", RetryAfter: time.Minute}, "too many requests: retry after 1m0s", time.Minute, "control: "},
		{"decisions are stale", gate.Verdict{Stale: true, RetryAfter: time.Second}, "too many requests: retry after 1s", time.Second, ""},
		{"a year", gate.Verdict{RetryAfter: 366 * 24 * time.Hour}, "too many requests: retry after 8784h0m0s", 366 * 24 * time.Hour, ""},
		{"no time", gate.Verdict{RetryAfter: -1}, "too many requests: retry after 1s", 0, ""},
		{"for ever", gate.Verdict{RetryAfter: math.MaxInt64}, "too many requests: retry after 2562047h47m16s", math.MaxInt64, ""},
		{"a rule that is no text", gate.Verdict{Rule: "r\xff", RetryAfter: time.Minute}, "too many requests: retry after 1m0s", time.Minute, ""},
	} {
		t.Run(p.name, func(t *testing.T) {
			s := Refusal(p.v)
			if s.Code() != codes.ResourceExhausted || s.Message() != p.message {
				t.Errorf("got %v, want ResourceExhausted %q", s, p.message)
			}
			var delay time.Duration = -1
			quota := ""
			for _, d := range s.Details() {
				switch d := d.(type) {
				case *errdetails.RetryInfo:
					delay = d.GetRetryDelay().AsDuration()
				case *errdetails.QuotaFailure:
					for _, v := range d.GetViolations() {
						quota += fmt.Sprintf("%s: %s", v.GetSubject(), v.GetDescription())
						if v.GetQuotaId() != p.v.Rule || v.GetQuotaValue() != p.v.Limit {
							t.Errorf("got quota %q of %d, want the rule's name and limit", v.GetQuotaId(), v.GetQuotaValue())
						}
					}
				default:
					t.Errorf("got detail %v", d)
				}
			}
			if delay != p.delay || quota != p.quota {
				t.Errorf("got delay %v and quota %q, want %v and %q", delay, quota, p.delay, p.quota)
			}
		})
	}
}

// What a refusal costs the server, beside the call itself.
func BenchmarkRefusal(b *testing.B) {
	v := gate.Verdict{Closed: true, Rule: "per-ip", RetryAfter: time.Minute, Limit: 100, Window: time.Minute}
	b.ReportAllocs()
	for b.Loop() {
		_ = Refusal(v).Err()
	}
}
