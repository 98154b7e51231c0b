package analyzer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// operator decides by hand, at random, and writes it to the topic of control.
type operator struct {
	foldtest.Operator

	writer *ControlWriter
}

func newOperator(log kafkaio.Producer, rnd *rand.Rand, callers []schemas.Caller, rules ...string) *operator {
	return &operator{foldtest.Operator{Rnd: rnd, Callers: callers, Rules: rules}, NewControlWriter(log, "control", nil)}
}

// act writes what the operator decides now, and returns it with its offset.
func (o *operator) act(t *testing.T) (schemas.Control, int64) {
	t.Helper()
	c := o.Decide(time.Now().UnixNano())
	offset, err := o.writer.Append(t.Context(), &c)
	if err != nil {
		t.Fatalf("%s: %v", c.Action, err)
	}
	return c, offset
}
