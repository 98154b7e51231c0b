package document

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

var errDuration = errors.New("want a duration such as 90s, 1h30m, 7d or 2w")

// ParseDuration reads a duration as Go writes it (300ms, 1h30m), and also with the units d for 24 hours and w for 7 days.
// There is no sign, and each number needs a unit.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errDuration
	}
	var sum time.Duration
	for text != "" {
		number := len(text) - len(strings.TrimLeft(text, "0123456789"))
		if rest := text[number:]; number > 0 && strings.HasPrefix(rest, ".") {
			number = len(text) - len(strings.TrimLeft(rest[1:], "0123456789"))
		}
		unit := strings.IndexAny(text[number:], "0123456789.")
		if unit < 0 {
			unit = len(text) - number
		}
		if number == 0 || unit == 0 || text[number-1] == '.' {
			return 0, errDuration
		}
		part, err := scaled(text[:number], text[number:number+unit])
		if err != nil || part > math.MaxInt64-sum {
			return 0, errDuration
		}
		sum += part
		text = text[number+unit:]
	}
	return sum, nil
}

func scaled(number, unit string) (time.Duration, error) {
	scale := time.Duration(1)
	switch unit {
	case "d":
		scale, unit = 24, "h"
	case "w":
		scale, unit = 7*24, "h"
	}
	d, err := time.ParseDuration(number + unit)
	if err != nil || d > math.MaxInt64/scale {
		return 0, errDuration
	}
	return d * scale, nil //nolint:durationcheck // scale is a number
}

// FormatDuration writes a duration as a person would write it into a file: 1h, and not 1h0m0s.
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String() // such as 1h0m0s
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
