package ingest

import "strings"

// maxBetween bounds the bytes of a field between two free ones, so that a line of many beginnings costs no square of its length.
const maxBetween = 256

// layoutDecoder reads lines of a layout. A line counts only if it has one reading: each field is found by the text of the layout
// around it and by what the server can write there, and where a client could have written that text too, it must occur once.
type layoutDecoder struct {
	*layout
	needed []segment // those that are read: the mapping names no field behind them
	split  bool      // method and target are asked for
}

// decode implements decoder. A line that ends early keeps the fields of its whole segments.
func (d *layoutDecoder) decode(s string, values []string, l *Line) Reason {
	if d.quoting == quotesUnescaped && strings.Count(s, `"`) != len(d.segments)-1 {
		return Ambiguous
	}
	if reason := d.segmentsOf(s, values); reason != OK {
		clear(values)
		return reason
	}
	if d.split {
		values[len(d.names)], values[len(d.names)+1] = l.splitRequest(values[d.request])
	}
	if d.unescape {
		for i, v := range values {
			if strings.IndexByte(v, '\\') >= 0 {
				values[i] = l.unquote(v)
			}
		}
	}
	return MissingField
}

// segmentsOf reads the segments of s that are needed.
func (d *layoutDecoder) segmentsOf(s string, values []string) Reason {
	cut := len(s) == MaxLine
	for i := range d.needed {
		g := &d.needed[i]
		if g.last {
			if cut && len(g.back)+len(g.middle) > 0 {
				return OK // its end is what a client made it
			}
			return g.read(s, values)
		}
		var end int
		if d.quoting == quotesEscaped {
			end = g.quote(s)
		} else {
			end = strings.IndexByte(s, '"')
		}
		if end < 0 {
			return OK // the line ends early
		}
		if g.alone {
			values[g.middle[0]] = s[:end]
		} else if reason := g.read(s[:end], values); reason != OK {
			return reason
		}
		s = s[end+1:]
	}
	return OK
}

// quote returns the index of the quote without a backslash at which the segment ends, or -1.
func (g *segment) quote(s string) int {
	for from := 0; ; {
		end := stringEnd(s, from)
		if end == len(s) {
			return -1
		}
		if !strings.HasPrefix(s[end:], `"" `) || strings.HasSuffix(s[:end], g.tail) {
			return end
		}
		from = end + 2 // Apache's way to write an empty user
	}
}

// read reads the fields of a segment whose text is s.
func (g *segment) read(s string, values []string) Reason {
	if !strings.HasPrefix(s, g.lead) {
		return BadFormat
	}
	s = s[len(g.lead):]
	for i := range g.front {
		f := &g.front[i]
		n := f.length(s)
		if n < 0 || !f.ends(s, n) {
			if g.last && n == len(s) {
				return OK // the line ends early, and this field perhaps as well
			}
			return BadFormat
		}
		values[f.field] = f.text(s[:n])
		s = s[n+len(f.after):]
	}
	if len(g.middle) == 0 {
		if s != "" && !g.last { // fields that a server added behind those of the layout change nothing
			return BadFormat
		}
		return OK
	}
	for i := range g.back {
		f := &g.back[i]
		if !strings.HasSuffix(s, f.after) {
			return BadFormat
		}
		s = s[:len(s)-len(f.after)]
		n := f.start(s)
		if n < 0 {
			return BadFormat
		}
		values[f.field] = f.text(s[n:])
		s = s[:n]
	}
	if !strings.HasSuffix(s, g.join) {
		return BadFormat
	}
	s = s[:len(s)-len(g.join)]
	if len(g.middle) == 1 {
		values[g.middle[0]] = s
		return OK
	}
	if !g.search {
		return OK
	}
	return g.searched(s, values)
}

// searched reads several free fields and the groups between them. Each group must occur once.
func (g *segment) searched(s string, values []string) Reason {
	for i := range g.groups {
		n := &g.groups[i]
		at, end, more := -1, 0, 0
		for from := 0; ; {
			k := strings.Index(s[from:], n.lead)
			if k < 0 {
				break
			}
			if length := n.match(s[from+k:], nil); length > 0 {
				if more++; more > 1 {
					return Ambiguous
				}
				at, end = from+k, from+k+length
			}
			from += k + 1
		}
		if at < 0 {
			return BadFormat
		}
		n.match(s[at:], values)
		values[g.middle[i]] = s[:at]
		s = s[end:]
	}
	values[g.middle[len(g.groups)]] = s
	return OK
}

// match returns the length of the group at the start of s, 0 if it is not there, and sets values, unless nil.
func (n *group) match(s string, values []string) int {
	at := len(n.lead)
	for i := range n.fields {
		f := &n.fields[i]
		length := f.length(s[at:min(len(s), at+maxBetween)])
		if length < 0 || !strings.HasPrefix(s[at+length:], f.after) || f.class == addrText && !likeAddress(s[at:at+length]) {
			return 0
		}
		if values != nil {
			values[f.field] = f.text(s[at : at+length])
		}
		at += length + len(f.after)
	}
	return at
}

// ends reports whether the text behind the field stands at n.
func (b *bounded) ends(s string, n int) bool {
	if len(b.after) == 1 {
		return n < len(s) && s[n] == b.after[0]
	}
	return strings.HasPrefix(s[n:], b.after)
}

// length returns the length of the field at the start of s, or -1.
func (b *bounded) length(s string) int {
	switch b.class {
	case clfText:
		if len(s) < clfLen {
			return -1
		}
		return clfLen
	case paddedText:
		digits := strings.TrimLeft(s, " ")
		return len(s) - len(digits) + b.span(digits)
	}
	return b.span(s)
}

// span returns how many bytes at the start of s may stand in the field.
func (b *bounded) span(s string) int {
	for i := range len(s) {
		if !b.set[s[i]] {
			return i
		}
	}
	return len(s)
}

// start returns where the field at the end of s starts, or -1.
func (b *bounded) start(s string) int {
	if b.class == clfText {
		return max(len(s)-clfLen, -1)
	}
	n := len(s)
	for n > 0 && b.set[s[n-1]] {
		n--
	}
	return n
}

// text returns the value of the field, whose text is s.
func (b *bounded) text(s string) string {
	if b.class == addrPortText || b.class == paddedText {
		return b.part(s)
	}
	return s
}

// part returns the value of a field that is only a part of its text s.
func (b *bounded) part(s string) string {
	if b.class == paddedText {
		return strings.TrimLeft(s, " ")
	}
	if i := strings.LastIndexByte(s, ':'); i > 0 {
		return s[:i]
	}
	return s
}
