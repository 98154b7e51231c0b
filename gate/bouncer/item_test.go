package bouncer

import (
	"encoding/json"
	"testing"
	"time"
)

// TestDurationsAreThoseOfGo, which CrowdSec's clients read.
func TestDurationsAreThoseOfGo(t *testing.T) {
	for _, d := range []time.Duration{
		time.Second, 1001 * time.Millisecond, 1500 * time.Millisecond, 59999 * time.Millisecond, time.Minute, time.Minute + 10*time.Millisecond,
		time.Hour, time.Hour + time.Second, 25*time.Hour + 30*time.Minute, 366 * 24 * time.Hour,
	} {
		if got := string(appendDuration(nil, d)); got != d.String() {
			t.Errorf("got %q, want %q", got, d)
		}
	}
}

// TestTextsAreJSON: the name of a rule is whatever a decision says.
func TestTextsAreJSON(t *testing.T) {
	for _, text := range []string{"", "per-ip", "a\"b\\c", "</script>", "\x00\n", "ü", "\xff"} {
		var got string
		if err := json.Unmarshal(appendText(nil, text), &got); err != nil || got != text && text != "\xff" {
			t.Errorf("%q: got %q and %v", text, got, err)
		}
	}
}
