package analyzer

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/509da70d/floodgate/analyzer/outbox"
	"github.com/509da70d/floodgate/schemas"
)

// openedBy returns the last decision about each caller, after a change of rules has opened n callers that were closed for an hour.
func openedBy(t *testing.T, n int, change func(ids []string) string) map[string]schemas.Decision {
	t.Helper()
	const hour = "version: 1\nrules:\n  - {name: r, callers: key, limit: 3, window: 1h, algorithm: fixed, close_for: 1h"
	last := make(map[string]schemas.Decision)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, hour+"}\n")
		w.start()
		time.Sleep(2 * time.Second)
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprint("k", i))
			w.prod.send(time.Now(), ids[i], ids[i], ids[i])
		}
		time.Sleep(5 * time.Second)
		w.prod.send(time.Now(), "later") // the time of the log goes on
		time.Sleep(time.Second)
		if closed := len(w.log.follow(t, time.Now().UnixNano()).closed); closed != n {
			t.Fatalf("got %d callers closed, want %d", closed, n)
		}
		w.owner.SetRules(mustRules(t, hour+change(ids)+"}\n"))
		time.Sleep(time.Second)
		for _, r := range w.log.decisions(t) {
			if d := r.Decision; d != nil {
				last[d.Caller.ID] = *d
			}
		}
		w.end()
	})
	return last
}

// TestACallerThatAPersonOpensIsOpenAtOnce: gates delay the end of a closure by up to a tenth of its length, but not the end of one that
// ends when it begins. That is how an opening is published.
func TestACallerThatAPersonOpensIsOpenAtOnce(t *testing.T) {
	for name, change := range map[string]func([]string) string{
		"an override of one caller": func([]string) string { return ", overrides: {k0: unlimited}" },
		"a raised limit":            func([]string) string { return ", overrides: {k0: 1000000}" },
	} {
		t.Run(name, func(t *testing.T) {
			last := openedBy(t, 2, change)
			if d := last["k0"]; d.Until != d.CloseAt {
				t.Errorf("the opened caller: got until %v after its beginning, want 0", time.Duration(d.Until-d.CloseAt))
			}
			if d := last["k1"]; time.Duration(d.Until-d.CloseAt) < 50*time.Minute {
				t.Errorf("the other caller: got until %v after its beginning, want about an hour", time.Duration(d.Until-d.CloseAt))
			}
		})
	}
}

// TestManyThatAChangeOpensMayBeSpread: their decisions end now, so that gates delay each by another share of 10 s.
func TestManyThatAChangeOpensMayBeSpread(t *testing.T) {
	last := openedBy(t, 3*outbox.OpenTogether, func(ids []string) string {
		return ", overrides: {" + strings.Join(ids, ": unlimited, ") + ": unlimited}"
	})
	for id, d := range last {
		if d.Until <= d.CloseAt || d.Until > d.CloseAt+int64(time.Minute) {
			t.Fatalf("%s: got until %v after its beginning, want the seconds until it was opened", id, time.Duration(d.Until-d.CloseAt))
		}
	}
}
