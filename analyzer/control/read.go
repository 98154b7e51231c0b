package control

import (
	"context"
	"log/slog"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Read returns the records that concern the partition, up to an offset or to the topic's end, whichever comes first. Known is false
// where the topic did not have all before that offset.
func Read(ctx context.Context, log kafkaio.Fetcher, t Topic, upTo int64, logger *slog.Logger) (records []Record, known bool, err error) {
	cursor := kafkaio.NewCursor(log, kafkaio.CursorConfig{Topic: t.name, MaxBytes: fetchBytes, SameTopic: true, Logger: logger})
	start, end, err := cursor.Range(ctx)
	if err != nil {
		return nil, false, err
	}
	cursor.MoveTo(start)
	var skipped Skipped
	err = cursor.Scan(ctx, min(upTo, end), func(b *kafkaio.Batch) error {
		out := t.read(b)
		records = append(records, out.Records...)
		skipped.Add(out.Skipped)
		return nil
	})
	return records, start == 0 && end >= upTo && skipped.Lost == 0, err
}
