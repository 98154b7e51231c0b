package sidecar_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/board"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/gatetest"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas"
)

// quotaWorld is a sidecar with a board, and an Envoy that holds its buckets as Envoy 1.40 does.
type quotaWorld struct {
	t     *testing.T
	set   *gate.Set
	board *board.Board
	side  *sidecar.Sidecar
	seq   uint64
}

func newQuotaWorld(t *testing.T, rec gatehttp.Recorder, o gate.Options) *quotaWorld {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	w := &quotaWorld{t: t, set: gate.New(o), board: board.New(board.Options{})}
	w.board.Resize(1)
	w.board.Loaded(0)
	w.side = sidecar.New(sidecar.Options{Set: w.set, Board: w.board, Recorder: rec, Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)}})
	return w
}

// decide gives a decision to the gates, and then to the board.
func (w *quotaWorld) decide(caller string, change func(*schemas.Decision)) {
	w.t.Helper()
	d := w.decision(caller, change)
	w.set.ApplyAt(time.Now(), []schemas.Decision{d})
	w.board.Apply([]schemas.Decision{d}, time.Now())
}

func (w *quotaWorld) decision(caller string, change func(*schemas.Decision)) schemas.Decision {
	w.t.Helper()
	c, err := schemas.ParseCaller(caller)
	if err != nil {
		w.t.Fatal(err)
	}
	w.seq++
	d := schemas.Decision{Rule: "r", Caller: w.set.IDs().Caller(c), Mode: schemas.ModeEnforce, CloseAt: time.Now().UnixNano(), Epoch: 1, Seq: w.seq}
	change(&d)
	return d
}

func closedFor(length time.Duration) func(*schemas.Decision) {
	return func(d *schemas.Decision) { d.Until = d.CloseAt + int64(length) }
}

func opened(d *schemas.Decision) { d.Until = d.CloseAt }

// envoy is a filter of Envoy's: what it keeps of buckets, and its stream.
type envoy struct {
	t       *testing.T
	conn    *grpc.ClientConn
	stream  grpc.BidiStreamingClient[quotav3.RateLimitQuotaUsageReports, quotav3.RateLimitQuotaResponse]
	buckets map[string]*envoyBucket
	answers chan *quotav3.RateLimitQuotaResponse
	heard   int // messages
	actions int
	hangUp  context.CancelFunc
}

type envoyBucket struct {
	id              *quotav3.BucketId
	allowed, denied uint64
	refuse          bool
	until           time.Time // of the assignment
	reported        time.Time
}

func (w *quotaWorld) envoy() *envoy {
	w.t.Helper()
	e := &envoy{t: w.t, conn: dial(w.t, w.side), buckets: map[string]*envoyBucket{}}
	e.connect()
	return e
}

func (e *envoy) connect() {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	stream, err := quotav3.NewRateLimitQuotaServiceClient(e.conn).StreamRateLimitQuotas(ctx)
	if err != nil {
		e.t.Fatal(err)
	}
	answers := make(chan *quotav3.RateLimitQuotaResponse, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			answers <- r
		}
	}()
	e.stream, e.answers, e.hangUp = stream, answers, func() { cancel(); <-done }
	e.t.Cleanup(e.hangUp)
}

// take applies what has come.
func (e *envoy) take() {
	synctest.Wait()
	for {
		select {
		case r := <-e.answers:
			e.heard++
			for _, a := range r.GetBucketAction() {
				e.actions++
				e.apply(a)
			}
		default:
			return
		}
	}
}

func (e *envoy) apply(a *quotav3.RateLimitQuotaResponse_BucketAction) {
	key := fmt.Sprint(a.GetBucketId().GetBucket())
	b := e.buckets[key]
	if b == nil {
		e.t.Errorf("got %v about a bucket that Envoy does not know: it would log an error", a)
		return
	}
	if a.GetAbandonAction() != nil {
		delete(e.buckets, key)
		return
	}
	q := a.GetQuotaAssignmentAction()
	b.refuse = q.GetRateLimitStrategy().GetBlanketRule() == typev3.RateLimitStrategy_DENY_ALL
	b.until = time.Now().Add(time.Duration(q.GetAssignmentTimeToLive().GetSeconds()) * time.Second)
}

