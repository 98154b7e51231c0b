package fold

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/509da70d/floodgate/analyzer/fold/foldtest"
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
