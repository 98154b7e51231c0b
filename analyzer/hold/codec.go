package hold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/509da70d/floodgate/schemas"
)

// ErrState says that a stored State cannot be read.
var ErrState = errors.New("bad state of requests in flight")

const (
	learnedNumbers = 8
	cohortNumbers  = 3
	maxCohorts     = 1 << 12
	maxSpan        = int64(schemas.MaxClosure)
)

// AppendTo appends the state as varints: the terms, the length of a cohort, how many are kept, what was learned, the number of the newest
// cohort, how many cohorts there are, and each of them.
func (s *State) AppendTo(dst []byte) []byte {
	l := &s.Learned
	for _, n := range [...]int64{
		int64(s.terms), s.span, int64(s.kept), l.Responses, l.slow, l.fast, l.expected, l.duration, l.distance, l.product, l.square, s.newest, int64(len(s.cohorts)),
	} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, p := range s.cohorts {
		dst = binary.AppendVarint(dst, p.requests)
		dst = binary.AppendVarint(dst, p.expected)
		dst = binary.AppendVarint(dst, p.arrived)
	}
	return dst
}

// Read reads what AppendTo has appended, and returns the numbers after it.
func Read(numbers []int64) (s *State, rest []int64, err error) {
	const head = learnedNumbers + 5
	if len(numbers) < head {
		return nil, nil, fmt.Errorf("%w: got %d numbers, want %d or more", ErrState, len(numbers), head)
	}
	span, kept, l, newest, n := numbers[1], numbers[2], numbers[3:], numbers[11], numbers[12]
	s = &State{
		Learned: Learned{l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7]}, terms: uint64(numbers[0]), span: span, kept: int(kept), newest: newest,
	}
	if span < 1 || span > maxSpan || kept < 1 || kept > maxCohorts || newest < -math.MaxInt64/span-1 || newest > math.MaxInt64/span ||
		n < 0 || n > kept || int64(len(numbers)-head) < n*cohortNumbers || !s.Learned.valid() {
		return nil, nil, fmt.Errorf("%w: got %d of %d cohorts of %d ns up to number %d, and what was learned: %+v", ErrState, n, kept, span, newest, s.Learned)
	}
	numbers = numbers[head:]
	for range n {
		s.cohorts = append(s.cohorts, cohort{numbers[0], numbers[1], numbers[2]})
		numbers = numbers[cohortNumbers:]
	}
	if n > 0 && s.cohorts[n-1] == (cohort{}) {
		return nil, nil, fmt.Errorf("%w: got an oldest cohort that holds nothing", ErrState)
	}
	return s, numbers, nil
}

// valid reports whether learn can have made it.
func (l *Learned) valid() bool {
	if l.Responses == 0 {
		return *l == Learned{}
	}
	for _, n := range [...]int64{l.slow, l.fast, l.expected, l.distance} {
		if n < 0 || n > MaxCost<<fractionBits {
			return false
		}
	}
	return 0 < l.Responses && l.Responses <= maxResponses && l.expected > 0 && 0 <= l.duration && l.duration <= maxTicks<<fractionBits &&
		-maxProduct <= l.product && l.product <= maxProduct && 0 <= l.square && l.square <= maxProduct
}
