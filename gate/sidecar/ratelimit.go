package sidecar

import (
	"context"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/internal/front"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// limiter is Envoy's rate limit service, version 3.
type limiter struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	answers

	set      *gate.Set
	recorder gatehttp.Recorder
	kinds    *kinds
	ignored  atomic.Uint64 // descriptors that name no caller
}

// question is one descriptor: the caller that it names, and the verdict of the caller's gate.
type question struct {
	caller  gate.Callers // at most one
	verdict gate.Verdict
}

// ShouldRateLimit asks the gates of all callers that the descriptors name. If one of them is closed, the answer is
// OVER_LIMIT. A descriptor that names no caller passes, and is counted.
func (l *limiter) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	questions := make([]question, len(r.GetDescriptors()))
	out := &ratelimitv3.RateLimitResponse{
		OverallCode: ratelimitv3.RateLimitResponse_OK,
		Statuses:    make([]*ratelimitv3.RateLimitResponse_DescriptorStatus, len(questions)),
	}
	var wait time.Duration
	refused := false
	for i, d := range r.GetDescriptors() {
		v := l.ask(&questions[i], d)
		out.Statuses[i] = statusOf(v)
		if v.Closed {
			refused, wait = true, max(wait, v.RetryAfter)
		}
	}
	status := http.StatusOK
	if refused {
		status = http.StatusTooManyRequests
		out.OverallCode = ratelimitv3.RateLimitResponse_OVER_LIMIT
		out.ResponseHeadersToAdd = []*corev3.HeaderValue{
			{Key: "Retry-After", Value: strconv.FormatInt(front.WholeSeconds(wait), 10)},
		}
	}
	l.record(r, questions, refused)
	l.count(status)
	return out, nil
}

// ask asks the gate of the caller that a descriptor names.
func (l *limiter) ask(q *question, d *descriptorv3.RateLimitDescriptor) gate.Verdict {
	if !l.kinds.add(&q.caller, d) {
		l.ignored.Add(1)
		return gate.Verdict{}
	}
	q.verdict = l.set.Check(&q.caller)
	return q.verdict
}

// record records the request for each caller, as many times as Envoy says. A request that was refused is recorded only for
// the callers whose own gate was closed, as with record.Recorder.Record.
func (l *limiter) record(r *ratelimitv3.RateLimitRequest, questions []question, refused bool) {
	if l.recorder == nil {
		return
	}
	for i, d := range r.GetDescriptors() {
		q := &questions[i]
		hits := hitsOf(r, d)
		if hits == 0 || refused && !q.verdict.Closed {
			continue
		}
		l.recorder.Record(&q.caller, q.verdict, record.Request{Count: hits})
	}
}

// hitsOf returns how many requests a descriptor stands for: its own number, or that of the request, or 1. A negative number,
// by which Envoy would refund hits, counts as 0.
func hitsOf(r *ratelimitv3.RateLimitRequest, d *descriptorv3.RateLimitDescriptor) uint32 {
	switch {
	case d.GetIsNegativeHits():
		return 0
	case d.GetHitsAddend() != nil:
		return uint32(min(d.GetHitsAddend().GetValue(), math.MaxUint32))
	}
	return max(r.GetHitsAddend(), 1)
}

// statusOf converts a verdict to Envoy's form.
func statusOf(v gate.Verdict) *ratelimitv3.RateLimitResponse_DescriptorStatus {
	s := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: ratelimitv3.RateLimitResponse_OK}
	if !v.Closed {
		return s
	}
	s.Code = ratelimitv3.RateLimitResponse_OVER_LIMIT
	s.DurationUntilReset = durationpb.New(max(v.RetryAfter, 0))
	s.CurrentLimit = limitOf(v)
	return s
}

