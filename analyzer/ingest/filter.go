package ingest

import (
	"errors"
	"fmt"

	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
)

// filter is a Filter whose fields were found in a format.
type filter struct {
	client *schemas.Networks // nil is any
	status *statusSet        // nil is any
	fields []fieldFilter
}

type fieldFilter struct {
	ref      ref
	patterns []pattern.Glob
}

// filters compiles the drop filters.
func (c *compiler) filters(from []Filter) []filter {
	if len(from) > maxFilters {
		c.fail(fmt.Errorf("got %d drop filters, want at most %d", len(from), maxFilters))
		return nil
	}
	made := make([]filter, 0, len(from))
	for _, f := range from {
		if len(f.Client)+len(f.Status)+len(f.Fields) == 0 {
			c.fail(errors.New("a drop filter that holds for every line"))
		}
		if len(f.Client) > 0 && !c.clientKnown {
			c.fail(errors.New("a drop filter of clients, but no field with the client"))
		}
		var n filter
		if len(f.Client) > 0 {
			client := schemas.NewNetworks(f.Client)
			n.client = &client
		}
		if len(f.Status) > 0 {
			n.status = new(statusSet)
			for _, r := range f.Status {
				n.status.add(r)
			}
		}
		n.fields = c.fieldFilters(f.Fields)
		made = append(made, n)
	}
	return made
}

// fieldFilters compiles conditions on fields.
func (c *compiler) fieldFilters(from []FieldFilter) (made []fieldFilter) {
	for _, in := range from {
		r := c.value(in.Field)
		if r.what == refResource {
			r.what = refPath
		}
		made = append(made, fieldFilter{r, in.Patterns})
	}
	return made
}

// dropped reports whether one of the filters matches l.
func (s *scan) dropped(l *Line) bool {
	for i := range s.m.drop {
		if s.holds(&s.m.drop[i], l) {
			return true
		}
	}
	return false
}

// holds reports whether all conditions of f are true.
func (s *scan) holds(f *filter, l *Line) bool {
	if f.status != nil && !f.status.has(l.Status) {
		return false
	}
	return s.match(f.fields, l) && (f.client == nil || contains(*f.client, s.clientAddr(l)))
}

// match reports whether all conditions on fields are true.
func (s *scan) match(fields []fieldFilter, l *Line) bool {
	for i := range fields {
		v, match := s.filtered(&fields[i].ref, l), false
		for _, g := range fields[i].patterns {
			match = match || g.Match(v)
		}
		if !match {
			return false
		}
	}
	return true
}

// filtered returns the value that a filter looks at. For the client that is the whole address, not the network that is counted.
func (s *scan) filtered(r *ref, l *Line) string {
	if r.what == refClient {
		return s.clientAddr(l)
	}
	return s.value(r, l)
}
