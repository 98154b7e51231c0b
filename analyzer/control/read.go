package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Mark names the last place that counts have applied. The zero value is none.
type Mark struct {
	Placed int64  // the offset of the control topic behind the place
	Epoch  uint64 // of the place
}

// Read returns the order of what follows the place that a mark names, up to the end of the topic. found is false if the topic does not hold
// that place, because it was made anew or has lost its end. The order is then that of the whole topic, as for the zero mark. While the
// topic is away, retry decides whether Read tries again.
func Read(ctx context.Context, log kafkaio.Fetcher, t Topic, at Mark, retry kafkaio.Retry) (o *Order, skipped Skipped, found bool, err error) {
	cursor := kafkaio.NewCursor(log, kafkaio.CursorConfig{Topic: t.name, MaxBytes: fetchBytes, Retry: retry})
	_, end, err := cursor.Range(ctx)
	if err != nil {
		return nil, skipped, false, err
	}
	o = NewOrder(nil)
	if at.Placed > 0 && at.Placed <= end {
		after, err := recordAt(ctx, log, t.name, at.Placed-1, retry)
		if err != nil {
			return nil, skipped, false, err
		}
		if c := &after.Control; c.Action == schemas.ControlPlace && c.Epoch == at.Epoch && t.Concerns(c) {
			o, found = NewOrder(&after), true
		}
	}
	cursor.MoveTo(o.Next())
	err = cursor.Scan(ctx, end, func(b *kafkaio.Batch) error {
		out := t.read(b)
		for i := range out.Records {
			o.Add(&out.Records[i])
		}
		o.ReadTo(b.Next)
		skipped.Add(out.Skipped)
		return nil
	})
	return o, skipped, found, err
}

// recordBytes is how much is fetched to read one record. Brokers return the whole batch that holds the record, however long it is.
const recordBytes = 4 << 10

// recordAt returns the record at an offset of the topic; the zero value if none can be read there.
func recordAt(ctx context.Context, log kafkaio.Fetcher, topic string, offset int64, retry kafkaio.Retry) (found Record, err error) {
	cursor := kafkaio.NewCursor(log, kafkaio.CursorConfig{
		Topic: topic, Offset: offset, MaxWait: -1, MaxBytes: recordBytes, Retry: retry,
	})
	b, err := cursor.Next(ctx)
	if errors.Is(err, kafkaio.ErrTruncated) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	Decode(&b, func(r *Record) {
		if r.Offset == offset {
			found = *r
		}
	})
	return found, nil
}

// ErrNoRules says that the topic does not have the text of rules, or that the text at the offset is not that of these rules. Test with
// errors.Is.
var ErrNoRules = errors.New("the text of the rules is not in the control topic")

// Rules returns the rules of an id, which are noted at an offset of the topic.
func Rules(ctx context.Context, log kafkaio.Fetcher, t Topic, id uint64, offset int64, retry kafkaio.Retry) (*rules.Set, error) {
	r, err := recordAt(ctx, log, t.name, offset, retry)
	if err != nil {
		return nil, err
	}
	set, err := rules.Parse("the control topic", r.Control.Text)
	if err != nil || set.ID() != id || r.Control.Action != schemas.ControlRules {
		return nil, fmt.Errorf("%w: rules %016x at offset %d", ErrNoRules, id, offset)
	}
	return set, nil
}
