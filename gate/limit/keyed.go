package limit

import (
	"hash/maphash"
	"math"
	"math/bits"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// Pattern is a limiter of this package, to make Keyed of.
type Pattern interface{ pattern() (clock, algorithm) }

// Keyed is many limiters like one, by key, in memory that is allocated once: for as many keys as come, nobody is admitted
// more than the limit. NewKeyed makes one; the zero value is not usable. All methods may be called from any goroutine.
//
// # Memory
//
// Keys have their places in sets of seven. A key that comes to a full set takes over the place of the one that has least
// to lose, and its state with it: what the one was charged, the other has to bear. So it is those at their limit who keep
// their places longest, and whoever lost its place finds, when it returns, a state no better than the one it left. That
// is the algorithm Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
// Data Streams", 2005), which overestimates, never underestimates; with a limiter's state in the place of its counter. It
// follows that
//
//   - no key is admitted more than the limit. Exactly so with a bucket, and with a Fixed if times do not go backwards over
//     the end of a period. The states of a Ring or Sliding have no total order: there, a key that was displaced while it
//     was owed something comes back no earlier than it would have, but may then find more room than it left.
//   - a key that did little is refused only while all seven places of its set have been charged up to their limits, which
//     takes seven times the limit, by however many keys.
//
// # Goroutines
//
// A key that has its place is charged as its limiter is, without a lock. A key that has none takes the lock of its set,
// by compare-and-swap, for some fifty nanoseconds: only newcomers to the same set wait for each other.
type Keyed struct {
	clock  clock
	rule   algorithm
	seed   maphash.Seed
	sets   uint64
	stride int // words of a set
	size   int // words of a state
	words  []atomic.Uint64

	displaced atomic.Uint64
}

// A set begins with a line of the cache: a lock and the hashes of the keys. Behind it are their states.
const (
	ways      = 7
	setLock   = 0
	setHashes = 1
	setStates = setHashes + ways
)

// NewKeyed returns limiters like the given one. Their limits are its limits: changing them there changes them for every
// key, which with buckets takes some milliseconds per million. (Only the slots of a Ring do not grow with it: a key's limit
// is then as many as the Ring had slots when Keyed was made.) Keys is how many to expect that have been charged something
// of late, at a time. There are twice as many places, so that of so many keys 1 % come to a full set. With a bucket, that
// is 37 bytes a key. It panics if keys is less than 1.
func NewKeyed(keys int, like Pattern) *Keyed {
	if keys < 1 {
		panic("limit: room for " + strconv.Itoa(keys) + " keys")
	}
	c, rule := like.pattern()
	k := &Keyed{clock: c, rule: rule, seed: maphash.MakeSeed(), size: rule.words()}
	k.sets = uint64(2*keys+ways-1) / ways
	k.stride = (setStates + ways*k.size + 7) &^ 7
	k.words = make([]atomic.Uint64, int(k.sets)*k.stride)
	if b, ok := rule.(*bucket); ok {
		b.follow(k)
	}
	return k
}

// Allow reports whether one of a key may happen now, and counts it if so. It does not allocate.
func (k *Keyed) Allow(key string) bool { return k.Key(key).Allow() }

// AllowN reports whether n of a key may happen at a time, and counts them if so: all or none.
func (k *Keyed) AllowN(at time.Time, key string, n int) bool { return k.Key(key).AllowN(at, n) }

// AllowHash reports whether one of a caller may happen at a time, and counts it if so. The caller is known by a hash of 64
// bits, which must be seeded: callers who can choose theirs could share other callers' places.
func (k *Keyed) AllowHash(at time.Time, hash uint64) bool {
	_, _, _, ok := k.take(max(hash, 1), k.clock.at(at), 1, 0)
	return ok
}

// KeyedStats is what Keyed tells about itself.
type KeyedStats struct {
	Keys      int    // places that are taken, of however long ago
	Places    int    // how many there are
	Displaced uint64 // how often a key lost its place that was still owed something: high if there are too few
	Bytes     int
}

// Stats counts. It looks at every place: call it to report, not on the path of requests.
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

// take charges the state of a key. If the key's place was taken over meanwhile, it may be the successor that was charged:
// then that is given back as far as may be, and the key is looked up again.
func (k *Keyed) take(hash uint64, t, n, most int64) (wait int64, r receipt, state []atomic.Uint64, ok bool) {
	i, _ := bits.Mul64(hash, k.sets)
	set := k.words[int(i)*k.stride:][:k.stride]
	for {
		way := find(set, hash)
		if way < 0 {
			way = k.settle(set, hash, t)
		}
		state = k.state(set, way)
		wait, r, ok = k.rule.take(state, t, n, most)
		if set[setHashes+way].Load() == hash {
			return wait, r, state, ok
		}
		if ok {
			k.rule.give(state, r, n)
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

// settle finds a place for a key that has none.
func (k *Keyed) settle(set []atomic.Uint64, hash uint64, t int64) int {
	for !set[setLock].CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
	defer set[setLock].Store(0)
	if way := find(set, hash); way >= 0 {
		return way // another goroutine was first
	}
	way := find(set, 0)
	if way < 0 {
		way = k.displace(set, t)
	}
	set[setHashes+way].Store(hash)
	return way
}

// displace returns the place with least debt. While a place belongs to nobody, no charge to it counts, as take looks at the
// owner afterwards. So its debt at that time is the last that the owner had, to be compared with the others', which only
// increase. They may have done so since the place was chosen; then another is.
func (k *Keyed) displace(set []atomic.Uint64, t int64) int {
	way, debt := k.least(set, t, -1)
	for range ways { // and not for ever
		owner := set[setHashes+way].Swap(0)
		other, least := k.least(set, t, way)
		if debt = k.rule.debt(k.state(set, way), t); debt <= least {
			break
		}
		set[setHashes+way].Store(owner)
		way, debt = other, least
	}
	if debt > 0 {
		k.displaced.Add(1)
	}
	return way
}

// least returns the place with least debt, except for one.
func (k *Keyed) least(set []atomic.Uint64, t int64, except int) (way int, debt int64) {
	way, debt = -1, math.MaxInt64
	for w := range ways {
		if w == except {
			continue
		}
		if d := k.rule.debt(k.state(set, w), t); way < 0 || d < debt {
			way, debt = w, d
		}
	}
	return way, debt
}
