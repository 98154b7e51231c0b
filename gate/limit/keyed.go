package limit

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// Pattern is a limiter of this package of which NewKeyed makes many.
type Pattern interface{ pattern() (clock, algorithm) }

// Keyed is many limiters with the same settings, one for each key, in memory that is allocated once. However many keys come,
// no key is admitted more than the limit. NewKeyed makes a Keyed; the zero value is not usable. All methods may be called
// from any goroutine.
//
// # Memory
//
// Keys have their places in sets of seven. A new key in a full set takes over the place with the lowest usage, and its state
// with it: the new key inherits the charges of the old one. So keys at their limit keep their places longest. A key that
// lost its place finds, when it returns, a state no better than the one that it left. This is the algorithm Space-Saving
// (Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), with the
// state of a limiter in the place of its counter. It overestimates, and never underestimates. Therefore:
//
//   - No key is admitted more than the limit. This is exact with a bucket, and with a Fixed if times do not go backwards over
//     the end of a period. The states of a Ring or Sliding have no total order. A key of theirs that was displaced while it
//     had charges gets its next turn no earlier than it would have, but may then find more room than it left.
//   - A key with few charges is refused only while all seven places of its set have been charged up to their limits. That
//     takes seven times the limit, by however many keys.
//
// # Goroutines
//
// A key that has a place is charged as its limiter is, without a lock. A key without a place takes the lock of its set, by
// compare-and-swap, for some fifty nanoseconds. So only new keys of the same set wait for each other.
type Keyed struct {
	clock     clock
	algorithm algorithm
	seed      maphash.Seed
	sets      uint64
	stride    int // words of a set
	size      int // words of a state
	words     []atomic.Uint64

	displaced atomic.Uint64
}

// A set begins with a cache line: a lock and the hashes of the keys. After it come their states.
const (
	ways      = 7
	setLock   = 0
	setHashes = 1
	setStates = setHashes + ways
)

// NewKeyed returns limiters like the given one, and with its limits: a change of its limit changes the limit of every key.
// With buckets such a change takes some milliseconds per million keys. (The slots of a key do not grow with those of a Ring:
// the limit of a key is at most the slots that the Ring had when the Keyed was made.) keys is how many keys are expected to
// have charges at the same time. There are twice as many places, so that with that many keys 1 % come to a full set. With a
// bucket, that is 37 bytes a key. NewKeyed panics if keys is less than 1.
func NewKeyed(keys int, like Pattern) *Keyed {
	if keys < 1 {
		panic("limit: got " + strconv.Itoa(keys) + " keys, want at least 1")
	}
	c, a := like.pattern()
	k := &Keyed{clock: c, algorithm: a, seed: maphash.MakeSeed(), size: a.words()}
	k.sets = uint64(2*keys+ways-1) / ways
	k.stride = (setStates + ways*k.size + 7) &^ 7
	k.words = make([]atomic.Uint64, int(k.sets)*k.stride)
	if b, ok := a.(*bucket); ok {
		b.addKeyed(k)
	}
	return k
}

// Allow reports whether one event of a key may happen now, and counts it if so. It does not allocate.
func (k *Keyed) Allow(key string) bool { return k.Key(key).Allow() }

// AllowN reports whether n events of a key may happen at a time, and counts them if so: all or none.
func (k *Keyed) AllowN(at time.Time, key string, n int) bool { return k.Key(key).AllowN(at, n) }

// AllowHash reports whether one event of a caller may happen at a time, and counts it if so. A hash of 64 bits identifies the
// caller. It must be seeded: a caller that can choose its hash could share the place of another caller.
func (k *Keyed) AllowHash(at time.Time, hash uint64) bool {
	_, _, _, ok := k.take(max(hash, 1), k.clock.at(at), 1, 0)
	return ok
}

// KeyedStats is a snapshot of a Keyed.
type KeyedStats struct {
	Keys      int    // places that are taken, even if their keys were used long ago
	Places    int    // how many places there are
	Displaced uint64 // how often a key with charges lost its place; it is high if there are too few places
	Bytes     int
}

// Stats returns a snapshot. It reads every place: call it to report, not for each request.
func (k *Keyed) Stats() KeyedStats {
	s := KeyedStats{Places: int(k.sets) * ways, Displaced: k.displaced.Load(), Bytes: 8 * len(k.words)}
	for i := range int(k.sets) {
		for way := range ways {
			if k.words[i*k.stride+setHashes+way].Load() != 0 {
				s.Keys++
			}
		}
	}
	return s
}

// take charges the state of a key. If another key took over the place meanwhile, the charge may have gone to that key. Then
// take refunds it as far as possible, and looks the key up again.
func (k *Keyed) take(hash uint64, t, n, maxWait int64) (wait int64, r receipt, state []atomic.Uint64, ok bool) {
	i, _ := bits.Mul64(hash, k.sets)
	set := k.words[int(i)*k.stride:][:k.stride]
	for {
		way := find(set, hash)
		if way < 0 {
			way = k.addKey(set, hash, t)
		}
		state = k.state(set, way)
		wait, r, ok = k.algorithm.take(state, t, n, maxWait)
		if set[setHashes+way].Load() == hash {
			return wait, r, state, ok
		}
		if ok {
			k.algorithm.refund(state, r, n)
		}
	}
}

