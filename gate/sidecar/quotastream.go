package sidecar

import (
	"context"
	"math"
	"sync"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

const (
	// sendEvery is how often a stream sends at most. Envoy copies its table of buckets for each message, however much is in it.
	sendEvery = 20 * time.Millisecond

	// never is the time at which nothing happens.
	never = math.MaxInt64
)

// quotaStream is what the sidecar knows of one Envoy. The goroutine of run owns all but the channels.
type quotaStream struct {
	quotas  *quotas
	reports chan *quotav3.RateLimitQuotaUsageReports
	changes chan board.Event

	buckets map[string]*bucket // by key
	callers map[schemas.Caller][]*bucket
	due     int64 // no bucket is to be looked at before, Unix nanoseconds
	pending []*quotav3.RateLimitQuotaResponse_BucketAction
	sent    time.Time // when the last message was sent
}

func newQuotaStream(q *quotas) *quotaStream {
	return &quotaStream{
		quotas: q, reports: make(chan *quotav3.RateLimitQuotaUsageReports), changes: make(chan board.Event),
		buckets: make(map[string]*bucket), callers: make(map[schemas.Caller][]*bucket), due: never,
	}
}

// run answers until ctx ends or send fails.
func (t *quotaStream) run(ctx context.Context, send func(*quotav3.RateLimitQuotaResponse) error) error {
	wake := time.NewTimer(never)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-t.reports:
			t.report(r, time.Now())
		case e := <-t.changes:
			t.changed(&e, time.Now())
		case now := <-wake.C:
			t.lookAtDue(now)
		}
		now := time.Now()
		if len(t.pending) > 0 && now.Sub(t.sent) >= sendEvery {
			if err := send(&quotav3.RateLimitQuotaResponse{BucketAction: t.pending}); err != nil {
				return err
			}
			t.pending, t.sent = nil, time.Now()
		}
		wake.Reset(t.untilNext(time.Now()))
	}
}

// untilNext returns how long nothing is to be done, unless somebody reports or decides.
func (t *quotaStream) untilNext(now time.Time) time.Duration {
	wait := time.Duration(never)
	if t.due < never {
		wait = time.Duration(max(0, t.due-now.UnixNano()))
	}
	if len(t.pending) > 0 {
		wait = min(wait, max(0, t.sent.Add(sendEvery).Sub(now)))
	}
	return wait
}

// report takes what Envoy reports, and decides about each bucket in it. A caller that is open gets no answer: Envoy lets it pass.
func (t *quotaStream) report(r *quotav3.RateLimitQuotaUsageReports, now time.Time) {
	loaded := sync.OnceValue(func() bool { return t.quotas.board.Ready() && t.quotas.set.StatusAt(now).Cold == 0 })
	for _, u := range r.GetBucketQuotaUsages() {
		t.use(u, now, loaded)
	}
}

func (t *quotaStream) use(u *quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage, now time.Time, loaded func() bool) {
	requests := u.GetNumRequestsAllowed() + u.GetNumRequestsDenied()
	t.quotas.asked.Add(requests)
	t.quotas.refused.Add(u.GetNumRequestsDenied())
	var c gate.Callers
	if !t.quotas.kinds.add(&c, descriptorOf(u.GetBucketId())) {
		t.quotas.ignored.Add(1)
		if requests == 0 && len(u.GetBucketId().GetBucket()) > 0 {
			t.pending = append(t.pending, abandon(u.GetBucketId()))
		}
		return
	}
	b := t.bucket(u.GetBucketId(), &c)
	if t.quotas.recorder != nil {
		t.record(b, &c, u, now)
	}
	b.reported = now
	t.settle(b, now)
	if b.deniedUntil != 0 {
		return
	}
	switch { // what Envoy holds may be from a sidecar before this one, and this one may not know all decisions yet
	case requests == 0 && loaded():
		t.forget(b)
		t.pending = append(t.pending, abandon(b.id))
	case u.GetNumRequestsDenied() > 0 && !b.allowed && loaded():
		t.allow(b)
	}
}

// bucket returns the bucket with an id, whose caller is in c. If there is no room, the bucket is of no stream: nobody will tell it what changes.
func (t *quotaStream) bucket(id *quotav3.BucketId, c *gate.Callers) *bucket {
	key := keyOf(id)
	if b := t.buckets[key]; b != nil {
		return b
	}
	kind, text, _ := c.At(0)
	b := &bucket{id: id, key: key, caller: schemas.Caller{Kind: kind, ID: text}, lookAt: never}
	if len(t.buckets) >= maxBuckets || len(key) > maxBucketBytes {
		t.quotas.crowded.Add(1)
		return b
	}
	t.buckets[key] = b
	t.callers[b.caller] = append(t.callers[b.caller], b)
	t.quotas.buckets.Add(1)
	return b
}

func (t *quotaStream) forget(b *bucket) {
	if t.buckets[b.key] != b {
		return
	}
	delete(t.buckets, b.key)
	t.quotas.buckets.Add(-1)
	others := t.callers[b.caller][:0]
	for _, other := range t.callers[b.caller] {
		if other != b {
			others = append(others, other)
		}
	}
	if t.callers[b.caller] = others; len(others) == 0 {
		delete(t.callers, b.caller)
	}
}

func (t *quotaStream) forgetAll() { t.quotas.buckets.Add(-int64(len(t.buckets))) }

// changed takes a change of the board.
func (t *quotaStream) changed(e *board.Event, now time.Time) {
	switch e.Kind {
	case board.Closed, board.Changed, board.Opened, board.Ended, board.InForce:
		for _, b := range t.callers[e.Decision.Caller] {
			t.settle(b, now)
		}
	case board.Lost:
		for _, b := range t.buckets {
			t.settle(b, now)
		}
	case board.None, board.Current:
	}
}

// lookAtDue looks at the buckets whose gate opens or closes by itself.
func (t *quotaStream) lookAtDue(now time.Time) {
	if now.UnixNano() < t.due {
		return
	}
	t.due = never
	for _, b := range t.buckets {
		if b.lookAt <= now.UnixNano() {
			t.settle(b, now)
		}
		t.due = min(t.due, b.lookAt)
	}
}

// settle tells Envoy what holds about a bucket, if it was told otherwise before.
func (t *quotaStream) settle(b *bucket, now time.Time) {
	held := t.quotas.set.Holds(b.caller, now)
	if t.quotas.set.Mode() != gate.Enforce {
		held = nil
	}
	v := judge(held, now)
	b.lookAt = v.next
	t.due = min(t.due, v.next)
	if v.until != 0 {
		b.early = v.early
	}
	switch {
	case v.until != 0 && v.until != b.deniedUntil:
		b.deniedUntil, b.allowed = v.until, false
		t.pending = append(t.pending, deny(b.id, time.Duration(v.until-now.UnixNano())))
	case v.until == 0 && b.deniedUntil != 0:
		t.allow(b)
	}
}

func (t *quotaStream) allow(b *bucket) {
	b.deniedUntil, b.allowed = 0, true
	t.pending = append(t.pending, allow(b.id))
}

// record records the requests that Envoy reports of a bucket.
func (t *quotaStream) record(b *bucket, c *gate.Callers, u *quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage, now time.Time) {
	since := b.since(u, now)
	for _, part := range []struct {
		n uint64
		v gate.Verdict
	}{{u.GetNumRequestsAllowed(), gate.Verdict{}}, {u.GetNumRequestsDenied(), gate.Refused(b.early)}} {
		spread(part.n, since, now, func(at time.Time, n uint32) {
			t.quotas.recorder.Record(c, part.v, record.Request{At: at, Count: n})
		})
	}
}
