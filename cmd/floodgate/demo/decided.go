package demo

import (
	"context"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// decided holds the callers of the control records that people wrote by the demo's API. The audit expects other counts of them.
type decided struct {
	reset  map[string]bool // by id: their counts in the store have started again
	closed map[string]bool // by id: a person closed them or changed their limit, so they may be closed below the demo's limit
}

// readDecided reads the control records.
func readDecided(ctx context.Context, client *kafkaio.Client) (decided, error) {
	h := decided{make(map[string]bool), make(map[string]bool)}
	cursor := kafkaio.NewCursor(client, kafkaio.CursorConfig{Topic: schemas.DefaultTopicNames().Control, Offset: kafkaio.Earliest, MaxBytes: 4 << 20})
	_, end, err := cursor.Range(ctx)
	if err != nil {
		return h, err
	}
	return h, cursor.Scan(ctx, end, func(b *kafkaio.Batch) error {
		for _, r := range b.Records {
			c, err := pb.DecodeControl(r.Value)
			if err != nil || c.Caller.Kind != "key" {
				continue // the owners count what they cannot read
			}
			switch c.Action {
			case schemas.ControlReset:
				h.reset[c.Caller.ID] = true
			case schemas.ControlClose, schemas.ControlLimit:
				h.closed[c.Caller.ID] = true
			case schemas.ControlOpen, schemas.ControlMode, schemas.ControlUndo, schemas.ControlRules: // these close no caller, and lose no count
			}
		}
		return nil
	})
}