// states calls a function with every state.
func (k *Keyed) states(f func(s []atomic.Uint64)) {
	for i := range int(k.sets) {
		for way := range ways {
			f(k.state(k.words[i*k.stride:][:k.stride], way))
		}
	}
}

// find returns the place of a key, or -1.
func find(set []atomic.Uint64, hash uint64) int {
	hashes := set[setHashes:setStates]
	for way := range hashes {
		if hashes[way].Load() == hash {
			return way
		}
	}
	return -1
}

func (k *Keyed) state(set []atomic.Uint64, way int) []atomic.Uint64 {
	return set[setStates+way*k.size:][:k.size:k.size]
}

// addKey finds a place for a key that has none.
func (k *Keyed) addKey(set []atomic.Uint64, hash uint64, t int64) int {
	for !set[setLock].CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
	defer set[setLock].Store(0)
	if way := find(set, hash); way >= 0 {
		return way // another goroutine was first
	}
	way := find(set, 0)
	if way < 0 {
		way = k.displaceKey(set, t)
	}
	set[setHashes+way].Store(hash)
	return way
}

// displaceKey takes the place with the lowest usage from its key and returns the place. It takes the key out first. From then
// on no charge to the place counts, because take checks the key after its charge. So the usage at that time is the last one
// of the key, to be compared with the usages of the others, which only increase. If another place has a lower usage by then,
// displaceKey puts the key back and takes that place.
func (k *Keyed) displaceKey(set []atomic.Uint64, t int64) int {
	way, usage := k.leastUsed(set, t, -1)
	for range ways { // a bound: usages may change all the time
		owner := set[setHashes+way].Swap(0)
		other, leastUsage := k.leastUsed(set, t, way)
		if usage = k.algorithm.usage(k.state(set, way), t); usage <= leastUsage {
			break
		}
		set[setHashes+way].Store(owner)
		way, usage = other, leastUsage
	}
	if usage > 0 {
		k.displaced.Add(1)
	}
	return way
}

// leastUsed returns the place with the lowest usage among all but one.
func (k *Keyed) leastUsed(set []atomic.Uint64, t int64, except int) (way int, usage int64) {
	way, usage = -1, math.MaxInt64
	for w := range ways {
		if w == except {
			continue
		}
		if d := k.algorithm.usage(k.state(set, w), t); way < 0 || d < usage {
			way, usage = w, d
		}
	}
	return way, usage
}

// Key returns the limiter of a key. It is a value that may be kept. Key does not allocate.
func (k *Keyed) Key(key string) Key { return Key{keyed: k, hash: k.hash(key)} }

// hash returns the hash of a key. It is never 0: that stands for an empty place.
func (k *Keyed) hash(key string) uint64 { return max(maphash.String(k.seed, key), 1) }

// Key is the limiter of one key of a Keyed. It has the methods of the limiter that the Keyed was made of. It never becomes
// invalid: a key that has lost its place gets another when it is next used. Any goroutine may call its methods.
type Key struct {
	keyed *Keyed
	hash  uint64
}

// Allow reports whether one event may happen now, and counts it if so. It does not allocate.
func (k Key) Allow() bool {
	_, _, _, ok := k.keyed.take(k.hash, k.keyed.clock.now(), 1, 0)
	return ok
}

// AllowN reports whether n events may happen at a time, and counts them if so: all or none. It returns true if n is less
// than 1. It does not allocate.
func (k Key) AllowN(at time.Time, n int) bool {
	if n < 1 {
		return true
	}
	_, _, _, ok := k.keyed.take(k.hash, k.keyed.clock.at(at), int64(n), 0)
	return ok
}

// Reserve books the next turn if it is at most two years away.
func (k Key) Reserve() Reservation { return k.reserve(k.now(), 1, maxPeriod) }

// ReserveN books the next turn for n events, as of a time, if it comes within maxWait.
func (k Key) ReserveN(at time.Time, n int, maxWait time.Duration) Reservation {
	return k.reserve(k.keyed.clock.at(at), n, max(0, int64(maxWait)))
}

// RetryAfter returns how long after a time AllowN would admit n events if no others came: 0 if it would admit them at once,
// Never if it would never admit them. It counts and books nothing, but a key that has no place gets one.
func (k Key) RetryAfter(at time.Time, n int) time.Duration {
	if n < 1 {
		return 0
	}
	wait, _, _, _ := k.keyed.take(k.hash, k.keyed.clock.at(at), int64(n), -1)
	return time.Duration(wait)
}

// Wait blocks until one event may happen, in the order of the calls. See TokenBucket.WaitN, for example.
func (k Key) Wait(ctx context.Context) error { return wait(ctx, k, 1) }

// WaitN blocks until n events may happen.
func (k Key) WaitN(ctx context.Context, n int) error { return wait(ctx, k, n) }

func (k Key) now() int64 { return k.keyed.clock.now() }

func (k Key) reserve(t int64, n int, maxWait int64) Reservation {
	c := &k.keyed.clock
	if n < 1 {
		return freeReservation(c, t)
	}
	wait, r, state, ok := k.keyed.take(k.hash, t, int64(n), min(maxWait, maxPeriod))
	return newReservation(c, t, wait, ok, charge{k.keyed.algorithm, state, r, int64(n)})
}
