package fold

import (
	"math"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
)

// never is the log time of what has not happened.
const never = math.MinInt64

// row is what is kept of one rule and caller: 128 bytes, two lines of cache.
type row struct {
	since   int64 // log time up to which its count may lack weight (see loss.go); never if it is exact
	id      string
	home    uint32 // the lower half of its hash; see rowHash
	rule    int16  // index into the fold's rules; -1 while the row is free
	dirty   bool   // on the list of the next checkpoint, also while the row is free
	flags   rowFlags
	words   [4]int64 // where most states live
	state   window.State
	closure policy.Closure
	stored  uint64 // rows.Sum of the row as last committed; 0 if it never was
}

// rowFlags says what is kept of a row elsewhere, and two things more.
type rowFlags uint8

const (
	hasEarly       rowFlags = 1 << iota // early weight: see sideTables
	tracked                             // perhaps a tracker of package predict
	closedByDemand                      // early weight made its latest close
	hasRecords                          // there are control records about its caller
	hasSteps                            // closes before its closure: see sideTables
	hasEnd                              // it is in table.ends: its closure is not reported as ended yet
)

// flag sets or clears flags.
func (r *row) flag(b rowFlags, is bool) {
	if r.flags &^= b; is {
		r.flags |= b
	}
}

// set makes the state a copy of s. States of four integers need no further memory.
func (r *row) set(s window.State) { r.state = append(window.State(r.words[:0]), s...) }
