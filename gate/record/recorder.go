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
	// MaxEntries is how many distinct entries are held between two drains, at about 120 bytes each; the least is 64 per
	// stripe, of which there are two for each processor. 0 is DefaultMaxEntries.
	MaxEntries int
	// Responses says that Respond is to be called at the end of each request. Without it Respond does nothing.
	Responses bool
}

// Request is what a server knows when a request arrives.
type Request struct {
	Resource string    // what is asked for, such as the route; longer than schemas.MaxResource is cut
	At       time.Time // when; zero is now
	Count    uint32    // how many requests this stands for; 0 is 1
}

// Response is what a server knows when a request has ended.
type Response struct {
	Resource string    // as in the Request
	Status   int       // HTTP status or its like, 0 to 65535; others become 0
	Cost     int64     // in whatever unit rules limit; negative becomes 0
	At       time.Time // when the request ended; zero is now
}

// Recorder counts requests in fixed memory until a link takes them to Kafka. New makes one; the zero value is not
// usable. Record and Respond may be called from any goroutine and never wait, whatever the link does, or if there is
// none. Drain is for one goroutine; all other methods are for any.
type Recorder struct {
	responses bool
	hash      keyhash.Key // of resources
	stripes   []stripe
	full      atomic.Int32 // stripes that are full

	contended atomic.Uint64 // dropped for that reason
	asleep    atomic.Bool   // the drainer waits for wake
	wake      chan struct{}

	spare *merge.Table // the drainer's: empty

	mu      sync.Mutex // protects what follows; held while entries change hands, so that Stats sees each once
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
		responses: o.Responses, hash: keyhash.New(), stripes: make([]stripe, n), wake: make(chan struct{}, 1),
	}
	for i := range r.stripes {
		r.stripes[i].index = i
		r.stripes[i].table = merge.New(max(size/n, minStripe))
	}
	r.spare = merge.New(max(size/n, minStripe))
	return r
}

// minStripe is the fewest entries of a stripe.
const minStripe = 64

// Responses reports whether Respond does anything.
func (r *Recorder) Responses() bool { return r.responses }

// Record counts the arrival of a request: as admitted for each of its callers, or, if it was blocked, as that for those
// whose own enforcing gate was closed, and for the others not at all. A child's blocked requests are then never charged
// to its parent.
func (r *Recorder) Record(c *gate.Callers, v gate.Verdict, q Request) { r.arrive(c, &v, &q) }

// arrive is Record without copies.
func (r *Recorder) arrive(c *gate.Callers, v *gate.Verdict, q *Request) {
	e := schemas.Entry{Time: unixNano(q.At), Resource: cut(q.Resource), Count: max(q.Count, 1)}
	salt := r.salt(&e)
	s := r.begin()
	for i := range c.Len() {
		if e.Blocked = v.Closed && v.ClosedFor(i); v.Closed && !e.Blocked {
			continue
		}
		var hash uint64
		var addr bool
		e.Kind, e.ID, hash, addr = c.Key(i)
		s = r.add(s, combine(hash, salt, e.Blocked), &e, addr)
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
	salt := r.salt(&e)
	s := r.begin()
	for i := range c.Len() {
		var hash uint64
		var addr bool
		e.Kind, e.ID, hash, addr = c.Key(i)
		s = r.add(s, combine(hash, salt, false), &e, addr)
	}
	r.end(s)
}

// salt hashes all that the entries of one request have in common.
func (r *Recorder) salt(e *schemas.Entry) uint64 {
	h := uint64(merge.Tick(e.Time))<<17 | uint64(e.Status)<<1
	if e.Response {
		h |= 1
	}
	return bits.RotateLeft64(h*odd, 32) ^ r.hash.Sum(e.Resource)
}

// combine returns the hash of an entry.
func combine(caller, salt uint64, blocked bool) uint64 {
	h := caller ^ bits.RotateLeft64(salt, 17)
	if blocked {
		h = ^h
	}
	h *= odd
	return h ^ h>>32
}

// odd is 2^64 divided by the golden ratio.
const odd = 0x9e3779b97f4a7c15

// unixNano returns t, or now if t is zero, in Unix nanoseconds; what they cannot say becomes the nearest that they can.
// Times before 1970 become 1970.
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

// cut shortens a resource to what an entry may have.
func cut(s string) string { return s[:min(len(s), schemas.MaxResource)] }
