package failpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Variable is the name of the environment variable that contains the plan.
const Variable = "FLOODGATE_FAILPOINT"

// Plan says where to crash. The zero value crashes nowhere.
type Plan struct {
	Point Point
	Nth   int // at the Nth time; 1 is the first
}

// String returns the plan as parsePlan reads it.
func (p Plan) String() string {
	if p == (Plan{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.Point, p.Nth)
}

// errPlan says that a plan cannot be parsed.
var errPlan = errors.New("want NAME or NAME:N")

// parsePlan parses a plan: the name of a point, and at which passage to crash (1 by default). An empty text is the zero
// Plan.
func parsePlan(text string) (Plan, error) {
	if text == "" {
		return Plan{}, nil
	}
	name, times, counted := strings.Cut(text, ":")
	nth := 1
	if counted {
		var err error
		if nth, err = strconv.Atoi(times); err != nil || nth < 1 {
			return Plan{}, fmt.Errorf("failpoint: got %q times: %w", times, errPlan)
		}
	}
	for _, p := range All() {
		if p.String() == name {
			return Plan{p, nth}, nil
		}
	}
	return Plan{}, fmt.Errorf("failpoint: got %q, which is no point: %w", name, errPlan)
}

// Reached returns the line that a program prints before it kills itself.
func (p Plan) Reached() string { return "failpoint reached: " + p.String() }
