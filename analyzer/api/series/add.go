package series

import (
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// ErrSeries says that an answer is not a series as this package makes it. Test with errors.Is.
var ErrSeries = errors.New("not a series")

// Add adds the samples of another analyzer to v, by their times. What v has no place for is left out: clocks differ a little. If other
// is not as Newest makes it, the error is ErrSeries and v is as it was.
func Add(v, other *apiv1.Series) error {
	if err := check(other); err != nil {
		return err
	}
	shift := int(other.From.Sub(v.From) / step)
	for j := range other.Covered {
		i := j + shift
		if i < 0 || i >= len(v.Covered) {
			continue
		}
		v.Covered[i] += other.Covered[j]
		v.Requests[i] += other.Requests[j]
		v.Blocked[i] += other.Blocked[j]
		v.WouldBlock[i] += other.WouldBlock[j]
		v.Closes[i] += other.Closes[j]
		v.LagNS[i] = max(v.LagNS[i], other.LagNS[j])
		if sum := v.Ended[i] + other.Ended[j]; sum > 0 {
			v.Overshoot[i] = rounded((v.Overshoot[i]*float64(v.Ended[i]) + other.Overshoot[j]*float64(other.Ended[j])) / float64(sum))
			v.Ended[i] = sum
		}
	}
	return nil
}

// largest is the largest number that a column may have: sums of it over analyzers fit in 64 bits.
const largest = 1 << 50

// check reports whether a series is as Newest makes it.
func check(v *apiv1.Series) error {
	n := len(v.Covered)
	if n == 0 || n > Samples || v.StepNS != int64(step) || !v.From.Equal(v.From.Truncate(step)) || v.From.Year() < 1 || v.From.Year() > 9999 {
		return fmt.Errorf("%w: got %d samples of %v from %v, want 1 to %d of %v from a whole second",
			ErrSeries, n, time.Duration(v.StepNS), v.From, Samples, step)
	}
	for _, column := range [][]int64{v.Requests, v.Blocked, v.WouldBlock, v.Closes, v.LagNS, v.Ended} {
		if len(column) != n {
			return fmt.Errorf("%w: got columns of %d and %d samples, want equal ones", ErrSeries, n, len(column))
		}
		for _, x := range column {
			if x < 0 || x > largest {
				return fmt.Errorf("%w: got %d, want 0 to 2^50", ErrSeries, x)
			}
		}
	}
	if len(v.Overshoot) != n {
		return fmt.Errorf("%w: got columns of %d and %d samples, want equal ones", ErrSeries, n, len(v.Overshoot))
	}
	for i, x := range v.Overshoot {
		if !(x >= 0 && x <= largest) || v.Covered[i] < 0 || v.Covered[i] > largest {
			return fmt.Errorf("%w: got an overshoot of %v of %d partitions, want 0 to 2^50", ErrSeries, x, v.Covered[i])
		}
	}
	return nil
}
