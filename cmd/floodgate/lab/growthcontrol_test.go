//go:build lab

package lab

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// movedKey returns a key that begins so, whose partition of 2 was another one than that of 3, which is given.
func movedKey(what string, partition int) string {
	for key := what; ; key += "x" {
		hash := schemas.DefaultPartitionKey().Hash("key", key)
		if schemas.Partition(hash, 3) == partition && schemas.Partition(hash, 2) != partition {
			return key
		}
	}
}

// TestGrowthKeepsWhatPeopleDecided follows GROWTH.md from 2 to 3 partitions. Before, a person has closed callers, given others another
// limit, and opened some that a rule had closed. Each of them is counted in another partition afterwards, and what was decided is in
// force there, to the same end: for the new analyzer, and at a gate that follows it. What is decided by hand can be undone there.
func TestGrowthKeepsWhatPeopleDecided(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2, "{name: r, callers: key, limit: 5, window: 24h}")
	old, oldGate := d.analyze("old"), d.sidecar()
	d.awaitRunning(old, 2, 2)
	ids, ends := make(map[string]string), make(map[string]time.Time)
	for p := range 3 {
		closed, limited, opened := movedKey("closed", p), movedKey("limited", p), movedKey("opened", p)
		d.send(limited, 4)
		d.send(opened, 6)
		oldGate.closes(opened, "closed by the rule", "r")
		ids[closed] = d.act(old, "close", "key:"+closed, "--for", "24h")
		d.act(old, "limit", "key:"+limited, "r", "8", "--for", "24h")
		d.act(old, "open", "key:"+opened, "--for", "24h")
		oldGate.closes(closed, "closed by hand", schemas.ControlRule)
		oldGate.closes(opened, "opened by hand")
		d.send(limited, 2)
		ends[closed] = d.explained(old, closed, "closed by hand", func(e *apiv1.Explanation) bool { return e.Verdict == apiv1.ClosedByHand }).Until
	}

	vars := map[string]string{"BROKERS": d.broker, "RULES": d.rules, "DATA": filepath.Join(d.dir, "new"), "P": "3"}
	if out, err := runCommand(documentedCommand(t, "topics", vars)...); err != nil {
		t.Fatalf("topics: got %v,\n%s", err, out)
	}
	repartition := slices.DeleteFunc(documentedCommand(t, "repartition", vars), func(arg string) bool { return arg == "--follow" })
	if out, err := runCommand(repartition...); err != nil || !strings.Contains(out, " 0 records behind") {
		t.Fatalf("repartition: got %v,\n%s", err, out)
	}
	grown := d.analyzeAs(documentedCommand(t, "analyze", vars)...)
	d.awaitRunning(grown, 3, 3)
	g := d.sidecar("--topic-prefix", "floodgate2")
	for p := range 3 {
		closed, limited, opened := movedKey("closed", p), movedKey("limited", p), movedKey("opened", p)
		d.explained(grown, closed, "closed by hand, to the same end", func(e *apiv1.Explanation) bool {
			return e.Verdict == apiv1.ClosedByHand && e.Until.Equal(ends[closed]) && e.At.Partition == p
		})
		g.closes(closed, "closed by hand, at the new gate", schemas.ControlRule)
		counts := func(key, what string, count, limit int64, are ...apiv1.Verdict) {
			t.Helper()
			d.explained(grown, key, fmt.Sprintf("%s in partition %d", what, p), func(e *apiv1.Explanation) bool {
				return slices.Contains(are, e.Verdict) && e.At.Partition == p && e.Rules[0].Count == count && e.Rules[0].Limit.Limit == limit
			})
		}
		counts(limited, "another limit", 6, 8, apiv1.Below, apiv1.Ended) // the record may apply behind the frame that has its time
		g.closes(limited, "another limit, at the new gate")
		counts(opened, "opened by hand", 6, 5, apiv1.OpenedByHand)
		d.sendTo("floodgate2.requests", 3, opened, 5)
		d.sendTo("floodgate2.requests", 3, limited, 2)
		g.closes(limited, "closed at the other limit", "r")
		g.closes(opened, "opened by hand, at the new gate")
		counts(limited, "closed at the other limit", 8, 8, apiv1.Closed)
		counts(opened, "opened by hand, and counted", 11, 5, apiv1.OpenedByHand)
		d.act(grown, "undo", ids[closed])
		g.closes(closed, "undone")
	}
	if code := grown.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM: got exit code %d:\n%s", code, grown.Text())
	}
	if out, err := runCommand("audit", "--brokers", d.broker, "--rules", d.rules, "--data", vars["DATA"], "--topic-prefix", "floodgate2",
		"--topic-name", "control=floodgate.control"); err != nil {
		t.Errorf("audit: got %v,\n%s", err, out)
	}
}
