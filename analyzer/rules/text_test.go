package rules

import (
	"slices"
	"testing"
)

// TestARuleAsPeopleReadIt: what rules check prints of each part of a rule is what the file says.
func TestARuleAsPeopleReadIt(t *testing.T) {
	tests := []struct {
		fields                        string // behind the name
		callers, window, close, match string
	}{
		{"callers: ip, limit: 1, window: 1m", "ip", "1m sliding", "", ""},
		{"callers: 'key:free-*', limit: 1, window: 90m, algorithm: log", "key:free-*", "1h30m log", "", ""},
		{"callers: ip, limit: 1, window: 7d, algorithm: fixed, close_for: 90s", "ip", "7d fixed", "1m30s", ""},
		{"callers: ip, limit: 1, window: 1m, slots: 20", "ip", "1m sliding", "", ""},
		{"callers: ip, limit: 1, window: 1m, slots: 2", "ip", "1m sliding, 2 slots", "", ""},
		{"callers: ip, limit: 1, window: 1m, slots: 2, algorithm: gcra", "ip", "1m gcra", "", ""}, // slots mean nothing there
		{"callers: ip, limit: 5, window: 1m, burst: 3, algorithm: gcra", "ip", "1m gcra, burst 3", "", ""},
		{"callers: ip, limit: 1, window: day", "ip", "day, UTC", "", ""},
		{"callers: ip, limit: 1, window: month, anchor: 31, timezone: Asia/Kolkata", "ip", "month from day 31, Asia/Kolkata", "", ""},
		{"callers: ip, limit: 1, window: 1m, close_for: 1m, escalate: {max: 1d}", "ip", "1m sliding", "1m, x2 up to 1d", ""},
		{"callers: ip, limit: 1, window: 1m, close_for: 1m, escalate: {factor: 1.5, max: 36h}", "ip", "1m sliding", "1m, x1.5 up to 36h", ""},
		{"callers: ip, limit: 1, window: 1m, match: {resource: /a*}", "ip", "1m sliding", "", "/a*"},
		{"callers: ip, limit: 1, window: 1m, match: {status: [200, 1xx, 599]}", "ip", "1m sliding", "", "status 200, 1xx, 599"},
		{"callers: ip, limit: 1, window: 1m, match: {resource: [/a, '*'], status: 5xx}", "ip", "1m sliding", "", "/a, *; status 5xx"},
	}
	for _, test := range tests {
		r := parse(t, "  - {name: r, "+test.fields+"}\n").Rules[0]
		if r.CallersText() != test.callers || r.WindowText() != test.window || r.CloseText() != test.close || r.Match.Text() != test.match {
			t.Errorf("%s: got %q, %q, %q and %q, want %q, %q, %q and %q", test.fields,
				r.CallersText(), r.WindowText(), r.CloseText(), r.Match.Text(), test.callers, test.window, test.close, test.match)
		}
	}
}

// TestHoldsAsPeopleReadThem: what a rule says of requests in flight.
func TestHoldsAsPeopleReadThem(t *testing.T) {
	for _, test := range []struct{ fields, window, charge, hold, amount string }{
		{"window: 1m", "1m sliding", "", "", "7"},
		{"window: 1m, measure: cost", "1m sliding", "", "", "7 cost"},
		{"window: 1m, measure: cost, charge: arrival", "1m sliding", "arrival", "", "7 cost"},
		{"window: day, measure: cost, charge: arrival, hold: {estimate: 1000}", "day, UTC", "arrival", "1000 each, margin 2, 10m at most", "7 cost"},
		{"window: 1m, measure: cost, charge: arrival, hold: {estimate: 1, resources: {'POST /b*': 4_000, /a: 2}, margin: 0.5, longest: 90s}", "1m sliding", "arrival",
			`1 each, 4000 for "POST /b*", 2 for "/a", margin 0.5, 1m30s at most`, "7 cost"},
		{"measure: in_flight", "in flight, 10m at most", "", "", "7 in flight"},
		{"measure: in_flight, hold: {longest: 1h}", "in flight, 1h at most", "", "", "7 in flight"},
	} {
		r := parse(t, "  - {name: r, callers: ip, limit: 1, "+test.fields+"}\n").Rules[0]
		if r.WindowText() != test.window || r.ChargeText() != test.charge || r.HoldText() != test.hold || r.Measure.Amount(7) != test.amount {
			t.Errorf("%s: got %q, %q, %q and %q", test.fields, r.WindowText(), r.ChargeText(), r.HoldText(), r.Measure.Amount(7))
		}
	}
	for text, want := range map[string]string{"1m sliding, 60 slots": "1m", "month from day 15, Europe/Berlin": "month", "day, UTC": "day", "in flight, 10m at most": "", "": ""} {
		if got := WindowName(text); got != want {
			t.Errorf("the name of the window %q: got %q, want %q", text, got, want)
		}
	}
}

