package feed

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// seconds is a time or a length in nanoseconds. JSON has it as seconds, with up to nine digits behind the point.
type seconds int64

// digits is how many digits behind the point count.
const digits = 9

// append appends the number as JSON.
func (s seconds) append(b []byte) []byte {
	whole, rest := int64(s)/int64(time.Second), int64(s)%int64(time.Second)
	if s < 0 {
		b, whole, rest = append(b, '-'), -whole, -rest
	}
	b = strconv.AppendInt(b, whole, 10)
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for unit := int64(time.Second) / 10; rest > 0; unit /= 10 {
		b = append(b, byte('0'+rest/unit))
		rest %= unit
	}
	return b
}

// String returns the number.
func (s seconds) String() string { return string(s.append(nil)) }

// UnmarshalJSON implements json.Unmarshaler. It reads each number exactly that has at most nine digits behind the point, and no exponent.
func (s *seconds) UnmarshalJSON(text []byte) error {
	number, negative := strings.CutPrefix(string(text), "-")
	whole, rest, point := strings.Cut(number, ".")
	if n := len(rest); point && (n == 0 || n > digits) {
		return fmt.Errorf("got %.40s, want seconds with 1 to %d digits behind the point", text, digits)
	}
	n, err := strconv.ParseUint(whole+rest+strings.Repeat("0", digits-len(rest)), 10, 64)
	switch {
	case err != nil:
		return fmt.Errorf("got %.40s, want seconds without an exponent, which fit 64 bits as nanoseconds", text)
	case negative && n <= -math.MinInt64:
		*s = seconds(-n)
	case !negative && n <= math.MaxInt64:
		*s = seconds(n)
	default:
		return fmt.Errorf("got %.40s, want seconds that fit 64 bits as nanoseconds", text)
	}
	return nil
}
