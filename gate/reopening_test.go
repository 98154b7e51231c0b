package gate

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// A gate in another language reopens at the same nanosecond, if it keeps to schemas/DECISIONS.md. The vectors are computed by
// that document in store/kafkaio/decisions.
func TestReopeningVectors(t *testing.T) {
	data, err := os.ReadFile("../testdata/decisions/reopening.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Kind    string `json:"kind"`
		ID      string `json:"id"`
		CloseAt int64  `json:"close_at,string"`
		Until   int64  `json:"until,string"`
		Reopens int64  `json:"reopens,string"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) < 40 {
		t.Fatalf("got %d vectors, %v, want 40 or more", len(vectors), err)
	}
	set := New(Options{})
	for _, v := range vectors {
		set.ApplyAt(time.Unix(0, v.CloseAt), []schemas.Decision{{
			Rule: "r", Caller: schemas.Caller{Kind: v.Kind, ID: v.ID}, Mode: schemas.ModeEnforce, CloseAt: v.CloseAt, Until: v.Until,
		}})
		var c Callers
		c.Add(set.Gate(v.Kind), v.ID)
		if got := set.CheckAt(&c, time.Unix(0, v.CloseAt)); !got.Closed || got.Until.UnixNano() != v.Reopens {
			t.Errorf("%s:%s from %d until %d: got closed %v until %d, want %d",
				v.Kind, v.ID, v.CloseAt, v.Until, got.Closed, got.Until.UnixNano(), v.Reopens)
		}
	}
}
