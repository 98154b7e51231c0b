package remote

import (
	"testing"
	"time"
)

func TestSinceIsATimeOrALength(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"90m": noon.Add(-90 * time.Minute), "7d": noon.Add(-7 * 24 * time.Hour), "0s": noon, "2026-01-31T12:00:00+01:00": time.Date(2026, 1, 31, 11, 0, 0, 0, time.UTC),
	} {
		if got, err := sinceTime(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}
