package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/509da70d/floodgate/analyzer/control"
	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// readOrder finds out what the control topic says about the partition, and by which rules the log was counted.
func (a *audit) readOrder(ctx context.Context) error {
	c, o := &a.config, &a.config.Fold
	if c.Control == "" {
		a.lostControls = a.at.Placed > 0
		return nil
	}
	topic := control.NewTopic(c.Control, c.Requests, o.Key, o.Partition, o.Partitions)
	order, skipped, _, err := control.Read(ctx, a.log, topic, control.Mark{}, kafkaio.Temporary)
	if err != nil {
		return fmt.Errorf("read the control topic: %w", err)
	}
	steps := order.Steps()
	last := slices.IndexFunc(steps, func(s control.Step) bool { return s.Place+1 == a.at.Placed && s.Epoch == a.at.Epoch })
	if last >= 0 && order.PassedOver(a.at.Next, a.at.Placed) {
		return fmt.Errorf("%w: it reaches up to offset %d, and lacks what later owners applied before that", ErrReplaced, a.at.Next)
	}
	if last < 0 || skipped.Lost > 0 || steps[0].Before > a.first {
		c.Logger.Warn("the control topic does not say all that was applied: it was made anew, or has lost records", "topic", c.Control)
		a.lostControls = true
	}
	a.steps = steps[:last+1]
	return a.readRules(ctx, topic)
}

// readRules reads the rules that counted the log. Without the text of all of them, what began under earlier rules can't be compared.
func (a *audit) readRules(ctx context.Context, topic control.Topic) error {
	sets := map[uint64]*rules.Set{a.config.Rules.ID(): a.config.Rules}
	for i := range a.steps {
		s := &a.steps[i]
		if sets[s.RulesID] != nil {
			continue
		}
		set, err := control.Rules(ctx, a.log, topic, s.RulesID, s.RulesAt, kafkaio.Temporary)
		if errors.Is(err, control.ErrNoRules) {
			a.config.Logger.Warn("the control topic does not hold all rules that counted the log", "topic", a.config.Control, "error", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the rules that counted the log: %w", err)
		}
		sets[s.RulesID] = set
	}
	if len(a.steps) > 0 && !a.lostControls {
		a.sets = sets
		a.fold = fold.New(sets[a.steps[0].RulesID], a.config.Fold)
	}
	return nil
}

// applyBefore applies what the analyzer did before the record at an offset.
func (a *audit) applyBefore(offset int64) {
	for len(a.steps) > 0 && a.steps[0].Before <= offset {
		s := &a.steps[0]
		a.steps = a.steps[1:]
		for i := range s.Records {
			r := &s.Records[i]
			_ = a.fold.Control(&r.Control, s.Before, r.Offset) // one that is refused was refused by the owner too
		}
		if set := a.sets[s.RulesID]; set != nil && set.ID() != a.fold.Rules().ID() {
			a.fold.SetRules(set)
		}
		a.fold.TakeChanges()
	}
}

// differControl judges two rows of a control record that are not the same; one of them may be missing. When one was applied in log
// time is not known where the log begins later.
func (a *audit) differControl(report *Report, key string, stored, counted []byte) error {
	d := Difference{Rule: schemas.ControlRule, Why: WhyState}
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
	case a.partial() && bytes.Equal(known[0].ID[:], known[1].ID[:]) && known[0].Undone() == known[1].Undone():
		report.Agreed++
		return nil
	}
	if a.lostControls || a.partial() {
		if d.Why = WhyControl; !a.lostControls {
			d.Why = WhyRetention
		}
		report.Unaudited = append(report.Unaudited, d)
		return nil
	}
	report.Differences = append(report.Differences, d)
	return nil
}
