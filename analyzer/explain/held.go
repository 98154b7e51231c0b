package explain

import (
	"fmt"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// used returns how much of a limit is counted, or held by requests in flight.
func used(r *fold.RuleLook) int64 {
	if !r.Closes {
		return r.Count.Total
	}
	return max(r.Count.Total, r.Capacity-r.Room.Left)
}

// ending says how long a counted closure lasts. That of requests in flight ends with one of them.
func ending(r *fold.RuleLook, now int64) string {
	if r.Rule.Measure == rules.InFlight {
		return fmt.Sprintf("until fewer than %d of its requests are in flight, at the latest %s", r.Capacity, lasting(r.Closure.Until, now))
	}
	return lasting(r.Closure.Until, now)
}

// heldText says why requests in flight close a caller.
func heldText(r *fold.RuleLook) string {
	return fmt.Sprintf("%d counted + %d expected of %s + %d margin, of %d %s%s",
		r.Count.Total, r.Room.Held, followed(r), r.Room.Margin, r.Capacity, unit(r.Rule), inWindow("this", r.Rule, r.Count.Start))
}

// inFlightText says what the requests in flight of an open caller hold. It is empty under a rule that holds nothing.
func inFlightText(r *fold.RuleLook) string {
	switch {
	case r.Lacks != "" && r.Room.InFlight == 0:
		return "; but " + r.Lacks
	case r.Room == (hold.Room{}):
		return ""
	case r.Room.InFlight == 0:
		return "; nothing is in flight"
	}
	text := fmt.Sprintf("; %d are expected of %s, with a margin of %d", r.Room.Held, followed(r), r.Room.Margin)
	if !r.Closes {
		text += "; that closes no caller while predictions are off"
	}
	return text
}

// leftText says what a limit has left beside requests in flight, if there are any.
func leftText(r *fold.RuleLook) string {
	if r.Room.InFlight == 0 || !r.Closes {
		return ""
	}
	return fmt.Sprintf(", and %d are left", max(0, r.Room.Left))
}

// followed says how many requests are in flight, and what is known of them.
func followed(r *fold.RuleLook) string {
	if r.Learned == 0 {
		return fmt.Sprintf("%d in flight (as the rule estimates, or as their server has declared)", r.Room.InFlight)
	}
	return fmt.Sprintf("%d in flight (%s on average; %d each, from %d responses)", r.Room.InFlight, span(r.Duration), r.Room.Mean, r.Learned)
}
