package migrate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/pb"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// newNote returns the message that begins the control topic: the rules that count.
func (m *migration) newNote(now int64) (kafkaio.Message, error) {
	set := m.Owner.Rules
	c := schemas.Control{
		ID: m.note.id, Time: now, Author: cmp.Or(m.Owner.Name, "a migration"), Reason: "migrated: the rules that count",
		Action: schemas.ControlRules, RulesID: set.ID(), Text: set.Text(),
	}
	if len(c.Text) > schemas.MaxControlText {
		c.Text = nil // then only those who have the file know the rules
	}
	return encoded(&c)
}

// encoded returns the message of a control record.
func encoded(c *schemas.Control) (kafkaio.Message, error) {
	value, err := pb.AppendControl(nil, c)
	if err != nil {
		return kafkaio.Message{}, fmt.Errorf("encode control record %s: %w", c.ID, err)
	}
	out := kafkaio.Message{Time: c.Time, Value: value}
	if c.Caller.Kind != "" {
		out.Key = []byte(c.Caller.String())
	}
	return out, nil
}

// copyRecords writes copies of the control records that the source remembers to the control topic of the target, in their order, unless
// they are there. A record that was undone is followed by the one that undid it.
func (m *migration) copyRecords(ctx context.Context) error {
	records, err := m.records(ctx)
	if err != nil {
		return err
	}
	for {
		if err := m.readCopies(ctx); err != nil {
			return err
		}
		var missing []kafkaio.Message
		for _, c := range records {
			if _, ok := m.copies[c.ID]; ok {
				continue
			}
			msg, err := encoded(c)
			if err != nil {
				return err
			}
			missing = append(missing, msg)
		}
		if len(missing) == 0 {
			return nil
		}
		for batch := range slices.Chunk(missing, maxCopies) {
			if err := m.append(ctx, m.Topics.Control, 0, batch...); err != nil {
				return err
			}
		}
	}
}

// maxCopies is how many control records are written at once: each has less than 4 KiB.
const maxCopies = 100

// records returns the control records of all partitions, each once, in the order of the control topic of the source.
func (m *migration) records(ctx context.Context) ([]*schemas.Control, error) {
	byID := make(map[schemas.ControlID]*override.Record)
	for p := range m.partitions {
		s := &m.note.Sources[p]
		s.Records = 0
		err := m.load(ctx, p, func(key, value []byte) error {
			if fold.KindOf(key) != fold.ControlRow {
				return nil
			}
			r, err := override.ReadRecord(key, value)
			s.Records++
			byID[r.ID] = &r
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	sorted := make([]*override.Record, 0, len(byID))
	for _, r := range byID {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b *override.Record) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), bytes.Compare(a.ID[:], b.ID[:]))
	})
	list := make([]*schemas.Control, 0, len(sorted))
	for _, r := range sorted {
		list = append(list, &r.Control)
		if r.UndoneBy != nil {
			list = append(list, r.UndoneBy)
		}
	}
	return list, nil
}

// readCopies reads which records the control topic of the target has, and where each stands first.
func (m *migration) readCopies(ctx context.Context) error {
	m.copies = make(map[schemas.ControlID]int64)
	cursor := m.cursor(m.Topics.Control, 0)
	start, end, err := cursor.Range(ctx)
	if err != nil {
		return err
	}
	cursor.MoveTo(start)
	return cursor.Scan(ctx, end, func(b *kafkaio.Batch) error {
		control.Decode(b, func(r *control.Record) {
			if _, known := m.copies[r.Control.ID]; !known {
				m.copies[r.Control.ID] = r.Offset
			}
		})
		return nil
	})
}

// moved returns the row of a control record with the offsets of the target.
func (m *migration) moved(p int, key, value []byte) ([]byte, []byte, error) {
	r, err := override.ReadRecord(key, value)
	if err != nil {
		return nil, nil, err
	}
	r.Offset, r.From = m.copies[r.ID], m.note.Sources[p].Base
	key, value = r.Encode()
	return key, value, nil
}