// limitOf returns the rule's name and its limit, or nil if Envoy has no unit for the rule's window.
func limitOf(v gate.Verdict) *ratelimitv3.RateLimitResponse_RateLimit {
	unit, ok := units[v.Window]
	if !ok || v.Limit <= 0 || v.Limit > math.MaxUint32 {
		return nil
	}
	return &ratelimitv3.RateLimitResponse_RateLimit{Name: v.Rule, RequestsPerUnit: uint32(v.Limit), Unit: unit}
}

//nolint:gochecknoglobals // a table of constants
var units = map[time.Duration]ratelimitv3.RateLimitResponse_RateLimit_Unit{
	time.Second:        ratelimitv3.RateLimitResponse_RateLimit_SECOND,
	time.Minute:        ratelimitv3.RateLimitResponse_RateLimit_MINUTE,
	time.Hour:          ratelimitv3.RateLimitResponse_RateLimit_HOUR,
	24 * time.Hour:     ratelimitv3.RateLimitResponse_RateLimit_DAY,
	7 * 24 * time.Hour: ratelimitv3.RateLimitResponse_RateLimit_WEEK,
}

// maxKinds is how many kinds descriptors can name. A Set has room for 256 kinds: decisions can use half of them, and the
// caller functions need some.
const maxKinds = 100

// remoteAddress is the key of Envoy's descriptor entry for the address of a client.
const remoteAddress = "remote_address"

// kinds holds the gates of the kinds that descriptors have named. Any goroutine may use it.
type kinds struct {
	set   *gate.Set
	gates sync.Map // kind → *gate.Gate

	mu sync.Mutex
	n  int // guarded by mu
}

func newKinds(s *gate.Set) *kinds { return &kinds{set: s} }

// add adds the caller that a descriptor names to c, and reports whether it names one.
func (k *kinds) add(c *gate.Callers, d *descriptorv3.RateLimitDescriptor) bool {
	entries := d.GetEntries()
	if len(entries) == 0 {
		return false
	}
	g := k.gate(kindOf(entries))
	return g != nil && c.Add(g, front.Join(len(entries), func(i int) string { return k.valueOf(entries[i]) }))
}

// valueOf returns an entry's part of the id. For an IPv6 address that is its network. Envoy can also name the network, as
// 2001:db8:1:2::/64. A wider network is no caller, and nobody is closed under its name.
func (k *kinds) valueOf(e *descriptorv3.RateLimitDescriptor_Entry) string {
	if e.GetKey() != remoteAddress {
		return e.GetValue()
	}
	if a, err := netip.ParseAddr(e.GetValue()); err == nil {
		return k.set.IDs().Addr(a).String()
	}
	p, err := netip.ParsePrefix(e.GetValue())
	if err == nil && (p.Addr().Is4() && p.IsSingleIP() || p.Addr().Is6() && p.Bits() >= k.set.IDs().Prefix()) {
		return k.set.IDs().Addr(p.Addr()).String()
	}
	return e.GetValue()
}

// kindOf joins the keys of a descriptor.
func kindOf(entries []*descriptorv3.RateLimitDescriptor_Entry) string {
	var kind string
	for i, e := range entries {
		part := kindPart(e.GetKey())
		if i == 0 {
			kind = part
		} else {
			kind += "_" + part
		}
	}
	return kind
}

// kindPart returns what a key stands for in the name of a kind.
func kindPart(key string) string {
	if key == remoteAddress {
		return schemas.KindIP
	}
	return key
}

// gate returns the gate of a kind, or nil if the kind is invalid or there are maxKinds already.
func (k *kinds) gate(kind string) *gate.Gate {
	if g, ok := k.gates.Load(kind); ok {
		return g.(*gate.Gate) //nolint:errcheck,forcetypeassert // the map holds nothing else
	}
	if schemas.ValidateKind(kind) != nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n == maxKinds {
		return nil
	}
	g, loaded := k.gates.LoadOrStore(kind, k.set.Gate(kind))
	if !loaded {
		k.n++
	}
	return g.(*gate.Gate) //nolint:errcheck,forcetypeassert // the map holds nothing else
}
