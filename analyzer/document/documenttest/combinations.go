package documenttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/509da70d/floodgate/analyzer/document"
)

// Form is a mapping with fields: a rule, or an endpoint.
type Form struct {
	Good    map[string]any      // the fields of one that is accepted
	Choices map[string][]any    // values of each field, good and bad ones
	Within  func(entry any) any // the file that holds an entry
	Loader  *regexp.Regexp      // matches the errors about what a schema can't see
	Pairs   bool                // whether to try each pair of values, which takes long
}

// Combinations tries entries that no file has: each value of each field alone, on request each pair of values of two fields, and
// more at random. What Parse accepts, the schema accepts too: no editor marks a good file. What only the schema accepts is
// wrong in a way that a schema can't see.
func (r *Reader) Combinations(t *testing.T, f Form) {
	t.Helper()
	c := &combiner{Reader: r, Form: f, schema: compile(t, r.Schema)}
	fields := slices.Sorted(maps.Keys(f.Choices))
	for i, first := range fields {
		for _, value := range f.Choices[first] {
			entry := maps.Clone(f.Good)
			entry[first] = value
			c.try(t, entry)
			if !f.Pairs {
				continue
			}
			for _, second := range fields[i+1:] {
				for _, value := range f.Choices[second] {
					entry := maps.Clone(entry)
					entry[second] = value
					c.try(t, entry)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) { c.try(t, c.draw(t)) })
	if c.accepted < 5 || c.refused < 5 {
		t.Errorf("got %d accepted and %d refused, want both kinds tried", c.accepted, c.refused)
	}
}

type combiner struct {
	*Reader
	Form
	schema            schema
	accepted, refused int // by Parse and the schema
}

// draw leaves out a good field now and then, and sets up to five.
func (c *combiner) draw(t *rapid.T) map[string]any {
	entry := make(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(c.Good)) {
		if rapid.IntRange(0, 19).Draw(t, "keeps "+field) > 0 {
			entry[field] = c.Good[field]
		}
	}
	fields := slices.Sorted(maps.Keys(c.Choices))
	for range rapid.IntRange(0, 5).Draw(t, "fields") {
		field := rapid.SampledFrom(fields).Draw(t, "field")
		entry[field] = rapid.SampledFrom(c.Choices[field]).Draw(t, field)
	}
	return entry
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func (c *combiner) try(t failer, entry map[string]any) {
	t.Helper()
	data, err := json.Marshal(c.Within(entry)) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	_, wrong := c.Parse(data)
	invalid := c.schema.validateJSON(data)
	switch {
	case wrong == nil && invalid == nil:
		c.accepted++
	case wrong != nil && invalid != nil:
		c.refused++
	case wrong == nil:
		t.Fatal(fmt.Sprintf("%s\nis loaded, but an editor says %v", data, invalid))
	default:
		if e := c.seen(wrong); e != nil {
			t.Fatal(fmt.Sprintf("%s\nis good to an editor, and the loader says %v", data, e))
		}
	}
}

// seen returns an error that a schema could see, or nil.
func (c *combiner) seen(wrong error) error {
	var errs document.Errors
	if !errors.As(wrong, &errs) {
		return wrong
	}
	for _, e := range errs {
		if !c.Loader.MatchString(e.Msg) {
			return e
		}
	}
	return nil
}
