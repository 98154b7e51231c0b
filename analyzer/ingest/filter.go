package ingest

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// filter is a Filter that was made to fit a format.
type filter struct {
	client []netip.Prefix
	status *statusSet // nil is any
	fields []fieldFilter
}

type fieldFilter struct {
	ref      ref
	patterns []rules.Glob
}

// filters compiles the drop filters.
func (c *compiler) filters(from []Filter) []filter {
	if len(from) > MaxFilters {
		c.fail(fmt.Errorf("got %d drop filters, want at most %d", len(from), MaxFilters))
		return nil
	}
	made := make([]filter, 0, len(from))
	for _, f := range from {
		if len(f.Client)+len(f.Status)+len(f.Fields) == 0 {
			c.fail(errors.New("a drop filter that holds for every line"))
		}
		if len(f.Client) > 0 && !c.clientKnown {
			c.fail(errors.New("a drop filter of clients, and no field that says who the client is"))
		}
		n := filter{client: f.Client}
		if len(f.Status) > 0 {
			n.status = new(statusSet)
			for _, r := range f.Status {
				n.status.add(r)
			}
		}
		for _, in := range f.Fields {
			r := c.value(in.Field)
			if r.what == refResource {
				r.what = refPath
			}
			n.fields = append(n.fields, fieldFilter{r, in.Patterns})
		}
		made = append(made, n)
	}
	return made
}

// dropped reports whether one of the filters holds for l.
func (s *scan) dropped(l *Line) bool {
	for i := range s.m.drop {
		if s.holds(&s.m.drop[i], l) {
			return true
		}
	}
	return false
}

// holds reports whether all of f holds.
func (s *scan) holds(f *filter, l *Line) bool {
	if f.status != nil && !f.status.has(l.Status) {
		return false
	}
	for i := range f.fields {
		v, match := s.value(&f.fields[i].ref, l), false
		for _, g := range f.fields[i].patterns {
			match = match || g.Match(v)
		}
		if !match {
			return false
		}
	}
	return len(f.client) == 0 || contains(f.client, s.clientID(l))
}
