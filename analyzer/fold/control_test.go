package fold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/schemas"
)

// operator tells a fold what people decide, and keeps what it stores. Each record is written at the log time of then.
type operator struct {
	t       *testing.T
	f       *Fold
	kept    fakeStore
	records []schemas.Control
}

// controlNumber returns the id of the n-th record, from 1.
func controlNumber(n int) (id schemas.ControlID) {
	binary.BigEndian.PutUint64(id[8:], uint64(max(n, 0)))
	return id
}

func callerOf(word string) schemas.Caller {
	kind, id, ok := strings.Cut(word, ":")
	if !ok {
		return schemas.Caller{Kind: "key", ID: word}
	}
	return schemas.Caller{Kind: kind, ID: id}
}

// record reads a control record:
//
//	close CALLER UNTIL       limit CALLER RULE N UNTIL   mode UNTIL [RULE]
//	open CALLER UNTIL [RULE]    reset CALLER [RULE]         undo NUMBER
func (o *operator) record(words []string) *schemas.Control {
	o.t.Helper()
	c := schemas.Control{ID: controlNumber(len(o.records) + 1), Author: "ann", Reason: "ticket", Time: max(o.f.LogTime(), 0)}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			o.t.Fatal(err)
		}
		return n
	}
	rule := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch words[0] {
	case "close":
		c.Action, c.Caller, c.Until = schemas.ControlClose, callerOf(words[1]), number(2)*second
	case "open":
		c.Action, c.Caller, c.Until, c.Rule = schemas.ControlOpen, callerOf(words[1]), number(2)*second, rule(3)
	case "limit":
		c.Action, c.Caller, c.Rule, c.Limit, c.Until = schemas.ControlLimit, callerOf(words[1]), words[2], number(3), number(4)*second
	case "reset":
		c.Action, c.Caller, c.Rule = schemas.ControlReset, callerOf(words[1]), rule(2)
	case "mode":
		c.Action, c.Until, c.Rule = schemas.ControlMode, number(1)*second, rule(2)
	case "undo":
		c.Action, c.Target = schemas.ControlUndo, controlNumber(int(number(1)))
	default:
		o.t.Fatalf("got %q", words)
	}
	o.records = append(o.records, c)
	return &o.records[len(o.records)-1]
}

// do does one step of a story: a control record, "at SECOND CALLER COUNT", "again NUMBER" for a record that is delivered once more,
// or "rules" and the lines of a set.
func (o *operator) do(step string) error {
	o.t.Helper()
	words := strings.Fields(step)
	switch words[0] {
	case "at":
		sec, err := strconv.ParseInt(words[1], 10, 64)
		count, err2 := strconv.ParseUint(words[3], 10, 32)
		if err != nil || err2 != nil {
			o.t.Fatalf("got %q", step)
		}
		c := callerOf(words[2])
		o.f.Entry(&schemas.Entry{Time: sec * second, Kind: c.Kind, ID: c.ID, Count: uint32(count)})
	case "again":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			o.t.Fatal(err)
		}
		return o.f.Control(&o.records[n-1], 1, int64(n))
	case "rules":
		o.f.SetRules(foldtest.Rules(o.t, strings.Split(strings.TrimPrefix(step, "rules "), "\n")...))
	default:
		c := o.record(words)
		return o.f.Control(c, 1, int64(len(o.records)))
	}
	return nil
}

// told says what changed: rule, caller, what, and until when; and the mode if it is shadow.
func told(changes []Change) []string {
	list := []string{}
	for _, c := range changes {
		if c.Kind == policy.Same {
			continue
		}
		text := fmt.Sprintf("%s %s %s %v", c.Rule.Name, c.Caller.ID, c.Kind, time.Duration(c.Closure.Until))
		if c.Rule.Mode == schemas.ModeShadow {
			text += " shadow"
		}
		list = append(list, text)
	}
	return list
}

// closures returns what Closures says, sorted.
func closures(f *Fold) []string {
	list := told(f.View().Closures(f.LogTime()))
	slices.Sort(list)
	return list
}

func recordsOf(f *Fold) (list []override.Record) {
	list = slices.Collect(f.rules.records.All(0))
	return list
}

