package schemas

import (
	"os"
	"strings"
	"testing"
)

// Producers and gates in other languages find the topics by their default names, which the specification says.
func TestTheSpecificationNamesTheTopics(t *testing.T) {
	text, err := os.ReadFile("DECISIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	names := DefaultTopicNames()
	for topic, name := range map[string]string{"requests": names.Requests, "decisions": names.Decisions, "state": names.State} {
		if row := "| " + topic + " | `" + name + "` |"; !strings.Contains(string(text), row) {
			t.Errorf("got no row %q in DECISIONS.md", row)
		}
	}
}
