package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// outcome is all that a run says.
type outcome struct {
	closes  []Close
	summary Summary
}

func (o outcome) callers() map[string]int {
	n := map[string]int{}
	for _, c := range o.closes {
		n[c.Caller]++
	}
	return n
}

func (c Close) brief() string {
	return fmt.Sprintf("%s %s %s", c.Caller, c.CloseAt.Format(time.RFC3339Nano), c.Until.Format(time.RFC3339Nano))
}

// String is the outcome without what does not concern the counts.
func (o outcome) String() string {
	var b strings.Builder
	for _, c := range o.closes {
		fmt.Fprintf(&b, "%s %s %d/%d\n", c.Rule, c.brief(), c.Count, c.Limit)
	}
	if a := o.summary.Accuracy; a != nil {
		fmt.Fprintf(&b, "%+v\n", *a)
		o.summary.Accuracy = nil // a pointer
	}
	fmt.Fprintf(&b, "%+v\n", o.summary)
	return b.String()
}

// run replays c, in combined format unless it says otherwise, with a reorder span of two minutes unless it has one.
func run(t testing.TB, c Config) outcome {
	t.Helper()
	if c.Format == nil {
		c.Format = format(t, "combined", ingest.Mapping{})
	}
	if c.Reorder == 0 {
		c.Reorder = DefaultReorder
	}
	return runAs(t, c)
}

// runAs replays c as it is.
func runAs(t testing.TB, c Config) outcome {
	t.Helper()
	var o outcome
	c.OnClose = func(x Close) error {
		o.closes = append(o.closes, x)
		return nil
	}
	var err error
	if o.summary, err = Run(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	s := o.summary
	if s.Lines != s.Rejected+s.Late+s.Requests || int64(len(o.closes)) != s.Closes {
		t.Errorf("lines that are nowhere, or closes: %+v", s)
	}
	if !slices.IsSortedFunc(o.closes, func(a, b Close) int { return a.CloseAt.Compare(b.CloseAt) }) {
		t.Error("closes are not in order of time")
	}
	return o
}

func format(t testing.TB, name string, m ingest.Mapping) *ingest.Format {
	t.Helper()
	f, err := ingest.NewFormat(name, m)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rule returns a set of rules about callers of kind ip, each given as flow YAML without its braces, name and callers.
func rule(t testing.TB, bodies ...string) *rules.Set {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i, body := range bodies {
		if !strings.Contains(body, "callers:") {
			body = "callers: ip, " + body
		}
		fmt.Fprintf(&b, "  - {name: r%d, %s}\n", i, body)
	}
	set, err := rules.Parse("rules.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// text is an input.
func text(s string) []Input { return []Input{{Name: "log", Reader: strings.NewReader(s)}} }