// agrees fails if a fold that is restored from the store is not as the one that went on.
func (o *operator) agrees(step string) {
	o.t.Helper()
	o.kept.commit(o.t, o.f)
	again := o.kept.restore(o.t, o.f.Rules(), Options{})
	if got, want := rowsOf(again), rowsOf(o.f); !slices.Equal(got, want) {
		o.t.Errorf("after %q: got rows %q from the store, want %q", step, got, want)
	}
	if got, want := closures(again), closures(o.f); !slices.Equal(got, want) {
		o.t.Errorf("after %q: got closures %q from the store, want %q", step, got, want)
	}
	if got, want := recordsOf(again), recordsOf(o.f); !reflect.DeepEqual(got, want) {
		o.t.Errorf("after %q: got records %+v from the store, want %+v", step, got, want)
	}
	if now := o.f.LogTime(); again.Digest(now) != o.f.Digest(now) || again.Stats().InForce != o.f.Stats().InForce {
		o.t.Errorf("after %q: got another digest from the store, or %d records in force, want %d", step, again.Stats().InForce, o.f.Stats().InForce)
	}
	rowsDiffer(o.t, step, again, o.f)
}

// rowsDiffer fails if a row of the one fold has another limit or mode than in the other.
func rowsDiffer(t *testing.T, step string, a, b *Fold) {
	t.Helper()
	limits := func(f *Fold) map[string]string {
		all := make(map[string]string)
		f.View().Rows(f.LogTime(), func(r Row) bool {
			all[r.Rule.Name+" "+r.ID] = fmt.Sprint(r.Limit, r.Unlimited, r.Total, r.Rule.Mode)
			return true
		})
		return all
	}
	if got, want := limits(a), limits(b); !reflect.DeepEqual(got, want) {
		t.Errorf("after %q: got limits %v, want %v", step, got, want)
	}
}

// controlStory is steps, each with what it changes; "-" is nothing.
type controlStory struct {
	rules []string
	steps [][2]string
}

const (
	tenAMinute   = "{name: a, callers: key, limit: 10, window: 1m, algorithm: fixed}"
	threeAnHour  = "{name: b, callers: key, limit: 30, window: 1h, algorithm: fixed}"
	tenBucket    = "{name: a, callers: key, limit: 10, window: 1m, algorithm: gcra}"
	aMonth       = "{name: a, callers: key, limit: 1000, window: month, timezone: UTC}"
	tenEscalated = "{name: a, callers: key, limit: 10, window: 10s, algorithm: fixed, close_for: 20s, escalate: {factor: 2, max: 1h, forget: 10m}}"
)

// run tells the story. The store is asked after each step.
func (s controlStory) run(t *testing.T) {
	t.Helper()
	o := &operator{t: t, f: New(foldtest.Rules(t, s.rules...), Options{})}
	for _, step := range s.steps {
		if err := o.do(step[0]); err != nil {
			t.Errorf("%q: %v", step[0], err)
		}
		changes := o.f.TakeChanges()
		got := strings.Join(told(changes), ", ")
		if got == "" {
			got = "-"
		}
		if got != step[1] {
			t.Errorf("%q: got %q, want %q", step[0], got, step[1])
		}
		for _, c := range changes {
			if c.Rule.Window == nil || c.Rule.Kind != c.Caller.Kind {
				t.Errorf("%q: got rule %+v of a change about %v", step[0], c.Rule, c.Caller)
			}
		}
		o.agrees(step[0])
	}
}

// TestRecordsTwice: each record of each story that is delivered again, at once or in the end, changes nothing.
func TestRecordsTwice(t *testing.T) {
	for name, s := range controlStories() {
		o := &operator{t: t, f: New(foldtest.Rules(t, s.rules...), Options{})}
		for _, step := range s.steps {
			if err := o.do(step[0]); err != nil {
				t.Fatal(err)
			}
			o.f.TakeChanges()
			o.kept.commit(t, o.f)
			before, records := o.f.Digest(o.f.LogTime()), recordsOf(o.f)
			for n := range o.records {
				err := o.do(fmt.Sprint("again ", n+1))
				if err != nil && !errors.Is(err, override.ErrOver) {
					t.Errorf("%s: after %q, record %d again: %v", name, step[0], n+1, err)
				}
			}
			if changes := told(o.f.TakeChanges()); len(changes) > 0 {
				t.Errorf("%s: after %q, all again: got %q", name, step[0], changes)
			}
			if o.f.Digest(o.f.LogTime()) != before || !reflect.DeepEqual(recordsOf(o.f), records) || o.f.Dirty() != 0 {
				t.Errorf("%s: after %q, all again: got another digest, or %d rows to commit", name, step[0], o.f.Dirty())
			}
		}
	}
}
