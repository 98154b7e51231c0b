package failpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Variable is what the environment calls the plan.
const Variable = "FLOODGATE_FAILPOINT"

// Plan says where to crash. The zero value is nowhere.
type Plan struct {
	Point Point
	Nth   int // at the Nth time; 1 is the first
}

// String returns the plan as ParsePlan reads it.
func (p Plan) String() string {
	if p == (Plan{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.Point, p.Nth)
}

// ErrPlan says that a plan can't be read.
var ErrPlan = errors.New("want NAME or NAME:N")

// ParsePlan reads a plan: a point's name, and the number of times that it is passed, one unless told otherwise. An empty
// text is the zero Plan.
func ParsePlan(text string) (Plan, error) {
	if text == "" {
		return Plan{}, nil
	}
	name, times, counted := strings.Cut(text, ":")
	nth := 1
	if counted {
		var err error
		if nth, err = strconv.Atoi(times); err != nil || nth < 1 {
			return Plan{}, fmt.Errorf("failpoint: got %q times: %w", times, ErrPlan)
		}
	}
	for _, p := range All() {
		if p.String() == name {
			return Plan{p, nth}, nil
		}
	}
	return Plan{}, fmt.Errorf("failpoint: got %q, which is no point: %w", name, ErrPlan)
}

// Reached is what a program prints that is about to kill itself.
func (p Plan) Reached() string { return "failpoint reached: " + p.String() }
