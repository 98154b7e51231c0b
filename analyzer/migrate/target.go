package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// checkTarget returns an ErrNotFresh if the topics do not have the right numbers of partitions, or hold what this migration has not written.
// It writes nothing.
func (m *migration) checkTarget(ctx context.Context) error {
	t := &m.Topics
	written := []string{t.Decisions, t.State}
	if t.Events != "" {
		written = append(written, t.Events)
	}
	for _, topic := range append(written, t.Requests) {
		if err := m.checkPartitions(ctx, topic, m.partitions); err != nil {
			return err
		}
	}
	if err := m.checkPartitions(ctx, t.Control, 1); err != nil {
		return err
	}
	if _, ours, some, err := m.look(ctx, t.Control, 0, m.isNote); err != nil || some && !ours {
		return refuse(err, t.Control, 0)
	}
	for p := range m.partitions {
		_, ours, some, err := m.look(ctx, t.Requests, p, m.isMark)
		switch {
		case err != nil || some && !ours:
			return refuse(err, t.Requests, p)
		case ours:
			continue // then the other topics have what this migration has written
		case store.Exists(m.targetDir(p)):
			return fmt.Errorf("%w: %s/%d was made anew since the migration began: make all topics anew, and delete %s", ErrNotFresh, t.Requests, p, m.Dir)
		}
		for _, topic := range written {
			if _, _, some, err := m.look(ctx, topic, p, m.isMark); err != nil || some {
				return refuse(err, topic, p)
			}
		}
	}
	return nil
}

// refuse returns err, or else an ErrNotFresh about a partition that holds records.
func refuse(err error, topic string, partition int) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: got records in %s/%d, want none; nothing was written", ErrNotFresh, topic, partition)
}

// checkPartitions compares how many partitions a topic has.
func (m *migration) checkPartitions(ctx context.Context, topic string, want int) error {
	for {
		got, err := m.Target.Partitions(ctx, topic)
		switch {
		case err == nil && got == want:
			return nil
		case err == nil:
			return fmt.Errorf("%w: got %d partitions of %s, want %d; nothing was written", ErrNotFresh, got, topic, want)
		case !kafkaio.Temporary(err):
			return err
		}
		m.Logger.Warn("cannot ask for the partitions of a topic, trying again", "topic", topic, "error", err)
		if err := kafkaio.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// look reports whether a partition of the target holds some records, and whether it begins with such as is says. last is the last of those:
// there are copies if an answer was lost.
func (m *migration) look(ctx context.Context, topic string, partition int, is func(*kafkaio.Record) bool) (last kafkaio.Record, ours, some bool, err error) {
	cursor := m.cursor(topic, partition)
	start, end, err := cursor.Range(ctx)
	if err != nil || start == end {
		return last, false, false, err
	}
	last, ours, err = cursor.Leading(ctx, is)
	return last, ours, true, err
}

// cursor returns a cursor on a partition of the target.
func (m *migration) cursor(topic string, partition int) *kafkaio.Cursor {
	return kafkaio.NewCursor(m.Target, kafkaio.CursorConfig{
		Topic: topic, Partition: partition, Offset: kafkaio.Earliest, MaxBytes: 1 << 20, Logger: m.Logger,
	})
}

// append appends to a partition of the target.
func (m *migration) append(ctx context.Context, topic string, partition int, messages ...kafkaio.Message) error {
	_, err := kafkaio.NewAppender(m.Target, kafkaio.AppenderConfig{Topic: topic, Partition: partition, Logger: m.Logger}).Append(ctx, messages...)
	return err
}

// isMark reports whether a record of requests says that this migration has brought the counts.
func (m *migration) isMark(r *kafkaio.Record) bool {
	var f schemas.Frame
	_, migrated := schemas.Migrated(r.Value)
	return migrated && m.note.ID != "" && f.Decode(r.Value) == nil && f.Producer == schemas.ProducerID(m.note.id)
}

// isNote reports whether a record of the control topic is the note of the rules that this migration has written.
func (m *migration) isNote(r *kafkaio.Record) (is bool) {
	control.Decode(&kafkaio.Batch{Records: []kafkaio.Record{*r}}, func(c *control.Record) {
		is = m.note.ID != "" && c.Control.Action == schemas.ControlRules && c.Control.ID == m.note.id
	})
	return is
}

// markTopics writes the first record of the control topic and of each partition of requests, unless they are there.
func (m *migration) markTopics(ctx context.Context) error {
	note, err := m.newNote(time.Now().UnixNano())
	if err != nil {
		return err
	}
	if _, err := m.mark(ctx, m.Topics.Control, 0, note, m.isNote); err != nil {
		return err
	}
	for p := range m.partitions {
		frame, err := m.newMark(p, time.Now().UnixNano())
		if err != nil {
			return err
		}
		last, err := m.mark(ctx, m.Topics.Requests, p, frame, m.isMark)
		if err != nil {
			return err
		}
		m.note.Sources[p].Base, m.note.Sources[p].tail = last.Offset+1, last.Tail()
	}
	return nil
}

// mark appends a message to an empty partition. The partition must then begin with it, as is says. mark returns its last copy.
func (m *migration) mark(ctx context.Context, topic string, partition int, message kafkaio.Message, is func(*kafkaio.Record) bool) (last kafkaio.Record, err error) {
	last, ours, some, err := m.look(ctx, topic, partition, is)
	if err == nil && !some {
		if err = m.append(ctx, topic, partition, message); err == nil {
			last, ours, _, err = m.look(ctx, topic, partition, is)
		}
	}
	if err == nil && !ours {
		err = fmt.Errorf("%w: somebody else has written to %s/%d: make all topics anew, and delete %s", ErrNotFresh, topic, partition, m.Dir)
	}
	return last, err
}

// newMark returns the message that begins a partition of requests.
func (m *migration) newMark(p int, now int64) (kafkaio.Message, error) {
	key := m.Owner.Fold.Key
	if key == (schemas.PartitionKey{}) {
		key = schemas.DefaultPartitionKey()
	}
	f := schemas.Frame{
		Producer: schemas.ProducerID(m.note.id), Seq: 1, Flushed: m.note.Sources[p].LogTime,
		Partitions: uint32(m.partitions), Fingerprint: key.Fingerprint(), // a number of partitions
	}
	value, err := f.AppendTo(nil)
	return kafkaio.Message{Time: now, Value: value}, err
}
