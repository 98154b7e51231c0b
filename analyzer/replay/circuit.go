package replay

import (
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
)

// Circuit decides on requests and counts them where decisions take time: it is a server with its gates, the log, and an analyzer.
// The analyzer's side does not know gates, so a Circuit comes from outside. One goroutine uses it.
type Circuit interface {
	// Request first does everything that is due before the request. Then it does the request, and returns the answer of the
	// gates. The line is valid until Request returns. An error ends the run.
	Request(line *ingest.Line) (Answer, error)

	// Finish counts everything that was recorded, and returns the fold that has counted. It is called once, at the end.
	Finish() (*fold.Fold, error)
}

// Answer is the gates' answer about a request.
type Answer struct {
	Blocked  bool // an enforcing rule refused it
	Shadowed bool // a shadow rule would have
}

// Events are what a Circuit reports, in the order in which it happens, by the goroutine that uses it. What is reported is valid
// until the call returns.
type Events interface {
	Entry(e *schemas.Entry)                   // is recorded, and will be counted
	Changes(changes []fold.Change)            // follow from what was counted
	Published(item *outbox.Item)              // is sent to gates
	Applied(d *schemas.Decision, at int64)    // has come to the gates: it holds from then on
	Refused(caller *schemas.Caller, at int64) // a request, by early closures of this caller alone
}
