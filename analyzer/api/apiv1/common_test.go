package apiv1

import (
	"encoding/json"
	"testing"

	"github.com/509da70d/floodgate/schemas"
)

// TestACallerComesBackAsItWas through JSON, whatever bytes its id has.
func TestACallerComesBackAsItWas(t *testing.T) {
	for _, id := range []string{"a", "", "\xff", "a\xc3(b", "\x00", "\u202e", "<&>", "\uFFFD", "ключ"} {
		want := schemas.Caller{Kind: "key", ID: id}
		b, err := json.Marshal(CallerOf(want))
		if err != nil {
			t.Fatal(err)
		}
		var v Caller
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		if got := v.Caller(); got != want {
			t.Errorf("%q: got %q of %s", id, got, b)
		}
	}
}