// request is a request of a bucket, and whether it passes.
func (e *envoy) request(words ...string) bool {
	e.t.Helper()
	e.take()
	id := bucketID(words...)
	key := fmt.Sprint(id.GetBucket())
	b := e.buckets[key]
	if b == nil {
		b = &envoyBucket{id: id, allowed: 1, reported: time.Now()}
		e.buckets[key] = b
		e.send(b)
		return true
	}
	if b.refuse && time.Now().Before(b.until) {
		b.denied++
		return false
	}
	b.allowed++
	return true
}

// send reports buckets.
func (e *envoy) send(buckets ...*envoyBucket) {
	e.t.Helper()
	r := &quotav3.RateLimitQuotaUsageReports{Domain: "any"}
	for _, b := range buckets {
		elapsed := time.Since(b.reported).Truncate(time.Second)
		r.BucketQuotaUsages = append(r.BucketQuotaUsages, &quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: b.id, TimeElapsed: durationpb.New(elapsed), NumRequestsAllowed: b.allowed, NumRequestsDenied: b.denied,
		})
		b.allowed, b.denied, b.reported = 0, 0, time.Now()
	}
	if err := e.stream.Send(r); err != nil {
		e.t.Fatal(err)
	}
}

// reports sends the report of each 5 s.
func (e *envoy) reports() {
	e.t.Helper()
	e.take()
	e.send(slices.Collect(maps.Values(e.buckets))...)
	e.take()
}

// bucketID makes one of keys and values, by turns.
func bucketID(words ...string) *quotav3.BucketId {
	id := &quotav3.BucketId{Bucket: map[string]string{}}
	for i := 0; i < len(words); i += 2 {
		id.Bucket[words[i]] = words[i+1]
	}
	return id
}

const oneCaller = "203.0.113.9"

// TestEnvoyKeepsTheVerdict: the first request of a closed caller passes, because Envoy asks at no request. From then on Envoy refuses,
// learns at once of what is decided, and opens on the dot.
func TestEnvoyKeepsTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld(t, nil, gate.Options{MaxJitter: -1})
		e := w.envoy()
		passes := func(want bool, when string) {
			t.Helper()
			time.Sleep(30 * time.Millisecond) // more than is between two messages
			if got := e.request("remote_address", oneCaller); got != want {
				t.Errorf("%s: got that it passes %t, want %t", when, got, want)
			}
		}
		passes(true, "open")
		passes(true, "still")
		if e.heard != 0 {
			t.Errorf("got %d messages about an open caller, want none", e.heard)
		}
		w.decide("ip:"+oneCaller, closedFor(90*time.Second))
		passes(false, "closed by decision")
		w.decide("ip:198.51.100.1", closedFor(time.Minute))
		passes(false, "another is closed")
		w.decide("ip:"+oneCaller, opened)
		passes(true, "opened by decision")
		w.decide("ip:"+oneCaller, closedFor(2500*time.Millisecond))
		passes(false, "closed again")
		time.Sleep(2440 * time.Millisecond)
		if e.request("remote_address", oneCaller) {
			t.Error("got open before the end")
		}
		passes(true, "at its end")
		if e.heard != 4 {
			t.Errorf("got %d messages, want one for each change", e.heard)
		}
		if e.request("remote_address", "198.51.100.1") != true {
			t.Error("got the first request refused, want Envoy to know nothing yet")
		}
		time.Sleep(30 * time.Millisecond)
		if e.request("remote_address", "198.51.100.1") {
			t.Error("got the second request passed, want it refused")
		}
	})
}

// TestWhatClosesNobodyInEnvoy: shadow rules, a set in shadow mode, shares and closures to come.
func TestWhatClosesNobodyInEnvoy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld(t, nil, gate.Options{MaxJitter: -1})
		e := w.envoy()
		passes := func(want bool, when string) {
			t.Helper()
			time.Sleep(30 * time.Millisecond)
			if got := e.request("key", "a"); got != want {
				t.Errorf("%s: got that it passes %t, want %t", when, got, want)
			}
		}
		passes(true, "nothing")
		w.decide("key:a", func(d *schemas.Decision) { closedFor(time.Minute)(d); d.Mode = schemas.ModeShadow })
		passes(true, "shadow")
		w.decide("key:a", func(d *schemas.Decision) {
			opened(d)
			d.Share = &schemas.Share{
				From: d.CloseAt, Until: d.CloseAt + int64(time.Minute), Period: int64(time.Second), Permits: 0, Demand: 1, DemandFrom: 0, DemandUntil: 1,
			}
		})
		passes(true, "a share")
		w.decide("key:a", func(d *schemas.Decision) {
			d.Until = d.CloseAt + int64(time.Second)
			d.Next = schemas.Span{CloseAt: d.CloseAt + int64(3*time.Second), Until: d.CloseAt + int64(5*time.Second)}
		})
		passes(false, "the first of two closures")
		time.Sleep(time.Second)
		passes(true, "between both")
		time.Sleep(2 * time.Second)
		passes(false, "the second")
		time.Sleep(2 * time.Second)
		passes(true, "after both")
		w.set.SetMode(gate.Shadow)
		w.decide("key:a", closedFor(time.Minute))
		passes(true, "the set is in shadow mode")
		w.set.SetMode(gate.Enforce)
		e.reports()
		passes(false, "it enforces again, as of the next report")
	})
}

