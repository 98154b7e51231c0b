package control

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// ErrOtherTopic says that a topic was made anew: it ends before the last record that was read, or has another record in its place. Test
// with errors.Is.
var ErrOtherTopic = errors.New("the topic was made anew")

// Tail identifies a topic by the last record that was read of it. The zero value is none.
type Tail struct {
	offset int64
	crc    uint32 // of its value; 0 if none was read
}

// TailOf returns the tail after a batch: its last record; the zero value if it has none.
func TailOf(b *kafkaio.Batch) (tail Tail) {
	if n := len(b.Records); n > 0 {
		tail.offset, tail.crc = b.Records[n-1].Offset, checksum(b.Records[n-1].Value)
	}
	return tail
}

// checksum returns the checksum of a record's value. It is never 0, because 0 stands for no record.
func checksum(value []byte) uint32 {
	return max(1, crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)))
}

// verifyBytes is how much is fetched to verify one record. Brokers return the whole batch that holds the record, however long it is.
const verifyBytes = 4 << 10

// Verify checks that a topic still has the record that tail names. It fetches that record again, which costs little, because only people
// write to the topic. A tail without a record passes, and so does one whose record the topic has deleted. While the brokers are away,
// Verify waits. The error is ErrOtherTopic, or that of ctx.
func Verify(ctx context.Context, log kafkaio.Fetcher, topic string, tail Tail) error {
	if tail.crc == 0 {
		return nil
	}
	cursor := kafkaio.NewCursor(log, kafkaio.CursorConfig{
		Topic: topic, Offset: tail.offset, MaxWait: -1, MaxBytes: verifyBytes, SameTopic: true, Retry: kafkaio.Always,
	})
	b, err := cursor.Next(ctx)
	switch {
	case errors.Is(err, kafkaio.ErrTruncated):
		return fmt.Errorf("%w: %w", ErrOtherTopic, err)
	case err != nil:
		return err
	}
	for i := range b.Records {
		if r := &b.Records[i]; r.Offset == tail.offset && checksum(r.Value) != tail.crc {
			return fmt.Errorf("%w: another record is at offset %d, the last that was read", ErrOtherTopic, r.Offset)
		}
	}
	return nil
}
