package offline

import (
	"strings"
	"testing"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// What is wrong is printed one finding a line, with what was found, what is wanted and why; only errors fail.
func TestTopicsFindings(t *testing.T) {
	finding := kafkaio.Finding{Topic: "floodgate.requests", Setting: "cleanup.policy", Got: "compact", Want: "delete", Severity: kafkaio.Error, Why: "counts would be lost"}
	warning := kafkaio.Finding{Topic: "floodgate.state", Setting: "segment.ms", Got: "7d", Want: "<= 10m", Severity: kafkaio.Warning, Why: "old cycles stay long"}
	specs := kafkaio.Specs(schemas.DefaultTopicNames(), 4)
	tests := []struct {
		name     string
		findings []kafkaio.Finding
		created  []string
		err      string // empty is none
		table    []string
		json     []string
	}{
		{"nothing wrong", nil, []string{}, "", []string{"6 topics, all as they should be"}, []string{`{"created":[],"findings":0,"topics":6,"type":"summary"}`}},
		{
			"created", nil, []string{"floodgate.requests"}, "", []string{"created floodgate.requests with message.timestamp.after.max.ms=2000\n6 topics"},
			[]string{`{"created":["floodgate.requests"],"findings":0,"topics":6,"type":"summary"}`},
		},
		{
			"a warning is no failure", []kafkaio.Finding{warning}, []string{}, "",
			[]string{"| warning | floodgate.state | segment.ms | 7d  | <= 10m | old cycles stay long |"},
			[]string{`"severity":"warning"`, `"want":"<= 10m"`, `"findings":1`},
		},
		{
			"an error is one", []kafkaio.Finding{finding, warning}, []string{}, "topics: 1 wrong setting",
			[]string{"|   error | floodgate.requests | cleanup.policy | compact | delete | counts would be lost |"},
			[]string{`{"got":"compact","setting":"cleanup.policy","severity":"error","topic":"floodgate.requests","type":"finding","want":"delete","why":"counts would be lost"}`, `"findings":2`},
		},
	}
	for _, test := range tests {
		for _, asJSON := range []bool{false, true} {
			var out strings.Builder
			err := printTopics(command.Process{Stdout: &out}, asJSON, specs, test.created, test.findings)
			if test.err == "" && err != nil || test.err != "" && (err == nil || err.Error() != test.err) {
				t.Errorf("%s: got %v, want %q", test.name, err, test.err)
			}
			want := test.table
			if asJSON {
				want = test.json
			}
			for _, text := range want {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%s: want %s in\n%s", test.name, text, &out)
				}
			}
		}
	}
}