// TestOverridesAsPeopleReadThem: networks as they were written, and not as they are looked up; each one sets again the
// limit that it came from.
func TestOverridesAsPeopleReadThem(t *testing.T) {
	r := parse(t, "  - {name: r, callers: ip, limit: 1, window: 1m, overrides: {203.0.113.9: 1000, 198.51.100.0/24: unlimited, "+
		"'2001:db8::/32': 7, '::ffff:192.0.2.0/120': 8, 0.0.0.0/0: 9, '::/0': 10, 192.0.2.1/32: 11}}\n").Rules[0]
	want := []string{"0.0.0.0/0 9", "192.0.2.0/24 8", "192.0.2.1 11", "198.51.100.0/24 unlimited", "2001:db8::/32 7", "203.0.113.9 1000", "::/0 10"}
	if got := r.OverrideTexts(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := parse(t, "  - {name: r, callers: ip, limit: 1, window: 1m}\n").Rules[0].OverrideTexts(); got != nil {
		t.Errorf("without overrides: got %q, want none", got)
	}
}

// TestPercentagesArePointedAt: in a list that falls, the mistake is the value that is too large to be a fraction.
func TestPercentagesArePointedAt(t *testing.T) {
	for list, want := range map[string]string{
		"[80, 1.0]":      "r:2:61: warn: got 80 before 1.0, want rising fractions of the limit, such as 0.8 for 80 %",
		"[0.5, 80, 1]":   "r:2:66: warn: got 80 before 1, want rising fractions of the limit, such as 0.8 for 80 %",
		"[80, 0.9, 1.0]": "r:2:61: warn: got 80 before 0.9, want rising fractions of the limit, such as 0.8 for 80 %",
		"[0.8, 0.5]":     "r:2:66: warn: got 0.5, want rising fractions",
		"[3, 2]":         "r:2:64: warn: got 2, want rising fractions",
		"[1, 1]":         "r:2:64: warn: got 1, want rising fractions",
	} {
		_, err := Parse("r", []byte("version: 1\nrules: [{name: r, callers: ip, limit: 1, window: 1m, warn: "+list+"}]\n"))
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want only %s", list, err, want)
		}
	}
}

// TestAMisspeltFieldIsNotMissingToo: one mistake is one error, where it stands.
func TestAMisspeltFieldIsNotMissingToo(t *testing.T) {
	for text, want := range map[string]string{
		"version: 1\nrules: [{name: r, callers: ip, limt: 1, window: 1m}]\n":                                       "r:2:32: limt: unknown field, did you mean limit?",
		"version: 1\nrules: [{nam: r, callers: ip, limit: 1, window: 1m}]\n":                                       "r:2:10: nam: unknown field, did you mean name?",
		"version: 1\nrules: [{name: r, caller: ip, limit: 1, window: 1m}]\n":                                       "r:2:19: caller: unknown field, did you mean callers?",
		"version: 1\nrules: [{name: r, callers: ip, limit: 1, windows: 1m}]\n":                                     "r:2:42: windows: unknown field, did you mean window?",
		"version: 1\nrules: [{name: r, callers: ip, limit: 1, window: 1m, closefor: 1m, escalate: {max: 1h}}]\n":   "r:2:54: closefor: unknown field, did you mean close_for?",
		"version: 1\nrules: [{name: r, callers: ip, limit: 1, window: 1m, close_for: 1m, escalate: {maxx: 1h}}]\n": "r:2:80: maxx: unknown field, did you mean max?",
		"version: 1\nrule: []\n":    "r:2:1: rule: unknown field, did you mean rules?",
		"versions: 1\nrules: []\n":  "r:1:1: versions: unknown field, did you mean version?",
		"version: 1\nnothing: []\n": "r:1:1: rules: missing, want a list\nr:2:1: nothing: unknown field, want one of version, rules",
		"version: 1\nrules: [{name: r, callers: ip, window: 1m, limt: 1, limit: 0}]\n": "r:2:44: limt: unknown field, did you mean limit?\nr:2:60: limit: got 0, want 1 or more",
	} {
		if _, err := Parse("r", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}