// TestEnvoyReopensWithTheGates: with the jitter of the gates, and not all callers at one moment.
func TestEnvoyReopensWithTheGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld(t, nil, gate.Options{})
		e := w.envoy()
		e.request("key", "a")
		w.decide("key:a", closedFor(time.Minute))
		now := time.Now()
		until := w.set.Holds(schemas.Caller{Kind: "key", ID: "a"}, now)[0].Until
		if late := until.Sub(now.Add(time.Minute)); late <= 0 {
			t.Fatalf("got a gate that reopens %v late, want a caller with jitter", late)
		}
		time.Sleep(time.Until(until) - time.Millisecond)
		if e.request("key", "a") {
			t.Error("got open before the gate reopens")
		}
		time.Sleep(30 * time.Millisecond)
		if !e.request("key", "a") {
			t.Error("got refused after the gate reopened")
		}
	})
}

// TestEnvoyOpensByItself: a sidecar that is away leaves closures until they end, to the second. A sidecar that is back opens who was
// opened meanwhile, and refuses who was closed, at the first report. Before it has read the decisions it opens nobody.
func TestEnvoyOpensByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld(t, nil, gate.Options{MaxJitter: -1})
		e := w.envoy()
		for _, key := range []string{"ends", "opened", "closed"} {
			e.request("key", key)
		}
		w.decide("key:ends", closedFor(10*time.Second+time.Millisecond))
		w.decide("key:opened", closedFor(time.Hour))
		time.Sleep(30 * time.Millisecond)
		e.take()
		e.hangUp()
		time.Sleep(9 * time.Second)
		if e.request("key", "ends") || e.request("key", "opened") || !e.request("key", "closed") {
			t.Error("got another verdict while the sidecar is away, want the last one")
		}
		time.Sleep(2 * time.Second)
		if !e.request("key", "ends") {
			t.Error("got refused after the end, want Envoy to open by itself")
		}

		after := newQuotaWorld(t, nil, gate.Options{MaxJitter: -1})
		after.set.Partitions(1) // cold
		e.conn = dial(t, after.side)
		e.connect()
		e.reports()
		if e.request("key", "opened") {
			t.Error("got opened by a sidecar that knows nothing yet")
		}
		after.decide("key:closed", closedFor(time.Hour))
		after.set.Heartbeat(schemas.Heartbeat{Partition: 0, Epoch: 1}, time.Now())
		e.reports()
		time.Sleep(30 * time.Millisecond)
		if e.request("key", "closed") || !e.request("key", "opened") {
			t.Error("got the verdicts of before, want those of the sidecar that is back")
		}
	})
}

// TestEnvoyForgetsIdleBuckets: of who is open and sends nothing nothing is kept, here or there. Envoy itself forgets none.
func TestEnvoyForgetsIdleBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld(t, nil, gate.Options{MaxJitter: -1})
		e := w.envoy()
		w.decide("key:closed", closedFor(time.Minute))
		for _, key := range []string{"closed", "busy", "idle", "idle2"} {
			e.request("key", key)
		}
		e.request("API key", "names no caller")
		for range 3 {
			time.Sleep(5 * time.Second)
			e.request("key", "busy")
			e.reports()
			time.Sleep(30 * time.Millisecond)
			e.take()
		}
		if len(e.buckets) != 2 || e.request("key", "closed") {
			t.Errorf("got %d buckets, want the busy and the closed one", len(e.buckets))
		}
		if got := w.side.Stats().Quota; got.Buckets != 2 || got.Streams != 1 || got.Ignored != 2 {
			t.Errorf("got %+v, want 2 buckets of 1 stream, and 2 reports without a caller", got)
		}
		e.hangUp()
		synctest.Wait()
		if got := w.side.Stats().Quota; got.Buckets != 0 || got.Streams != 0 || got.Unreadable != 0 {
			t.Errorf("got %+v, want nothing left", got)
		}
	})
}

