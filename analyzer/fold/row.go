package fold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
)

// never is the log time of something that has not happened.
const never = math.MinInt64

// row is the state of one rule and caller: 128 bytes, two cache lines.
type row struct {
	since   int64 // log time up to which its count may lack weight (see loss.go); never if it is exact
	id      string
	home    uint32 // the lower half of its hash; see rowHash
	rule    int16  // index into the fold's rules; -1 while the row is free
	dirty   bool   // on the list of the next checkpoint, also while the row is free
	flags   rowFlags
	words   [4]int64 // the memory of state, if that has at most four integers
	state   window.State
	closure policy.Closure
	stored  uint64 // rows.Sum of the row as last committed; 0 if it never was
}

// rowFlags says which other tables hold something of a row, and whether closedByDemand and hasRecords are true.
type rowFlags uint8

const (
	hasEarly       rowFlags = 1 << iota // early weight: see sideTables
	tracked                             // a tracker of package predict, which may have been freed since
	closedByDemand                      // early weight made its latest close
	hasRecords                          // there are control records about its caller
	hasSteps                            // earlier closes in a row: see sideTables
	hasHold                             // requests in flight: see sideTables
	closeGoesOn                         // requests in flight went below the limit, and not below half of it: see policy.StepInFlight
	hasEnd                              // an item of table.ends: the end of its closure is not reported yet
)

// flag sets or clears flags.
func (r *row) flag(b rowFlags, is bool) {
	if r.flags &^= b; is {
		r.flags |= b
	}
}

// set makes the state a copy of s. States of up to four integers need no further memory.
func (r *row) set(s window.State) { r.state = append(window.State(r.words[:0]), s...) }
