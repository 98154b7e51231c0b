package ingest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/schemas"
)

// template is a caller template cut into its parts: text, then a field, and so on; tail is the text behind the last.
type template struct {
	parts []templatePart
	tail  string
}

// templatePart is a field with the text before it.
type templatePart struct {
	text  string
	field string
	ref   ref // of field, once the format is known
}

// Errors about templates; ErrMapping wraps them.
var (
	errTemplateBrace = errors.New("braces do not pair, or stand in one another")
	errTemplateEmpty = errors.New("an empty field name")
	errTemplateNone  = errors.New("no field in braces")
	errTemplateJoin  = errors.New("two fields with nothing between them: different callers would be counted as one")
	errTemplateSize  = fmt.Errorf("more than %d fields", maxParts)
)

// parseTemplate cuts a template into its parts.
func parseTemplate(s string) (template, error) {
	var t template
	for rest := s; ; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			t.tail = rest
			break
		}
		end := strings.IndexByte(rest, '}')
		if end < open || strings.IndexByte(rest[open+1:end], '{') >= 0 {
			return t, errTemplateBrace
		}
		p := templatePart{text: rest[:open], field: rest[open+1 : end]}
		switch {
		case p.field == "":
			return t, errTemplateEmpty
		case p.text == "" && len(t.parts) > 0:
			return t, errTemplateJoin
		}
		t.parts = append(t.parts, p)
		rest = rest[end+1:]
	}
	switch {
	case strings.IndexByte(t.tail, '}') >= 0:
		return t, errTemplateBrace
	case len(t.parts) == 0:
		return t, errTemplateNone
	case len(t.parts) > maxParts:
		return t, errTemplateSize
	}
	return t, nil
}

// alone reports whether the template is one field and nothing else.
func (t *template) alone() bool { return len(t.parts) == 1 && t.parts[0].text == "" && t.tail == "" }

// caller sets the i-th id of l from its template, in the form in which it is counted. It returns OK also where the line has no
// such caller: one of the fields is not there. The reasons are for an id that is there and cannot be used.
func (s *scan) caller(i int, c *caller, l *Line) Reason {
	var id string
	if c.template.alone() {
		r := &c.template.parts[0].ref
		if id = s.value(r, l); id == "" {
			if r.ofClient() && s.client.there && s.client.addr == "" {
				return BadAddress
			}
			return OK
		}
		if schemas.OfAddress(c.kind) && !r.ofClient() {
			if id = s.m.ofAddress(c.kind, id, l); id == "" {
				return BadAddress
			}
		}
	} else if id = s.join(&c.template, l); id == "" {
		return OK
	}
	if c.kind == kindHost {
		id = strings.ToLower(strings.TrimSuffix(id, "."))
	}
	if c.secret != nil {
		l.IDs[i] = c.secret.ID(id)
	} else {
		l.IDs[i] = schemas.ID(id)
	}
	return OK
}

// join makes a composite id in l's scratch, or "" if there is none.
func (s *scan) join(t *template, l *Line) string {
	var values [maxParts]string
	for j := range t.parts {
		v := s.value(&t.parts[j].ref, l)
		if v == "" {
			return ""
		}
		if j < len(t.parts)-1 {
			v = schemas.Part(v, t.parts[j+1].text)
		}
		values[j] = v
	}
	n := len(l.scratch)
	for j := range t.parts {
		l.scratch = append(l.scratch, t.parts[j].text...)
		l.scratch = append(l.scratch, values[j]...)
	}
	l.scratch = append(l.scratch, t.tail...)
	return view(l.scratch[n:])
}