// TestBucketsNameCallers as descriptors do, in whatever order their entries are.
func TestBucketsNameCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld(t, nil, gate.Options{MaxJitter: -1})
		e := w.envoy()
		for _, c := range []string{"ip:203.0.113.9", "ip:2001:db8:1:2::", "tenant:acme", "ip_path:203.0.113.10|/search", "api_ip:x|203.0.113.10"} {
			w.decide(c, closedFor(time.Minute))
		}
		long := strings.Repeat("x", 2000)
		w.decide("tenant:long", func(d *schemas.Decision) { closedFor(time.Minute)(d); d.Caller.ID = schemas.ID(long) })
		for _, test := range []struct {
			closed bool
			id     []string
		}{
			{true, []string{"remote_address", "203.0.113.9"}},
			{true, []string{"ip", "203.0.113.9"}},
			{true, []string{"remote_address", "203.0.113.9/32"}},
			{false, []string{"remote_address", "203.0.113.0/24"}},
			{true, []string{"remote_address", "2001:db8:1:2::/64"}},
			{true, []string{"remote_address", "2001:db8:1:2:3::7"}},
			{false, []string{"remote_address", "2001:db8:1::/48"}},
			{false, []string{"remote_address", "2001:db8:1:3::/64"}},
			{true, []string{"tenant", "acme"}},
			{true, []string{"path", "/search", "remote_address", "203.0.113.10"}},
			{true, []string{"remote_address", "203.0.113.10/32", "path", "/search"}},
			{true, []string{"remote_address", "203.0.113.10", "api", "x"}},
			{false, []string{"remote_address", "203.0.113.10"}},
			{false, []string{"remote_address", "203.0.113.10|/search"}},
			{true, []string{"tenant", long}},
		} {
			e.request(test.id...)
			time.Sleep(30 * time.Millisecond)
			if passes := e.request(test.id...); passes == test.closed {
				t.Errorf("%.80q: got that it passes %t, want %t", test.id, passes, !test.closed)
			}
		}
	})
}

// TestEnvoysCountsAreRecorded: what Envoy reports is spread over the time since its last report, because Envoy does not say when requests
// came: a caller that keeps below its limit must not seem to send 5 s of requests at once.
func TestEnvoysCountsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := record.New(record.Options{})
		w := newQuotaWorld(t, rec, gate.Options{MaxJitter: -1})
		e := w.envoy()
		e.request("key", "a")
		began := time.Now()
		synctest.Wait()
		for range 20 {
			time.Sleep(250 * time.Millisecond)
			e.request("key", "a")
		}
		w.decide("key:a", func(d *schemas.Decision) { closedFor(time.Minute)(d); d.Early = true })
		time.Sleep(30 * time.Millisecond)
		for range 7 {
			e.request("key", "a")
		}
		e.reports()
		w.decide("key:a", func(d *schemas.Decision) { closedFor(time.Minute)(d); d.Early, d.Held = true, true })
		time.Sleep(30 * time.Millisecond)
		e.request("key", "a")
		e.request("key", "a")
		e.reports()
		got := map[string]uint32{}
		busiest := map[int64]uint32{}
		rec.Drain(func(_ uint64, entry *schemas.Entry) {
			got[fmt.Sprint(entry.Caller(), entry.Blocked, entry.Early)] += entry.Count
			if after := entry.Time - began.UnixNano(); !entry.Blocked {
				busiest[after/int64(time.Second)] += entry.Count
			}
		})
		want := map[string]uint32{"key:a false false": 21, "key:a true true": 7, "key:a true false": 2} // what a held closure refuses is not early
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for second, n := range busiest {
			if n > 5 || second > 5 {
				t.Errorf("got %d requests in second %d, want 4 a second, and the first one", n, second)
			}
		}
		if got := w.side.Stats().Quota.Answers; got != (sidecar.Answers{Asked: 30, Refused: 9}) {
			t.Errorf("got %+v, want 30 requests and 9 refused", got)
		}
	})
}

