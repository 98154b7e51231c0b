package document

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	good := map[string]time.Duration{
		"1m": time.Minute, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * day, "2w": 14 * day, "1w2d3h": 9*day + 3*time.Hour,
		"1.5d": 36 * time.Hour, "0.5w": 84 * time.Hour, "1500ms": 1500 * time.Millisecond, "0s": 0, "5us": 5000, "5µs": 5000, "5μs": 5000, "1ns": 1,
		"30s1m": 90 * time.Second, "106751d": 106751 * day,
	}
	for text, want := range good {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %v and %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "60", "s", "1", "-1m", "+1m", "1 m", " 1m", "1m ", "1.s", ".5s", "1..5s", "1M", "1y", "1mo", "1d2", "d",
		"106752d", "15251w", "9999999999999h", "106751d24h", "1e3s", "１m", "1d-1h"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// FuzzParseDuration holds the pattern of the schema, the loader and Go to one another.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1m", "1h30m", "7d", "1.5w", "1.s", "5µs", "-1s", "99999999w"} {
		f.Add(text)
	}
	data, err := os.ReadFile("../../schemas/rules.schema.json")
	if err != nil {
		f.Fatal(err)
	}
	var schema struct {
		Defs map[string]struct{ Pattern string } `json:"$defs"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		f.Fatal(err)
	}
	pattern := regexp.MustCompile(schema.Defs["duration"].Pattern)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseDuration(text)
		if err == nil && (got < 0 || !pattern.MatchString(text)) {
			t.Fatalf("%q: got %v, which the schema refuses", text, got)
		}
		if want, goErr := time.ParseDuration(text); err == nil && goErr == nil && got != want {
			t.Fatalf("%q: got %v, want %v as in Go", text, got, want)
		} else if err != nil && goErr == nil && pattern.MatchString(text) {
			t.Fatalf("%q: got %v, want %v as in Go", text, err, want)
		}
	})
}

// TestFormatDuration: what is written is read as the same duration.
func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", time.Minute: "1m", time.Hour: "1h", 10 * time.Hour: "10h", 24 * time.Hour: "1d",
		36 * time.Hour: "36h", 366 * 24 * time.Hour: "366d", time.Hour + time.Second: "1h0m1s", time.Millisecond: "1ms",
	} {
		got := FormatDuration(d)
		if again, err := ParseDuration(got); got != want || err != nil || again != d {
			t.Errorf("%d: got %s, read as %v and %v, want %s", d, got, again, err, want)
		}
	}
}
