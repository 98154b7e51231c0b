package ingest

import (
	"fmt"
	"strings"
)

// autoOrder is the order in which formats are tried: those that accept less come first. A common
// line is a combined one that was cut.
func autoOrder() []string {
	return []string{"combined", "envoy_text", "alb", "caddy", "traefik", "envoy", "ecs", "nginx", "json", "logfmt"}
}

// newAuto returns the format that finds out by itself: the first line that one of the formats can read decides for all
// that follow in the same log, so that nothing a client sends can change it later. Only formats that the mapping fits are
// tried. Lines before are refused with the reason of the last format that might have been.
func newAuto(m Mapping) (*Format, error) {
	a := &autoFormat{}
	made := &Format{name: FormatAuto, header: true, silent: m.NoResponses}
	var first error
	for _, name := range autoOrder() {
		f, err := NewFormat(name, m)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if made.kinds == nil {
			made.kinds = f.kinds
		}
		if strings.Join(f.kinds, " ") != strings.Join(made.kinds, " ") {
			continue // whoever reads the lines knows their callers by their place
		}
		a.formats = append(a.formats, f)
	}
	if len(a.formats) == 0 {
		return nil, fmt.Errorf("%w: no format has the fields of the mapping: %w", ErrMapping, first)
	}
	made.open = func() Scanner { return &auto{formats: a.formats} }
	return made, nil
}

// autoFormat is the formats that are tried.
type autoFormat struct{ formats []*Format }

// auto is a scanner that does not know yet what it reads.
type auto struct {
	formats []*Format
	found   Scanner
	name    string
}

// Scan implements Scanner.
func (a *auto) Scan(line []byte, l *Line) Reason {
	if a.found != nil {
		return a.found.Scan(line, l)
	}
	reason := BadFormat
	text := strings.TrimLeft(strings.TrimPrefix(view(line), "\ufeff"), " ")
	object := strings.HasPrefix(text, "{")
	for _, f := range a.formats {
		if json := isJSON(f.name); json != object {
			continue
		}
		s := f.Scanner()
		switch r := s.Scan(line, l); {
		case !r.Rejected():
			a.found, a.name = s, f.name
			return r
		default:
			reason = r
		}
	}
	return reason
}

// isJSON reports whether a format is one of JSON objects.
func isJSON(name string) bool {
	for _, s := range jsonStyles() {
		if s.name == name {
			return true
		}
	}
	return false
}
