package analyzer

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// ControlWriter writes to the topic of what people decide by hand. Any number of goroutines may use it.
type ControlWriter struct {
	log    kafkaio.Producer
	topic  string
	lease  func(now time.Time) bool // nil: the writer needs no lease
	retry  kafkaio.Retry            // nil is kafkaio.Temporary
	logger *slog.Logger
}

// NewControlWriter returns a writer to a topic. A nil logger discards. It does no I/O.
func NewControlWriter(log kafkaio.Producer, topic string, logger *slog.Logger) *ControlWriter {
	return &ControlWriter{log: log, topic: topic, logger: logger}
}

// Append appends a record, and returns its offset. Where it may help, it tries again until ctx ends. So the record may be in the topic more
// than once: owners apply the first copy, and offset is that of the last one. If the record itself is wrong, the error is pb.ErrBounds or
// pb.ErrMalformed. After other errors kafkaio.OutcomeOf says whether the record may be in the topic nevertheless.
func (w *ControlWriter) Append(ctx context.Context, c *schemas.Control) (offset int64, err error) {
	value, err := pb.AppendControl(nil, c)
	if err != nil {
		return -1, fmt.Errorf("encode control record: %w", err)
	}
	var key []byte // none for a record that is not about a caller
	if c.Caller.Kind != "" {
		key = []byte(c.Caller.Kind + ":" + c.Caller.ID)
	}
	appender := kafkaio.NewAppender(w.log, kafkaio.AppenderConfig{Topic: w.topic, Lease: w.lease, Retry: w.retry, Logger: w.logger})
	return appender.Append(ctx, kafkaio.Message{Time: c.Time, Key: key, Value: value})
}
