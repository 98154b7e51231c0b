package offline

import (
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// What a stranger wrote is printed so that it draws nothing on the terminal.
func TestRepairedEpochsArePrintedPlainly(t *testing.T) {
	var out strings.Builder
	reports := []analyzer.EpochReport{
		{Partition: 0, Owner: 5, Highest: 5, By: "host/1"},
		{Partition: 1, Owner: 5, Highest: 9, By: "x\x1b]0;owned\n\u202e", Refused: 3, Claimed: 10},
	}
	if err := renderEpochs(command.Process{Stdout: &out}, reports); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"host/1"`, `"x\x1b]0;owned\n\u202e"`, "2 partitions, 1 taken back"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %s in it", &out, want)
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("got control characters in %q", out.String())
	}
}
