package sidecar

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/protobuf/proto"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// newQuotas returns a quota service that knows all decisions.
func newQuotas(t testing.TB, closures ...gatetest.Closure) *quotas {
	t.Helper()
	b := board.New(board.Options{})
	b.Resize(1)
	b.Loaded(0)
	set := gatetest.Set(t, closures...)
	return &quotas{set: set, board: b, kinds: newKinds(set)}
}

// usage is a report on a bucket with an id of keys and values, by turns.
func usage(allowed, denied uint64, words ...string) *quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage {
	id := &quotav3.BucketId{Bucket: map[string]string{}}
	for i := 0; i < len(words); i += 2 {
		id.Bucket[words[i]] = words[i+1]
	}
	return &quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: id, NumRequestsAllowed: allowed, NumRequestsDenied: denied}
}

// TestCrowdOfBuckets: beyond the bound a bucket gets its verdict with its report, and an idle one is abandoned as any other.
func TestCrowdOfBuckets(t *testing.T) {
	q := newQuotas(t)
	stream, now := newQuotaStream(q), time.Now()
	report := func(usages ...*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage) []*quotav3.RateLimitQuotaResponse_BucketAction {
		stream.pending = nil
		stream.report(&quotav3.RateLimitQuotaUsageReports{BucketQuotaUsages: usages}, now)
		return stream.pending
	}
	crowd := make([]*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage, maxBuckets)
	for i := range crowd {
		crowd[i] = usage(1, 0, "key", strconv.Itoa(i))
	}
	report(crowd...)
	late, long := usage(1, 0, "key", "late"), usage(1, 0, "key", strings.Repeat("long", maxBucketBytes))
	if got := report(late, long); len(got) != 0 || q.buckets.Load() != maxBuckets || q.crowded.Load() != 2 {
		t.Fatalf("got %d answers, %d buckets and %d beyond, want 0, %d and 2", len(got), q.buckets.Load(), q.crowded.Load(), maxBuckets)
	}
	gatetest.Apply(t, q.set, gatetest.Close("key:late", 6*time.Second))
	now = time.Now()
	stream.changed(&board.Event{Kind: board.Closed, Decision: schemas.Decision{Caller: schemas.Caller{Kind: "key", ID: "late"}}}, now)
	if len(stream.pending) != 0 {
		t.Errorf("got %v, want nobody told", stream.pending)
	}
	for range 2 {
		got := report(usage(0, 0, "key", "late"))
		if len(got) != 1 || got[0].GetQuotaAssignmentAction().GetAssignmentTimeToLive().GetSeconds() < 6 {
			t.Errorf("got %v, want it refused for 6 s or a little more", got)
		}
	}
	now = now.Add(7 * time.Second)
	if got := report(usage(0, 3, "key", "late")); len(got) != 1 || got[0].GetQuotaAssignmentAction() == nil {
		t.Errorf("got %v, want it opened", got)
	}
	idle := slices.Concat(crowd, []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{late, long})
	for _, u := range idle {
		u.NumRequestsAllowed = 0
	}
	if got := report(idle...); len(got) != maxBuckets+2 || got[0].GetAbandonAction() == nil || q.buckets.Load() != 0 || len(stream.callers) != 0 {
		t.Errorf("got %d answers, and %d buckets of %d callers, want all abandoned", len(got), q.buckets.Load(), len(stream.callers))
	}
}

// FuzzQuotaReports: whatever is reported, a stream stays within its bounds, answers about what was reported alone, and records as many
// requests as were reported.
func FuzzQuotaReports(f *testing.F) {
	report, err := proto.Marshal(&quotav3.RateLimitQuotaUsageReports{BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
		usage(1, 0, "key", "spent"), usage(0, 0, "key", "idle"), usage(2, 7, "remote_address", "2001:db8::/64", "path", "/"), usage(0, 0), nil,
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(report)
	q := newQuotas(f, gatetest.Close("key:spent", time.Hour))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := new(quotav3.RateLimitQuotaUsageReports)
		if proto.Unmarshal(in, r) != nil {
			return
		}
		recorded := new(sum)
		q.recorder = recorded
		stream, now := newQuotaStream(q), time.Now()
		for range 2 {
			stream.report(r, now)
			now = now.Add(5 * time.Second)
			stream.lookAtDue(now)
		}
		known, want := map[string]bool{}, uint64(0)
		for _, u := range r.GetBucketQuotaUsages() {
			known[keyOf(u.GetBucketId())] = true
			if q.kinds.add(new(gate.Callers), descriptorOf(u.GetBucketId())) {
				want += 2 * (min(u.GetNumRequestsAllowed(), math.MaxUint32) + min(u.GetNumRequestsDenied(), math.MaxUint32))
			}
		}
		if uint64(*recorded) != want {
			t.Errorf("got %d requests recorded, want %d", *recorded, want)
		}
		for _, a := range stream.pending {
			if !known[keyOf(a.GetBucketId())] {
				t.Errorf("got an answer about %v, which nobody reported", a.GetBucketId())
			}
		}
		for key, bucket := range stream.buckets {
			if len(key) > maxBucketBytes || bucket.caller.Validate() != nil {
				t.Errorf("got a bucket %q of %v, want it within its bounds", key, bucket.caller)
			}
		}
		if n := len(stream.buckets); n > maxBuckets || int64(n) != q.buckets.Load() {
			t.Errorf("got %d buckets, counted as %d", n, q.buckets.Load())
		}
		if stream.forgetAll(); q.buckets.Load() != 0 {
			t.Errorf("got %d buckets left", q.buckets.Load())
		}
	})
}

// sum is a Recorder that counts requests.
type sum uint64

func (s *sum) Record(_ *gate.Callers, _ gate.Verdict, q record.Request) { *s += sum(q.Count) }
func (*sum) Respond(*gate.Callers, record.Response)                     {}
func (*sum) Responses() bool                                            { return false }
func (*sum) Holds() bool                                                { return false }

// TestSpreadAddsUp, and no tenth of a second has more than its part.
func TestSpreadAddsUp(t *testing.T) {
	until := time.Unix(1_000_000, 0)
	for _, length := range []time.Duration{0, time.Nanosecond, 90 * time.Millisecond, 5 * time.Second, time.Hour} {
		for _, n := range []uint64{0, 1, 2, 49, 50, 51, 1_000_003, 1 << 40} {
			var sum uint64
			var most, records uint32
			spread(n, until.Add(-length), until, func(at time.Time, n uint32) {
				if at.Before(until.Add(-length)) || at.After(until) || n == 0 {
					t.Errorf("%d in %v: got %d at %v before the end", n, length, n, until.Sub(at))
				}
				sum += uint64(n)
				most = max(most, n)
				records++
			})
			if want := min(n, 1<<32-1); sum != want || records > 600 || records > 0 && uint64(most) > want/uint64(records)+1 {
				t.Errorf("%d in %v: got %d in %d parts, of at most %d", n, length, sum, records, most)
			}
		}
	}
}
