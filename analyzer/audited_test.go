package analyzer

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/audit"
)

const auditRules = `
version: 1
rules:
  - {name: r, callers: key, limit: 3, window: 1m, algorithm: fixed, close_for: 30s, escalate: {factor: 2, max: 1h, forget: 24h}}
  - {name: day, callers: key, limit: 1000, window: day}
  - {name: slide, callers: key, limit: 50, window: 10m}
  - {name: log, callers: key, limit: 20, window: 10m, algorithm: log}
  - {name: bucket, callers: key, limit: 100, window: 1m, algorithm: gcra}
`

func newAuditWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.conf.Rules = mustRules(t, auditRules)
	return w
}

// audit audits the store that the owner left.
func (w *world) audit() (audit.Report, error) {
	w.t.Helper()
	return audit.Run(w.t.Context(), w.log, audit.Config{
		Fold: w.conf.Fold, Requests: "requests", Control: w.conf.Control, Dir: w.conf.Dir, Rules: w.conf.Rules, Store: w.conf.Store,
	})
}

func (w *world) mustAudit() audit.Report {
	w.t.Helper()
	r, err := w.audit()
	if err != nil {
		w.t.Fatalf("audit: %v", err)
	}
	return r
}

// wantExact audits and wants nothing found, and something compared.
func (w *world) wantExact() audit.Report {
	w.t.Helper()
	r := w.mustAudit()
	if !r.Exact() || len(r.Unaudited) > 0 || r.Agreed == 0 {
		w.t.Errorf("audit: got %d rows agreed, differences %+v, unaudited %+v, damage %v; want only agreement", r.Agreed, r.Differences, r.Unaudited, r.Damage)
	}
	return r
}

// kill stops the owner and puts the store back to what it was at an earlier checkpoint: the log then holds more.
func (w *world) kill() {
	w.t.Helper()
	time.Sleep(time.Second)
	aside := w.conf.Dir + ".killed"
	if err := os.CopyFS(aside, os.DirFS(w.conf.Dir)); err != nil {
		w.t.Fatal(err)
	}
	w.prod.send(time.Now(), "c1")
	w.end()
	if err := errors.Join(os.RemoveAll(w.conf.Dir), os.Rename(aside, w.conf.Dir)); err != nil {
		w.t.Fatal(err)
	}
}
