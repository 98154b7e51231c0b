package analyzerprom_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/schemas"
)

// beats are the newest heartbeats of partitions, by the id of their rules; negative: not heard of lately. 0 is none.
type beats []int64

func (b beats) Heartbeat(p int) (schemas.Heartbeat, bool) {
	id := max(b[p], -b[p])
	return schemas.Heartbeat{Partition: int32(p), RulesID: uint64(id)}, id != 0
}

func (b beats) Heard(p int, _ time.Time) bool { return b[p] > 0 }

// TestPartitionsByDifferentRulesAreCounted, and those whose owner is gone are not: another alert says that.
func TestPartitionsByDifferentRulesAreCounted(t *testing.T) {
	for name, test := range map[string]struct {
		beats beats
		want  int
	}{
		"all agree":                         {beats{7, 7, 7, 7}, 1},
		"one analyzer has an older file":    {beats{7, 7, 8, 8}, 2},
		"each has its own":                  {beats{7, 8, 9, 10}, 4},
		"the one with the old file is gone": {beats{7, 7, -8, -8}, 1},
		"nobody was heard of yet":           {beats{0, 0, 0, 0}, 0},
		"some have no owner yet":            {beats{0, 7, 0, 7}, 1},
		"no partitions":                     {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := analyzerprom.NewPartitionRules(test.beats, len(test.beats))
			const text = "# HELP floodgate_rules_differ Different ids of rules by which partitions are counted, as their newest heartbeats say; 1 if all agree, 0 if no partition has an owner.\n" +
				"# TYPE floodgate_rules_differ gauge\nfloodgate_rules_differ %d\n"
			if err := testutil.CollectAndCompare(c, strings.NewReader(fmt.Sprintf(text, test.want))); err != nil {
				t.Error(err)
			}
			if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
				t.Errorf("got %v, %v, want no problem", problems, err)
			}
		})
	}
}
