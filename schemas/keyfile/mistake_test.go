package keyfile_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/schemas/keyfile"
)

// TestAFileWithAMistakeRevokesAndAddsNothing: whoever takes a line out at night must be able to rely on it, whatever else stands in the
// file; and a line that is half written gives nobody more than before.
func TestAFileWithAMistakeRevokesAndAddsNothing(t *testing.T) {
	format := levels()
	format.Lower = func(a, b int) int { return min(a, b) }
	path, now := filepath.Join(t.TempDir(), "keys"), time.Now()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	anna, bert, carl := " "+sum("a")+"\n", " "+sum("b")+"\n", " "+sum("c")+"\n"
	write("anna 5" + anna + "bert 5" + bert)
	var log strings.Builder
	f, err := keyfile.Open(path, format, now, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		levels     [3]int // of a, b and c; 0 is none
		refused    string
	}{
		{"a mistake, and one more", "anna 5" + anna + "bert 5" + bert + "carl 5" + carl + "oops\n", [3]int{5, 5, 0}, "line 4"},
		{"one lower, one higher", "anna 2" + anna + "bert 9" + bert + "oops\n", [3]int{2, 5, 0}, "line 3"},
		{"one is gone", "bert 9" + bert + "oops\n", [3]int{0, 5, 0}, "line 2"},
		{"one comes back too early", "anna 5" + anna + "bert 9" + bert + "oops\n", [3]int{0, 5, 0}, "line 3"},
		{"nothing but mistakes changes nothing", "oops\n", [3]int{0, 5, 0}, "line 1"},
		{"all is right", "anna 5" + anna + "carl 1" + carl, [3]int{5, 0, 1}, ""},
	} {
		write(c.text)
		now = now.Add(2 * keyfile.Checked)
		for i, secret := range []string{"a", "b", "c"} {
			e, ok := f.Find(secret, now)
			if ok != (c.levels[i] > 0) || e.Value != c.levels[i] {
				t.Errorf("%s: %s: got %d, %v, want %d", c.name, secret, e.Value, ok, c.levels[i])
			}
		}
		if got := f.Refused(now); (got == "") != (c.refused == "") || !strings.Contains(got, c.refused) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.refused)
		}
	}
	if strings.Contains(log.String(), sum("a")) {
		t.Errorf("got a sum in the log:\n%s", log.String())
	}
}

// TestAClockThatWasSetBackRevokesToo: the file was read last while the clock was a year ahead. That year is not waited for.
func TestAClockThatWasSetBackRevokesToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(name+" 1 "+sum(name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Unix(1000, 0)
	write("anna")
	f, err := keyfile.Open(path, levels(), now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i, now := range []time.Time{now.AddDate(1, 0, 0), now, now.Add(-time.Hour)} {
		before, after := fmt.Sprint("user", i), fmt.Sprint("user", i+1)
		if i == 0 {
			before = "anna"
		}
		if _, ok := f.Find(before, now); !ok {
			t.Errorf("%v: %s is refused, want it to be known", now, before)
		}
		write(after)
		now = now.Add(keyfile.Checked)
		if _, ok := f.Find(before, now); ok {
			t.Errorf("%v: %s is still known, want it to be revoked", now, before)
		}
		if _, ok := f.Find(after, now); !ok {
			t.Errorf("%v: %s is refused, want it to be known", now, after)
		}
	}
}
