package gate

import (
	"math"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// jitterFrom is the length from which on a closure reopens late. The delay of a shorter one costs the caller more of its limit
// than is gained: few callers reopen at the same moment.
const jitterFrom = 10 * time.Second

// Spans returns when gates are closed by a decision, with jitter: its first closure and the next one. A span that is reversed or empty
// closes nobody. It is for programs that close callers elsewhere, at the same times as gates with DefaultMaxJitter.
func Spans(d *schemas.Decision) [2]schemas.Span { return decidedSpans(d, DefaultMaxJitter) }

// decidedSpans returns when a gate is closed by a decision. The first closure gets no jitter if a next one is known. The next one
// was predicted for a caller that continues when the first one ends, and could be over before a gate that opens late.
func decidedSpans(d *schemas.Decision, maxJitter time.Duration) [2]schemas.Span {
	spans := [...]schemas.Span{{CloseAt: d.CloseAt, Until: d.Until, Early: d.Early}, d.Next}
	first := maxJitter
	if d.Next != (schemas.Span{}) {
		first = 0
	}
	spans[0].Until = reopens(d.Caller, spans[0], first)
	spans[1].Until = reopens(d.Caller, spans[1], maxJitter)
	return spans
}

// reopens returns when a caller's gate reopens after a closure, in Unix nanoseconds: at its Until, clamped, plus the jitter. An early
// closure has no jitter, because the caller has not been counted to be over its limit. Pass 0 as maxJitter if a next closure follows.
func reopens(caller schemas.Caller, s schemas.Span, maxJitter time.Duration) int64 {
	if s.Until <= s.CloseAt {
		return s.Until
	}
	length := s.Until - s.CloseAt
	if length < 0 || length > int64(schemas.MaxClosure) { // < 0 where it overflowed
		length = int64(schemas.MaxClosure)
	}
	if length >= int64(jitterFrom) && !s.Early {
		length += int64(float64(min(length/10, int64(maxJitter))) * spread(caller))
	}
	if s.CloseAt > math.MaxInt64-length {
		return math.MaxInt64
	}
	return s.CloseAt + length
}

// spread maps a caller to a number in [0, 1), the same in every process. It is FNV-1a with the finalizer of MurmurHash3,
// because FNV alone mixes short ids badly. A client that chooses its id can at most avoid the delay.
func spread(c schemas.Caller) float64 {
	h := uint64(14695981039346656037)
	for _, part := range [...]string{c.Kind, ":", c.ID} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * 1099511628211
		}
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return float64(h>>11) / (1 << 53)
}
