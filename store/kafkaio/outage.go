package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// outagePatience is for how long calls must have failed before Outage reports it: an election or the restart of a broker is no outage.
const outagePatience = 3 * time.Second

// Outage says that no broker answers.
type Outage struct {
	Since   time.Time // when the first call without an answer began
	Brokers []string  // of Config
	Err     error     // of the newest such call; it names the broker that was tried
}

// String says it for people.
func (o Outage) String() string {
	return fmt.Sprintf("no broker of %s has answered since %s: %v", strings.Join(o.Brokers, ","), o.Since.UTC().Format(time.RFC3339), o.Err)
}

// Outage reports whether no broker has answered any call of this Client or of its Groups for three seconds or more, although it was
// called. An answer that refuses something is an answer.
func (c *Client) Outage(now time.Time) (o Outage, away bool) {
	if o, away = c.outages.at(now); away {
		o.Brokers = c.config.Brokers
	}
	return o, away
}

// outages notes whether brokers answer. The zero value is ready to use, and its methods are safe for concurrent use.
type outages struct {
	mu     sync.Mutex
	outage Outage // guarded by mu: zero if the newest call that ended was answered
}

// note notes the end of a call.
func (o *outages) note(began time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case answered(err):
		o.outage = Outage{}
	case o.outage.Since.IsZero():
		o.outage.Since = began
		fallthrough
	default:
		o.outage.Err = err
	}
}

func (o *outages) at(now time.Time) (Outage, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outage, !o.outage.Since.IsZero() && now.Sub(o.outage.Since) >= outagePatience
}

// answered reports whether the result of a call shows that a broker has answered it.
func answered(err error) bool {
	if err == nil {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false // kafka-go wraps its own time-outs in errors that brokers have, too
	}
	if _, ok := errors.AsType[kafka.Error](err); ok {
		return true
	}
	for _, of := range []error{ErrOffsetOutOfRange, ErrNoTopic, ErrCorrupt, ErrTooLarge, ErrTimestamp, ErrUnauthorized} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}
