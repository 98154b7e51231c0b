package kafkaio

import (
	"context"
	"errors"
	"time"
)

// Ops of Call.
const (
	OpFetch   = "fetch"   // Fetch: it waits for records for up to FetchRequest.MaxWait
	OpProduce = "produce" // Produce
	OpRange   = "range"   // Range
	OpGroup   = "group"   // requests to the coordinator of a Group: a join waits for the other members
	OpOther   = "other"   // all other methods of Client
)

// Ops returns all ops.
func Ops() []string { return []string{OpFetch, OpProduce, OpRange, OpGroup, OpOther} }

// Call is a call of a method of a Client that has ended, with all its attempts, or a request of a Group.
type Call struct {
	Op   string // one of Ops
	Took time.Duration
	Err  error // nil if the call succeeded
}

// observe gives Config.Observe a call that began at a time and has ended with an error or nil. Calls that their caller or Close has
// ended say nothing of Kafka, and are left out.
func (c *Config) observe(op string, began time.Time, err error) {
	if c.Observe == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		return
	}
	c.Observe(Call{Op: op, Took: time.Since(began), Err: err})
}

// observe begins a call, and returns what is to be deferred: it notes the error that the method returns.
func (c *Client) observe(op string) func(err *error) {
	began := time.Now()
	return func(err *error) { c.config.observe(op, began, *err) }
}
