package gateview_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas/gateview"
)

// What a sidecar writes, the command line reads: also ids that are not text.
func TestWhatIsWrittenIsRead(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	want := gateview.Caller{
		Kind: "key", ID: "a", IDBase64: []byte("\xff"), Now: now, Mode: "enforce", Policy: "hold", Refused: true, Fresh: 7, Stale: 1, AgeNS: 5, Dropped: 2,
		Decisions: []gateview.Decision{{
			Rule: "r", Mode: "shadow", CloseAt: now, Until: now.Add(time.Minute), Early: true, Share: true, InForce: true, Ignored: true,
			Limit: 10, WindowNS: 60, Partition: 3, Freshness: "fresh", Epoch: 8, Watermark: 99, LagNS: 4,
		}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got gateview.Caller
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
	for _, field := range []string{"kind", "id_base64", "refused", "decisions", "close_at", "in_force", "watermark", "lag_ns"} {
		if !strings.Contains(string(text), `"`+field+`":`) {
			t.Errorf("got %s, want the field %s", text, field)
		}
	}
}

// A caller without decisions has an empty list, which readers need not tell from none.
func TestNoDecisionsAreAList(t *testing.T) {
	text, err := json.Marshal(gateview.Caller{Decisions: []gateview.Decision{}})
	if err != nil || !strings.Contains(string(text), `"decisions":[]`) {
		t.Errorf("got %s and %v, want an empty list", text, err)
	}
}

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
