package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/509da70d/floodgate/schemas/event"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// pastEvent is how long before its message an event has happened that nobody is told any more. An endpoint that is new begins with the events
// of so long ago, too.
const pastEvent = 10 * time.Minute

// presentEvents reads the topic of events without those of the past: of lines that were in a log long before serve has read them.
type presentEvents struct{ kafkaio.Fetcher }

// Fetch implements kafkaio.Fetcher.
func (p presentEvents) Fetch(ctx context.Context, r kafkaio.FetchRequest) (kafkaio.Batch, error) {
	b, err := p.Fetcher.Fetch(ctx, r)
	b.Records = slices.DeleteFunc(b.Records, func(record kafkaio.Record) bool {
		e, err := event.Decode(record.Value)
		return err == nil && e.Time.Add(pastEvent).UnixNano() < record.Time
	})
	return b, err
}
