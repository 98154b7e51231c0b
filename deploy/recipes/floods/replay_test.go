package floods

import (
	"bytes"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/replay"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// replayed returns what rules refuse of the log, as floodgate replay counts it. The mapping makes one caller of each line.
func replayed(t *testing.T, requests []Request, rulesText, mappingText string) refuses {
	t.Helper()
	var c replay.Config
	var err error
	if c.Rules, err = rules.Parse("rules.yaml", []byte(rulesText)); err != nil {
		t.Fatal(err)
	}
	if c.Format, err = ingest.ParseMapping("mapping.yaml", []byte(mappingText), "", schemas.IDs{}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for i := range requests {
		log.WriteString(requests[i].Line() + "\n")
	}
	c.Inputs, c.Reorder = []replay.Input{{Name: "the flood", Reader: &log}}, replay.DefaultReorder
	var blocked []bool // in the order of the log, because lines of one second stay in their order
	c.OnEntry = func(e *schemas.Entry) {
		if !strings.HasPrefix(e.Kind, "_") { // a tally or a level is of no line
			blocked = append(blocked, e.Blocked)
		}
	}
	if _, err := replay.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(blocked) != len(requests) {
		t.Fatalf("got %d entries of %d lines, want one of each", len(blocked), len(requests))
	}
	n := 0
	return func(*Request) bool {
		n++
		return blocked[n-1]
	}
}
