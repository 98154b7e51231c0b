package ingest

import "strings"

// columns reads lines of fields in a fixed order with a space between them. A field is bare, in quotes or in brackets. Such are
// Envoy's default text and the access logs of AWS application load balancers.
type columns struct {
	request int  // the field that is a request line; the method and the target go behind all fields
	fields  int  // how many there are
	quotes  int  // how many quotes a line has, where those inside of fields are not escaped; 0 is any number, escaped
	needed  int  // how many fields are read: the mapping names none behind them
	escapes bool // a backslash escapes a quote
}

// newColumns makes decoders of fields with these names. One of them is a request line, whose parts are method and target.
func newColumns(layout columns, names ...string) func(Mapping) (fieldNames, func() decoder, error) {
	return func(Mapping) (fieldNames, func() decoder, error) {
		fixed := newFixedNames(append(names, "method", "target|path"))
		return fixed, func() decoder {
			c := layout
			c.fields = len(names)
			for i := range names {
				if fixed.asked(i) || i == c.request && (fixed.asked(len(names)) || fixed.asked(len(names)+1)) {
					c.needed = i + 1
				}
			}
			return &c
		}, nil
	}
}

// decode implements decoder. An absent field has no value. A line with an unescaped quote inside a field is refused whole: the
// fields cannot be separated with certainty, and a client may have written the quote to look like another client.
func (c *columns) decode(s string, values []string, l *Line) Reason {
	if c.quotes > 0 && strings.Count(s, `"`) != c.quotes { // fewer: it was cut, and some of them may be a client's
		return Ambiguous
	}
	for i := 0; i < c.needed && s != ""; i++ {
		values[i], s = c.next(s)
	}
	values[c.fields], values[c.fields+1] = l.splitRequest(values[c.request])
	return MissingField
}

// next returns the first field of s, and the text behind the space that follows it. A field that is cut short is no field.
func (c *columns) next(s string) (field, rest string) {
	var end int
	switch {
	case s[0] == '"' && c.escapes:
		end = stringEnd(s, 1)
	case s[0] == '"':
		end = strings.IndexByte(s[1:], '"') + 1
	case s[0] == '[':
		end = strings.IndexByte(s, ']')
	default:
		field, rest, found := strings.Cut(s, " ")
		if !found {
			return "", "" // it may be the start of a longer one: 1.2.3.41 begins with 1.2.3.4
		}
		return field, rest
	}
	if end <= 0 || end >= len(s) {
		return "", "" // as above; and in a list of forwarded addresses, the last one matters
	}
	return s[1:end], strings.TrimPrefix(s[end+1:], " ")
}
