package gateview_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas/gateview"
)

// TestTheJSONStays: sidecars and command lines of different versions read each other's. A field may come; none may be renamed or go.
func TestTheJSONStays(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	text, err := json.Marshal(gateview.Caller{Now: noon, Decisions: []gateview.Decision{{CloseAt: noon, Until: noon}}})
	want := `{"kind":"","id":"","now":"2026-11-22T12:00:00Z","mode":"","policy":"","refused":false,"decisions":[{"rule":"","mode":"",` +
		`"close_at":"2026-11-22T12:00:00Z","until":"2026-11-22T12:00:00Z","in_force":false,"limit":0,"window_ns":0,"partition":0,"freshness":"",` +
		`"epoch":0,"watermark":0,"lag_ns":0}],"cold":0,"fresh":0,"stale":0,"age_ns":0}`
	if err != nil || string(text) != want {
		t.Errorf("got %s and %v, want %s", text, err, want)
	}
}
