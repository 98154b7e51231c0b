package sidecar

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
)

// bucket is one of Envoy's buckets: the requests of one caller, or, of an IPv6 network, of one address in it.
type bucket struct {
	id     *quotav3.BucketId
	key    string // of id
	caller schemas.Caller

	deniedUntil int64     // until when Envoy was told to refuse, Unix nanoseconds; 0 if it was not
	early       bool      // what it refuses, or refused last, is recorded as blocked early
	allowed     bool      // Envoy was told to let pass, after it had refused
	lookAt      int64     // when its gate may open or close though nobody decides, Unix nanoseconds
	reported    time.Time // when Envoy reported it last
}

// keyOf returns equal keys for equal ids.
func keyOf(id *quotav3.BucketId) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(id)
	if err != nil {
		panic("BUG: marshal an id that was unmarshalled: " + err.Error())
	}
	return string(b)
}

// descriptorOf returns the descriptor that names the same caller as a bucket's id. The entries of an id have no order, so that they
// are sorted by their parts of the kind.
func descriptorOf(id *quotav3.BucketId) *descriptorv3.RateLimitDescriptor {
	d := new(descriptorv3.RateLimitDescriptor)
	for _, key := range slices.SortedFunc(maps.Keys(id.GetBucket()), func(a, b string) int { return cmp.Compare(kindPart(a), kindPart(b)) }) {
		d.Entries = append(d.Entries, &descriptorv3.RateLimitDescriptor_Entry{Key: key, Value: id.GetBucket()[key]})
	}
	return d
}

// finding says what closures mean for a bucket. Times are Unix nanoseconds.
type finding struct {
	until int64 // until when the caller is closed; 0 if it is open
	early bool  // all closures in force are early, and none is held
	next  int64 // when this is true no longer, unless somebody decides; never is possible
}

// judge returns what enforcing closures say at now. A closure that begins when another ends continues it. Shares close nobody.
func judge(held []gate.Held, now time.Time) finding {
	f := finding{early: true, next: never}
	for i := range held {
		h := &held[i]
		switch {
		case h.Share || h.Ignored || h.Mode != schemas.ModeEnforce:
		case h.InForce(now):
			f.until = max(f.until, h.Until.UnixNano())
			f.early = f.early && h.Early && !h.Held
		case h.CloseAt.After(now):
			f.next = min(f.next, h.CloseAt.UnixNano())
		}
	}
	if f.until != 0 {
		f.next = f.until
	}
	return f
}

// deny tells Envoy to refuse for a time. Envoy reads whole seconds; the sidecar opens on the dot, if it is still there.
func deny(id *quotav3.BucketId, d time.Duration) *quotav3.RateLimitQuotaResponse_BucketAction {
	return assign(id, typev3.RateLimitStrategy_DENY_ALL, time.Duration(math.Ceil(d.Seconds()))*time.Second)
}

// allow tells Envoy to refuse no longer. When the day is over, Envoy lets pass as before: without a time it would forget the assignment
// at once, which costs it another copy of its table.
func allow(id *quotav3.BucketId) *quotav3.RateLimitQuotaResponse_BucketAction {
	return assign(id, typev3.RateLimitStrategy_ALLOW_ALL, 24*time.Hour)
}

func assign(id *quotav3.BucketId, rule typev3.RateLimitStrategy_BlanketRule, d time.Duration) *quotav3.RateLimitQuotaResponse_BucketAction {
	return &quotav3.RateLimitQuotaResponse_BucketAction{BucketId: id, BucketAction: &quotav3.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &quotav3.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
			AssignmentTimeToLive: durationpb.New(d),
			RateLimitStrategy:    &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: rule}},
		},
	}}
}

// abandon tells Envoy to forget a bucket. It reports it again when the next request comes.
func abandon(id *quotav3.BucketId) *quotav3.RateLimitQuotaResponse_BucketAction {
	return &quotav3.RateLimitQuotaResponse_BucketAction{BucketId: id, BucketAction: &quotav3.RateLimitQuotaResponse_BucketAction_AbandonAction_{
		AbandonAction: new(quotav3.RateLimitQuotaResponse_BucketAction_AbandonAction),
	}}
}

// since returns from when on Envoy counted what it reports at now: since its last report, or by its own words, which are cut to whole seconds.
func (b *bucket) since(u *quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage, now time.Time) time.Time {
	if !b.reported.IsZero() {
		return b.reported
	}
	switch d := u.GetTimeElapsed().AsDuration(); {
	case d <= 0:
		return now
	default:
		return now.Add(-min(d+time.Second, maxElapsed))
	}
}

const (
	maxElapsed = time.Minute            // the longest time that Envoy's word is taken for
	recordStep = 100 * time.Millisecond // between the requests that are recorded of a report
	maxSteps   = int64(maxElapsed / recordStep)
)

// spread calls record for parts of n requests that came between two times, nobody knows when: evenly, so that no moment has more than its
// part.
func spread(n uint64, since, until time.Time, record func(at time.Time, n uint32)) {
	n = min(n, math.MaxUint32)
	steps := uint64(min(max(1, int64(until.Sub(since)/recordStep)), maxSteps))
	steps = min(steps, n)
	for i := range steps {
		at := since.Add(until.Sub(since) * time.Duration(2*i+1) / time.Duration(2*steps))
		record(at, uint32(n*(i+1)/steps-n*i/steps))
	}
}
