package remote

import (
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// TestWhatARecordDoes in words, also what a later version may send.
func TestWhatARecordDoes(t *testing.T) {
	for want, a := range map[string]apiv1.Action{
		"the decisions of all rules are in mode shadow, and block nobody, until 2026-03-02 12:01:00 UTC": {Action: "mode", Until: noon.Add(time.Minute)},
		"the counts of key:noisy-1 under r start from zero":                                              {Action: "reset", Caller: &apiv1.Caller{Kind: "key", ID: "noisy-1"}, Rule: "r"},
		`pardon\x1b`:   {Action: "pardon\x1b"},
		"00 is undone": {Action: "undo", Target: "00"},
	} {
		if got := actionText(&a); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestUntil: an end is a length or a time, and lies ahead.
func TestUntil(t *testing.T) {
	for _, test := range []struct {
		length time.Duration
		until  string
		want   string // "" is a usage error
	}{
		{time.Hour, "", "2026-03-02T13:00:00Z"},
		{0, "2026-03-02T18:00:00+02:00", "2026-03-02T16:00:00Z"},
		{0, "2026-03-02 18:00", "2026-03-02T18:00:00Z"},
		{0, "2026-03-02 18:00:30", "2026-03-02T18:00:30Z"},
		{schemas.MaxClosure, "", "2027-03-03T12:00:00Z"},
		{schemas.MaxClosure + 1, "", ""},
		{-time.Hour, "", ""},
		{0, "", ""},
		{0, "18:00", ""},
		{0, "2026-03-02 12:00", ""},
		{time.Hour, "2026-03-02 18:00", ""},
	} {
		u := untilFlags{command.Duration(test.length), test.until}
		got, err := u.time("open", noon)
		if test.want == "" && !command.IsUsage(err) || test.want != "" && (err != nil || got.Format(time.RFC3339) != test.want) {
			t.Errorf("%v %q: got %v and %v, want %q", test.length, test.until, got, err, test.want)
		}
	}
}
