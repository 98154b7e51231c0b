//go:build lab

package lab

import (
	"testing"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
)

// TestOpenOpensAllThatIsClosed: a caller is closed under two rules. To open it under one of them is not enough, and explain names the
// other. To open it under all opens it at a gate that followed everything, at one that starts later, and at one that starts after the
// owner has started again. Its requests go on being counted, and it stays open; another caller of its partition is closed meanwhile.
func TestOpenOpensAllThatIsClosed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, "{name: burst, callers: key, limit: 3, window: 1h}\n  - {name: quota, callers: key, limit: 5, window: 24h}")
	a, followed := d.analyze("counts"), d.sidecar()
	d.awaitRunning(a, 1, 1)
	d.send("x", 5)
	followed.closes("x", "closed under both rules", "burst", "quota")

	d.act(a, "open", "key:x", "burst", "--for", "1h")
	followed.closes("x", "opened under one rule", "quota")
	d.sidecar().closes("x", "opened under one rule, at a gate that starts later", "quota")
	d.explained(a, "x", "the rule that closes it still", func(e *apiv1.Explanation) bool { return e.Verdict == apiv1.Closed && e.Rule == "quota" })

	d.act(a, "open", "key:x", "--for", "1h")
	followed.closes("x", "opened")
	later := d.sidecar()
	later.closes("x", "opened, at a gate that starts later")
	a.Kill()
	a = d.analyze("counts")
	d.awaitRunning(a, 1, 1)
	restarted := d.sidecar()
	gates := map[string]*gateOf{"followed": followed, "started later": later, "started after the owner": restarted}

	d.send("x", 5)
	d.send("other", 5)
	d.explained(a, "x", "counted, and open", func(e *apiv1.Explanation) bool {
		return e.Verdict == apiv1.OpenedByHand && len(e.Decisions) == 0 && len(e.Rules) == 2 && e.Rules[0].Count == 10 && e.Rules[1].Count == 10
	})
	for name, g := range gates {
		g.closes("other", name+": another is closed", "burst", "quota") // what was published before has come, too
		g.closes("x", name+": open")
	}
}
