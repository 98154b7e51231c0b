package record

import (
	"cmp"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/internal/keyhash"
	"github.com/509da70d/floodgate/gate/internal/merge"
	"github.com/509da70d/floodgate/schemas"
)

// DefaultMaxEntries is how many distinct entries a Recorder holds between two drains.
const DefaultMaxEntries = 16_384

// Options configure a Recorder. The zero value is ready to use.
type Options struct {
	// MaxEntries is how many distinct entries are held between two drains, at about 120 bytes each. There are at least two
	// stripes for each processor, and at least 64 entries for each stripe. 0 is DefaultMaxEntries.
	MaxEntries int
	// Responses makes Respond record responses. Without it Respond does nothing, and middlewares do not call it.
	Responses bool
	// Holds makes entries say when their requests arrived, and what servers expect them to cost, for rules that limit what runs.
	// It implies Responses. An entry takes 16 bytes more, here and in frames, and entries merge only if their requests arrived in
	// the same second. Each admitted request needs a response: without one, it holds a part of limits for minutes. Update the analyzers first: older ones cannot read such frames.
	Holds bool
}

// Request is a request when it arrives.
type Request struct {
	Resource string    // what it asks for, such as the route; cut after schemas.MaxResource bytes
	At       time.Time // when it arrived; zero is now
	Count    uint32    // how many requests this stands for; 0 is 1
	Declared int64     // what the server expects them to cost, together; 0 is unknown. See MaxDeclared. Only with Options.Holds
}

// MaxDeclared is the highest expected cost of a request. A higher one becomes MaxDeclared, a negative one 0: clients may choose it.
const MaxDeclared = 1 << 40

// Response is the end of a request.
type Response struct {
	Resource string    // as in the Request
	Status   int       // HTTP status or its like, 0 to 65535; others become 0
	Cost     int64     // in the unit that the rules limit; negative becomes 0
	At       time.Time // when the request ended; zero is now

	// Arrived and Declared are At and Declared of the Request: by them the analyzer finds the arrival that this response ends. Zero
	// is unknown. Only with Options.Holds.
	Arrived  time.Time
	Declared int64
}

// Recorder counts requests in fixed memory until a link sends them to Kafka. New makes one; the zero value is not usable.
// Record and Respond may be called from any goroutine. They never wait, even if the link is slow or missing. Only one
// goroutine may call Drain; any goroutine may call the other methods.
type Recorder struct {
	responses bool
	holds     bool
	hash      keyhash.Key // of resources
	stripes   []stripe
	full      atomic.Int32 // stripes that are full

	contended atomic.Uint64 // requests dropped with reason Contended
	asleep    atomic.Bool   // the goroutine that drains waits for wake
	wake      chan struct{}
	late      atomic.Pointer[func()] // of Abandon; nil while somebody drains

	spare *merge.Table // empty; only Drain uses it

	mu      sync.Mutex // protects the fields below; held while entries leave a stripe, so that Stats sees each entry once
	drained uint64     // requests, ever
	acked   uint64
	unknown uint64
	dropped [reasons]uint64 // after they were drained
}

// New returns an empty Recorder. It does no I/O and starts no goroutine.
func New(o Options) *Recorder {
	size := cmp.Or(max(o.MaxEntries, 0), DefaultMaxEntries)
	n := 1 << bits.Len(uint(2*runtime.GOMAXPROCS(0)-1))
	r := &Recorder{
		responses: o.Responses || o.Holds, holds: o.Holds,
		hash: keyhash.New(), stripes: make([]stripe, n), wake: make(chan struct{}, 1),
	}
	newTable := merge.New
	if o.Holds {
		newTable = merge.NewHolding
	}
	for i := range r.stripes {
		r.stripes[i].index = i
		r.stripes[i].table = newTable(max(size/n, minStripe))
	}
	r.spare = newTable(max(size/n, minStripe))
	return r
}

// minStripe is how many entries a stripe has at least.
const minStripe = 64

// Responses reports whether Respond does anything.
func (r *Recorder) Responses() bool { return r.responses }

// Holds reports whether entries say when requests arrived, and what they are expected to cost: see Options.Holds.
func (r *Recorder) Holds() bool { return r.holds }

// Record counts the arrival of a request. If the request was admitted, it counts for each of its callers. If it was refused,
// it counts as blocked for the callers whose own enforcing gate was closed (early, if Verdict.EarlyFor says so), and not at all
// for the others. So the blocked requests of one caller, such as an API key, never count against another one of the same
// request, such as its tenant.
func (r *Recorder) Record(c *gate.Callers, v gate.Verdict, q Request) { r.arrive(c, &v, &q) }

// arrive is Record without copies.
func (r *Recorder) arrive(c *gate.Callers, v *gate.Verdict, q *Request) {
	e := schemas.Entry{Time: unixNano(q.At), Resource: cut(q.Resource), Count: max(q.Count, 1)}
	if r.holds && !v.Closed { // what is refused costs nothing
		e.Declared, e.Arrived = declared(q.Declared), int64(e.Count)*schemas.Tick(e.Time)
	}
	salt := r.salt(&e)
	s := r.begin()
	for i := range c.Len() {
		if e.Blocked = v.Closed && v.ClosedFor(i); v.Closed && !e.Blocked {
			continue
		}
		e.Early = v.EarlyFor(i)
		var hash uint64
		var addr bool
		e.Kind, e.ID, hash, addr = c.Key(i)
		s = r.add(s, combine(hash, salt, e.Blocked, e.Early), &e, addr)
	}
	r.end(s)
}

