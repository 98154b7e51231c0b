package audit

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/snapshot"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// controls finds out which control records the analyzer has applied, and where.
func (a *audit) controls(ctx context.Context) error {
	if a.at.Control == 0 {
		return nil // none
	}
	c, o := &a.config, &a.config.Fold
	if c.Control == "" {
		a.lostControls = true
		return nil
	}
	topic := control.NewTopic(c.Control, o.Key, o.Partition, o.Partitions)
	records, whole, err := control.Read(ctx, a.log, topic, a.at.Control, c.Logger)
	if err != nil {
		return fmt.Errorf("read control records: %w", err)
	}
	if !whole {
		c.Logger.Warn("the topic of control does not hold all records that were applied", "topic", c.Control, "want", a.at.Control)
		a.lostControls = true
	}
	places, err := a.places(ctx)
	if err != nil {
		return err
	}
	a.schedule = control.NewSchedule(records, control.Known{Places: places, Limit: a.at.Control, Last: -1})
	return nil
}

// places returns where the store's owner has applied control records, as far as the topic of snapshots and the store say it.
func (a *audit) places(ctx context.Context) ([]schemas.ControlPlace, error) {
	var places []schemas.ControlPlace
	p := a.config.Fold.Partition
	if a.config.State != "" {
		reader := snapshot.NewReader(a.log, a.config.State, p, kafkaio.Temporary, a.config.Logger)
		start, end, err := reader.Range(ctx)
		if err != nil {
			a.config.Logger.Warn("cannot ask where control records were applied", "topic", a.config.State, "error", err)
			start, end = 0, 0
		}
		noted, err := reader.Places(ctx, start, end)
		if err != nil {
			return nil, fmt.Errorf("read where control records were applied: %w", err)
		}
		places = noted.List
	}
	last := a.at.Place
	places = slices.DeleteFunc(places, func(p schemas.ControlPlace) bool {
		return p.Next > a.at.Control || p.From > a.at.Next || p.First >= last.First || p.Next > last.First || p.From > last.From
	})
	if last.Next > last.First {
		places = append(places, last)
	}
	return places, nil
}

// changeBefore changes the rules and applies the control records that the analyzer did before the record at an offset.
func (a *audit) changeBefore(offset, time int64) {
	for a.schedule != nil {
		due, ok := a.schedule.Before(offset, time)
		if !ok {
			break
		}
		a.apply(&due)
	}
	a.rulesAt(offset)
}

// changeAtEnd is changeBefore for what comes after the last record.
func (a *audit) changeAtEnd() {
	for a.schedule != nil {
		due, ok := a.schedule.Rest(a.at.Next)
		if !ok {
			break
		}
		a.apply(&due)
	}
	a.rulesAt(a.at.Next)
}

func (a *audit) apply(due *control.Due) {
	a.rulesTo(due.Place.From, due.Place.First)
	for i := range due.Records {
		r := &due.Records[i]
		_ = a.fold.Control(&r.Control, due.Place.From, r.Offset) // one that is refused was refused by the owner too
	}
	a.fold.TakeChanges()
}

// misplaced reports whether control records were not applied where the analyzer did. Then no difference proves anything.
func (a *audit) misplaced() bool {
	return a.lostControls || a.schedule != nil && a.schedule.Guessed > 0
}

// differControl judges two rows of a control record that are not the same; one of them may be missing. When one was applied in log
// time is not known where the log begins later.
func (a *audit) differControl(report *Report, key string, stored, counted []byte) error {
	d := Difference{Rule: schemas.ManualRule, Why: WhyState}
	known := [2]override.Record{}
	for i, value := range [][]byte{stored, counted} {
		if len(value) == 0 {
			continue
		}
		var err error
		if known[i], err = override.ReadRecord([]byte(key), value); err != nil {
			return fmt.Errorf("control record: %w", err)
		}
		c := &known[i].Control
		d.Caller = fmt.Sprintf("%s %s", c.Action, c.ID)
		d.Start = c.Time
	}
	switch {
	case len(counted) == 0:
		d.Why = WhyExtra
	case len(stored) == 0:
		d.Why = WhyMissing
	case a.partial() && bytes.Equal(known[0].Control.ID[:], known[1].Control.ID[:]) && known[0].Undone() == known[1].Undone():
		report.Agreed++
		return nil
	}
	if a.misplaced() || a.partial() {
		if d.Why = WhyControl; !a.misplaced() {
			d.Why = WhyRetention
		}
		report.Unaudited = append(report.Unaudited, d)
		return nil
	}
	report.Differences = append(report.Differences, d)
	return nil
}
