package command

import (
	"testing"
	"time"
)

func TestOutputFlag(t *testing.T) {
	var o Output
	if o.String() != "table" || o.Type() != "format" {
		t.Errorf("zero value: got %s of type %s, want table of type format", o.String(), o.Type())
	}
	for _, text := range []string{"json", "table", "json"} {
		if err := o.Set(text); err != nil || o.String() != text || o.JSON != (text == "json") {
			t.Errorf("%s: got %v, %+v", text, err, o)
		}
	}
	for _, text := range []string{"", "JSON", "yaml", "json "} {
		if err := o.Set(text); err == nil || !o.JSON {
			t.Errorf("%q: got %v, %+v, want it refused and nothing changed", text, err, o)
		}
	}
}

// TestDurationFlag: durations have days and weeks, as in rules files, and no sign.
func TestDurationFlag(t *testing.T) {
	for text, want := range map[string]string{"90s": "1m30s", "12h": "12h", "7d": "7d", "2w": "14d", "1d12h": "36h", "0s": ""} {
		var d Duration
		if err := d.Set(text); err != nil || d.String() != want || d.Type() != "duration" {
			t.Errorf("%s: got %q and %v, want %q", text, d.String(), err, want)
		}
	}
	for _, text := range []string{"", "7", "-7d", "1y", "a week"} {
		d := Duration(time.Hour)
		if err := d.Set(text); err == nil || d != Duration(time.Hour) {
			t.Errorf("%q: got %v and %v, want an error and no change", text, d, err)
		}
	}
}