// TestManyDecisionsAreOneMessage: for each message Envoy copies its table.
func TestManyDecisionsAreOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuotaWorld(t, nil, gate.Options{MaxJitter: -1})
		e := w.envoy()
		for i := range 500 {
			e.request("key", fmt.Sprint(i))
		}
		for i := range 500 {
			w.decide(fmt.Sprint("key:", i), closedFor(time.Minute))
		}
		time.Sleep(100 * time.Millisecond)
		e.take()
		if e.actions != 500 || e.heard > 5 {
			t.Errorf("got %d actions in %d messages, want 500 in a few", e.actions, e.heard)
		}
	})
}

// TestStreamsBeyondTheBoundAreTurnedAway: the others go on.
func TestStreamsBeyondTheBoundAreTurnedAway(t *testing.T) {
	w := newQuotaWorld(t, nil, gate.Options{})
	w.decide("key:spent", closedFor(time.Hour))
	client := quotav3.NewRateLimitQuotaServiceClient(dial(t, w.side))
	const bound = 8
	for i := range bound + 2 {
		s, err := client.StreamRateLimitQuotas(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send(&quotav3.RateLimitQuotaUsageReports{BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
			{BucketId: bucketID("key", "spent"), NumRequestsAllowed: 1},
		}}) // the error is that of Recv
		r, err := s.Recv()
		if i < bound && len(r.GetBucketAction()) != 1 {
			t.Fatalf("stream %d: got %v and %v, want an answer", i, r, err)
		}
		if i >= bound && status.Code(err) != codes.ResourceExhausted {
			t.Errorf("stream %d: got %v and %v, want it turned away", i, r, err)
		}
	}
	if got := w.side.Stats().Quota; got.Streams != bound || got.TurnedAway != 2 {
		t.Errorf("got %+v, want %d streams and 2 turned away", got, bound)
	}
}

// TestReportsOfStrangers: what no Envoy would send does no harm to the others.
func TestReportsOfStrangers(t *testing.T) {
	w := newQuotaWorld(t, &gatetest.Recorder{}, gate.Options{})
	w.decide("key:spent", closedFor(time.Hour))
	conn := dial(t, w.side)
	usage := func(id *quotav3.BucketId, allowed, denied uint64, elapsed time.Duration) *quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage {
		return &quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: id, NumRequestsAllowed: allowed, NumRequestsDenied: denied, TimeElapsed: durationpb.New(elapsed),
		}
	}
	many := &quotav3.BucketId{Bucket: map[string]string{}}
	for i := range 1000 {
		many.Bucket[fmt.Sprint("part", i)] = strings.Repeat("v", 100)
	}
	s, err := quotav3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
		nil, {}, usage(nil, 1, 0, 0), usage(bucketID(), 1, 0, 0), usage(bucketID("key", ""), 1, 0, 0), usage(bucketID("", ""), 0, 0, 0),
		usage(many, 1, 0, 0), usage(bucketID("key", strings.Repeat("k", 1<<20)), 1, 1, -1), usage(bucketID("key", "\x00|\n"), 1<<63, 1<<63, 1<<62),
		usage(bucketID("key", "a"), 1<<64-1, 1<<64-1, -1<<62), usage(bucketID("key", "spent"), 1, 0, time.Second),
	} {
		if err := s.Send(&quotav3.RateLimitQuotaUsageReports{BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{u}}); err != nil {
			t.Fatal(err)
		}
	}
	for {
		r, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(r.GetBucketAction(), func(a *quotav3.RateLimitQuotaResponse_BucketAction) bool {
			return a.GetBucketId().GetBucket()["key"] == "spent" && a.GetQuotaAssignmentAction() != nil
		}) {
			break
		}
	}

	// A message that gRPC cannot read ends its stream, and is counted.
	raw, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas", grpc.ForceCodec(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.SendMsg([]byte("\x0a\xff\xff")); err != nil {
		t.Fatal(err)
	}
	var in []byte
	if err := raw.RecvMsg(&in); status.Code(err) != codes.Internal {
		t.Errorf("got %v, want that the message is none", err)
	}
	for began := time.Now(); w.side.Stats().Quota.Unreadable != 1; time.Sleep(time.Millisecond) { // gRPC answers before it is counted
		if time.Since(began) > 10*time.Second {
			t.Fatalf("got %+v, want one stream unreadable", w.side.Stats().Quota)
		}
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil } //nolint:forcetypeassert // the test sends nothing else
func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = b //nolint:forcetypeassert // nor does it read anything else
	return nil
}
func (rawCodec) Name() string { return "proto" }
