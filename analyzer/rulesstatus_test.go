package analyzer

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// twoKinds is a rule on a kind that the tests send, and one on a kind that they do not.
const twoKinds = `
version: 1
rules:
  - {name: sent, callers: key, limit: 3, window: 1m}
  - {name: unsent, callers: apikey, limit: 3, window: 1m}
`

// watched runs an analyzer that has one owner, and returns it with what it logs.
func watched(t *testing.T, w *world) (a *Analyzer, logged func() string) {
	t.Helper()
	var mu sync.Mutex
	var out bytes.Buffer
	w.conf.Logger = slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(b)
	}), nil))
	w.start()
	a = New(w.log, Config{Owner: w.conf})
	a.owners[0] = &ownerRun{owner: w.owner}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { a.watchRules(ctx) })
	t.Cleanup(func() { stop(); watching.Wait() })
	return a, func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestARuleOnAKindThatNobodySendsIsSaid after a minute with requests, once; and a silent night is no reason.
func TestARuleOnAKindThatNobodySendsIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.conf.Rules = mustRules(t, twoKinds)
		a, logged := watched(t, w)
		time.Sleep(10 * time.Minute)
		if s := a.RulesStatus(time.Now()); len(s.Unused) != 0 || strings.Contains(logged(), "rule without effect") {
			t.Errorf("without any request: got %v and the log %s, want nothing", s.Unused, logged())
		}
		w.prod.send(time.Now(), "a")
		time.Sleep(10 * time.Minute)
		s := a.RulesStatus(time.Now())
		if len(s.Unused) != 1 || s.Unused[0].Rule.Name != "unsent" {
			t.Errorf("got %v, want the rule unsent", s.Unused)
		}
		if n := strings.Count(logged(), `msg="rule without effect"`); n != 1 || !strings.Contains(logged(), `rule=unsent`) {
			t.Errorf("got %d warnings, want 1 of the rule unsent:\n%s", n, logged())
		}
		a.SetRules(mustRules(t, twoKinds+"  - {name: more, callers: tenant, limit: 3, window: 1m}\n"))
		time.Sleep(unusedAfter - time.Second)
		if s := a.RulesStatus(time.Now()); len(s.Unused) != 0 {
			t.Errorf("right after a reload: got %v, want nothing", s.Unused)
		}
		w.prod.send(time.Now(), "a")
		time.Sleep(time.Minute)
		if n := strings.Count(logged(), `msg="rule without effect"`); n != 3 {
			t.Errorf("after a reload: got %d warnings, want those of both rules more", n)
		}
		w.end()
	})
}

// TestARefusedFileOfRulesIsInTheStatus until a good one comes.
func TestARefusedFileOfRulesIsInTheStatus(t *testing.T) {
	a := New(newTestLog(), Config{Owner: OwnerConfig{Rules: mustRules(t, threeAMinute)}})
	old := a.RulesStatus(time.Now())
	a.RefuseRules(errInjected)
	if s := a.RulesStatus(time.Now()); s.Refused != errInjected || s.Set != old.Set { //nolint:errorlint // it is this one
		t.Errorf("refused: got %+v, want the old rules and the error", s)
	}
	a.SetRules(mustRules(t, fiveAMinute))
	if s := a.RulesStatus(time.Now()); s.Refused != nil || s.Set.ID() == old.Set.ID() {
		t.Errorf("mended: got %+v, want the new rules and no error", s)
	}
}