// Respond counts the end of a request for each of its callers, if Options.Responses is set.
func (r *Recorder) Respond(c *gate.Callers, p Response) {
	if !r.responses {
		return
	}
	e := schemas.Entry{
		Time: unixNano(p.At), Resource: cut(p.Resource), Cost: max(p.Cost, 0), Count: 1, Response: true,
	}
	if 0 < p.Status && p.Status <= math.MaxUint16 {
		e.Status = uint16(p.Status)
	}
	if r.holds {
		e.Declared = declared(p.Declared)
		if !p.Arrived.IsZero() {
			e.Arrived = schemas.Tick(unixNano(p.Arrived))
		}
	}
	salt := r.salt(&e)
	s := r.begin()
	for i := range c.Len() {
		var hash uint64
		var addr bool
		e.Kind, e.ID, hash, addr = c.Key(i)
		s = r.add(s, combine(hash, salt, false, false), &e, addr)
	}
	r.end(s)
}

// salt returns a hash of what the entries of one request have in common.
func (r *Recorder) salt(e *schemas.Entry) uint64 {
	h := uint64(merge.Tick(e.Time))<<17 | uint64(e.Status)<<1
	if e.Response {
		h |= 1
	}
	h = bits.RotateLeft64(h*odd, 32)
	if r.holds {
		h ^= holdSalt(e)
	}
	return h ^ r.hash.Sum(e.Resource)
}

// holdSalt is the part of the salt by which entries stay apart that a table does not merge: the second of the arrival, and whether a
// cost was declared.
func holdSalt(e *schemas.Entry) uint64 {
	h := uint64(merge.ArrivedIn(e.Arrived, e.Count)) << 1
	if e.Declared != 0 {
		h |= 1
	}
	return bits.RotateLeft64(h*odd, 17)
}

// declared returns an expected cost within its bounds.
func declared(cost int64) int64 { return min(max(cost, 0), MaxDeclared) }

// combine returns the hash of an entry: of its caller, the salt of its request, and whether it was blocked, and blocked early.
func combine(caller, salt uint64, blocked, early bool) uint64 {
	h := caller ^ bits.RotateLeft64(salt, 17)
	if blocked {
		h = ^h
		if early {
			h ^= odd
		}
	}
	h *= odd
	return h ^ h>>32
}

// odd is 2^64 divided by the golden ratio.
const odd = 0x9e3779b97f4a7c15

// unixNano returns t, or now if t is zero, in Unix nanoseconds. A time out of their range becomes the nearest one in it, and
// a time before 1970 becomes 1970.
func unixNano(t time.Time) int64 {
	switch s := t.Unix(); {
	case 0 <= s && s < math.MaxInt64/int64(time.Second):
		return s*int64(time.Second) + int64(t.Nanosecond())
	case t.IsZero():
		return time.Now().UnixNano()
	case s < 0:
		return 0
	}
	return math.MaxInt64
}

// cut shortens a resource to schemas.MaxResource bytes.
func cut(s string) string { return s[:min(len(s), schemas.MaxResource)] }

// Drain takes all entries recorded so far out of the Recorder, and calls visit with each. Equal entries of different stripes
// come one by one, with the same hash. An entry and its strings are valid until visit returns. Drain returns the number of
// requests taken. For each of them the link must later call one of Acked, Dropped and Unknown. Recording goes on meanwhile.
// Only one goroutine may call Drain.
func (r *Recorder) Drain(visit func(hash uint64, e *schemas.Entry)) (requests uint64) {
	for i := range r.stripes {
		n := r.take(&r.stripes[i])
		if n == 0 {
			continue
		}
		requests += n
		r.spare.Each(visit)
		r.spare.Reset()
	}
	return requests
}

// take swaps the stripe's table with the spare one, and returns how many requests it held.
func (r *Recorder) take(s *stripe) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.takeWaiting()
	defer s.release()
	n := s.table.Requests()
	if n == 0 {
		return 0
	}
	s.table, r.spare = r.spare, s.table
	r.drained += n
	if s.full.Load() {
		s.full.Store(false)
		r.full.Add(-1)
	}
	return n
}

// Wake returns a channel that receives a value when the Recorder has entries, or as soon as it gets one. The goroutine that
// drains waits on it. The channel may receive a value once too often.
func (r *Recorder) Wake() <-chan struct{} {
	r.late.Store(nil)
	r.sleep()
	return r.wake
}

// Abandon says that nobody drains any more, until the next call of Wake. If the Recorder has entries, or as soon as it gets one,
// late is called once, by the goroutine that recorded it or by Abandon.
func (r *Recorder) Abandon(late func()) {
	r.late.Store(&late)
	r.sleep()
}

// sleep makes the next request call wakeDrainer, and calls it at once if there are entries.
func (r *Recorder) sleep() {
	r.asleep.Store(true)
	for i := range r.stripes {
		if r.stripes[i].hasRequests() {
			r.wakeDrainer()
			break
		}
	}
}

func (s *stripe) hasRequests() bool {
	s.takeWaiting()
	defer s.release()
	return s.table.Requests() > 0
}

// wakeDrainer wakes the goroutine that drains, if it sleeps, or calls late if there is none. It does not wait.
func (r *Recorder) wakeDrainer() {
	if r.asleep.CompareAndSwap(true, false) {
		if late := r.late.Load(); late != nil {
			(*late)()
			return
		}
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}
