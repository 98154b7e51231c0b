package replay

import (
	"errors"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// TestRequestsInOrder: Requests visits the lines of several logs in order of time and counts nothing; an error of visit ends it.
func TestRequestsInOrder(t *testing.T) {
	line := func(second string) string {
		return `192.0.2.1 - - [14/Mar/2026:09:00:` + second + ` +0000] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n"
	}
	format, err := ingest.NewFormat("combined", ingest.Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: r, callers: ip, limit: 1, window: 1m}\n"))
	if err != nil {
		t.Fatal(err)
	}
	config := func() Config {
		return Config{Rules: set, Format: format, Reorder: DefaultReorder, Inputs: []Input{
			{Name: "a", Reader: strings.NewReader(line("01") + line("05") + "garbage\n")},
			{Name: "b", Reader: strings.NewReader(line("04") + line("02"))},
		}}
	}
	var times []int64
	sum, err := Requests(t.Context(), config(), func(l *ingest.Line) error {
		times = append(times, l.Time/1e9%60)
		return nil
	})
	if err != nil || len(times) != 4 || times[0] != 1 || times[1] != 2 || times[2] != 4 || times[3] != 5 || sum.Lines != 5 || sum.Rejected != 1 || sum.Requests != 0 {
		t.Errorf("got %v, seconds %d and %+v; want the seconds 1, 2, 4 and 5 of 5 lines, of which one is rejected", err, times, sum)
	}
	wrong, calls := errors.New("enough"), 0
	if _, err := Requests(t.Context(), config(), func(*ingest.Line) error { calls++; return wrong }); !errors.Is(err, wrong) || calls != 1 {
		t.Errorf("got %v after %d calls, want the error of the first", err, calls)
	}
	if _, err := Requests(t.Context(), Config{}, nil); err == nil {
		t.Error("got no error of an empty configuration")
	}
}
