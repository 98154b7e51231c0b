package fold

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
	"github.com/509da70d/floodgate/store/rows"
)

// TestASnapshotHasEachLossOnce: a loss that is in a snapshot comes into it again when it changes.
func TestASnapshotHasEachLossOnce(t *testing.T) {
	var list []string
	for _, name := range []string{"none", "full", "early", "both"} {
		list = append(list, fmt.Sprintf("{name: %s, callers: key, limit: 60, window: 1h}", name))
	}
	f := New(foldtest.Rules(t, list...), Options{})
	l := &f.table.losses
	l.byRule[1].lost = frameNow
	l.byRule[2].dropped = frameNow
	l.byRule[3].lost, l.byRule[3].dropped = frameNow, frameNow
	names := func() string {
		var b bytes.Buffer
		for _, c := range l.scan() {
			fmt.Fprintf(&b, "%s ", c.Key[1:])
		}
		return b.String()
	}
	f.BeginScan()
	for i := range l.byRule {
		l.change(int32(i))
	}
	if got := names(); got != "full early both " {
		t.Errorf("got the losses of %q, want those of each rule that has one", got)
	}
	if got := names(); got != "" {
		t.Errorf("got %q again, want nothing", got)
	}
	l.lose(1, 1, frameNow+second)
	if got := names(); got != "full " {
		t.Errorf("got %q after a loss of rule full, want that one", got)
	}
}

// TestNewRulesProlongTheDoubtOfARow: under another limit, a mark says what may be missing up to the change of rules.
func TestNewRulesProlongTheDoubtOfARow(t *testing.T) {
	const rule, other = "{name: r, callers: key, limit: 60, window: 1h}", "{name: other, callers: ip, limit: 1, window: 1h}"
	for name, test := range map[string]struct {
		rules []string
		since int64 // from frameNow
	}{
		"another limit":   {[]string{"{name: r, callers: key, limit: 600, window: 1h}"}, 5 * minute},
		"one rule is new": {[]string{rule, other}, second},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(foldtest.Rules(t, rule), Options{})
			rowEntry(f, frameNow, "a", 1)
			rowOf(f, 0, "a").since = frameNow + second
			f.Advance(frameNow + 5*minute)
			f.SetRules(foldtest.Rules(t, test.rules...))
			if got := rowOf(f, 0, "a").since; got != frameNow+test.since {
				t.Errorf("got a mark of %d ns, want %d", got-frameNow, test.since)
			}
		})
	}
}

// TestALossThatNobodyWroteIsRefused: each loss is a version, the shape of its rule, and two times.
func TestALossThatNobodyWroteIsRefused(t *testing.T) {
	f := New(foldtest.Rules(t, "{name: r, callers: key, limit: 60, window: 1h}"), Options{})
	key := lossKey(f.Rules().Rules[0])
	good := lossValue(f.Rules().Rules[0], &ruleLosses{lost: frameNow, dropped: frameNow + second})
	other := bytes.Clone(good)
	other[0]++
	for name, value := range map[string][]byte{
		"nothing": nil, "no shape": good[:8], "no times": good[:9], "one time": good[:len(good)-9], "a time cut short": good[:len(good)-1],
		"more than two times": append(bytes.Clone(good), 0), "another version": other,
	} {
		if err := f.Restore(key, value); !errors.Is(err, errRow) {
			t.Errorf("%s: got %v, want %v", name, err, errRow)
		}
	}
	gone, reshaped := append(bytes.Clone(key), 's'), bytes.Clone(good)
	reshaped[1]++
	for name, row := range map[string]rows.Change{"of a rule that is gone": {Key: gone, Value: good}, "of a rule that counts otherwise": {Key: key, Value: reshaped}} {
		if err := f.Restore(row.Key, row.Value); err != nil || f.table.losses.byRule[0].lost != never {
			t.Errorf("%s: got %v, and a loss at %d, want it dropped", name, err, f.table.losses.byRule[0].lost)
		}
	}
	if err := f.Restore(key, good); err != nil {
		t.Fatal(err)
	}
	if n := len(f.table.losses.changed); n != 0 {
		t.Errorf("got %d losses to store, want none: it is there", n)
	}
	if a := f.table.losses.byRule[0]; a.lost != frameNow || a.dropped != frameNow+second {
		t.Errorf("got %+v, want the two times", a)
	}
}
