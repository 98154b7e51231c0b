package gate

import (
	"math/bits"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// share is the part of a schemas.Share that this gate has, as the arena holds it. No byte of it changes once its ref is
// published.
//
// A share gives this gate Permits × own ÷ Demand permits a period, where own is the caller's demand at this gate between
// DemandFrom and DemandUntil. The gate measures it in a cell, which it makes for the first decision of a rule that gives the
// caller a share. Before that it keeps nothing about a caller but its closures, so that a request of a closed caller costs no
// more than to read the clock. So an owner sends the first share of a caller ahead of time, and renews it before its From with a
// demand that gates have measured meanwhile. A gate that has not measured all of the time, because it started later or heard
// of the first share too late, keeps the permits of the share before if that had the same Permits and Period, and has one permit a period
// otherwise. A gate that has measured a demand of zero has one, too.
type share struct {
	terms       uint32 // ref of the rule's terms
	cell        uint32
	from        int64 // the first period begins here
	until       int64 // as decided; the closure's may be earlier
	period      int64 // length in nanoseconds
	permits     int64 // of all gates
	fingerprint uint64
	inverse     uint64 // of period
	first       uint32 // number of the first period, since 1970, modulo 2³²
	quota       quota
}

// quota is this gate's permits a period: whole ones, and a fraction in units of 2⁻³².
type quota struct{ whole, fraction uint32 }

const shareSize = int(unsafe.Sizeof(share{}))

// singlePermit is the permit of a gate that knows no demand.
func singlePermit(permits int64) quota { return quota{whole: uint32(min(1, permits))} }

// quotaOf returns permits × own ÷ demand, and all permits if own is more than demand: then entries of this gate were lost.
func quotaOf(permits, own, demand int64) quota {
	if own == 0 {
		return singlePermit(permits)
	}
	high, low := bits.Mul64(uint64(permits), uint64(min(own, demand)))
	whole, rest := bits.Div64(high, low, uint64(demand))
	if whole >= 1<<32 {
		return quota{whole: 1<<32 - 1}
	}
	high, low = rest>>32, rest<<32
	fraction, _ := bits.Div64(high, low, uint64(demand))
	return quota{whole: uint32(whole), fraction: uint32(fraction)}
}

// golden is 2³² divided by the golden ratio. Multiples of it, modulo 2³², are spread evenly however many there are.
const golden = 0x9e3779b9

// in returns the permits of one period, which are whole: the fraction gives one more in as many periods as it says.
func (q quota) in(period uint64) uint32 {
	more := (uint64(q.fraction) + uint64(uint32(period)*golden)) >> 32
	return min(q.whole, 1<<32-2) + uint32(more)
}

// validShare reports whether a decision has no share, or one within the bounds that schemas.Share says.
func validShare(s *schemas.Share) bool {
	return s == nil || 0 < s.Period && s.Period <= int64(schemas.MaxClosure) && s.Permits >= 0 && s.Demand > 0 &&
		bounded(s.From, s.Until) && bounded(s.DemandFrom, s.DemandUntil)
}

// bounded reports whether a time ends after it begins, and is not longer than a closure may be.
func bounded(from, until int64) bool {
	length := until - from
	return from < until && 0 < length && length <= int64(schemas.MaxClosure) // < 0 where it overflowed
}

// holds reports whether s is a share that has not ended at now.
func holds(s *schemas.Share, now int64) bool { return s != nil && now < s.Until }

// fingerprint is equal for equal shares, and nearly never for others.
func fingerprint(s *schemas.Share) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range [...]int64{s.From, s.Until, s.Period, s.Permits, s.DemandFrom, s.DemandUntil, s.Demand} {
		h = (h ^ uint64(v)) * 1099511628211
		h ^= h >> 29
	}
	return h
}

// share returns the share to which the field terms of a closure refers.
func (a *arena) share(ref uint32) *share {
	ref &^= termBits
	return (*share)(unsafe.Pointer(&a.chunks[ref/(chunkSize/granule)][ref%(chunkSize/granule)*granule])) // aligned to granule
}

// putShare appends a share, and returns its ref with shareBit.
func (a *arena) putShare(s share) uint32 {
	_, ref := a.alloc(shareSize)
	*a.share(ref) = s
	return ref | shareBit
}

// termsOf returns the terms of a closure.
func (a *arena) termsOf(c closure) terms {
	if c.share() {
		return a.terms(a.share(c.terms).terms)
	}
	return a.terms(c.terms)
}

// periodAt returns the number of the period that a time at or after from lies in, counted from the first, and when it begins.
func (s *share) periodAt(now int64) (number uint64, start int64) {
	n := quotient(now-s.from, s.period, s.inverse)
	return n, s.from + int64(n)*s.period
}

// inverse returns the inverse of a length, by which quotient divides. A length is > 0.
func inverse(length int64) uint64 {
	size := bits.Len64(uint64(length - 1))
	if size == 0 {
		return 1 << 63
	}
	q, rest := bits.Div64(1<<(size-1), 0, uint64(length))
	if rest > 0 {
		q++
	}
	return q
}

// quotient returns n / length, for n ≥ 0, without a division: those of 64 bits are slow on many processors. (Granlund and
// Montgomery, "Division by invariant integers using multiplication", 1994: with size = ⌈log₂ length⌉ and the inverse
// ⌈2^(63+size) / length⌉, the quotient of n < 2⁶³ is exact.)
func quotient(n, length int64, inverse uint64) uint64 {
	high, _ := bits.Mul64(uint64(n)<<1, inverse)
	return high >> (uint(bits.Len64(uint64(length-1))) & 63)
}
