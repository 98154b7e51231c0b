package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// class says which bytes the text of a field may hold. It is what makes a line readable in one way only.
type class uint8

const (
	freeText     class = iota // any: a client may have written it, with whatever stands behind it in the layout
	wordText                  // no blank, no control character
	nameText                  // a word without "/"
	stampText                 // a word without brackets
	numberText                // digits, signs, points; "-" for none
	addrText                  // what a server writes for the other end of a connection
	addrPortText              // an address with a port behind the last colon; the value is the address
	paddedText                // a number with blanks before it
	clfText                   // 17/May/2015:10:05:03 +0000
)

// has reports whether a byte may stand in a text of this class.
func (k class) has(c byte) bool {
	switch k {
	case wordText, addrPortText:
		return c > ' ' && c != 0x7f
	case nameText:
		return c > ' ' && c != '/' && c != 0x7f
	case stampText:
		return c > ' ' && c != '[' && c != ']' && c != 0x7f
	case numberText, paddedText:
		return c-'0' <= 9 || c == '.' || c == '-' || c == '+'
	case addrText:
		return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'z' || c == ':' || c == '.' || c == '%' || c == '-' || c == '_' || c == '/'
	}
	return true
}

// set returns the bytes of the class.
func (k class) set() (set [256]bool) {
	for c := range set {
		set[c] = k.has(byte(c))
	}
	return set
}

// token is a piece of a layout: literal text, or a field.
type token struct {
	text  string // of a literal; "" for a field
	field string
	class class
}

// quoting is what a server does to quotes inside of fields.
type quoting uint8

const (
	quotesAsHex     quoting = iota // \x22, %22 or #22: each quote of a line is one of the layout
	quotesEscaped                  // \": a quote with a backslash before it is inside of a field
	quotesUnescaped                // nothing: a line that has not as many quotes as the layout is refused
)

// layout is how a line is written: segments with a quote between them. Clients cannot write quotes, so no field reaches into another
// segment.
type layout struct {
	quoting  quoting
	segments []segment
	names    []string // of the fields, each once
	merged   []string // fields with nothing between them: nobody can see where one ends
	request  int      // the field that is a request line, or -1
	unescape bool     // values with a backslash are JSON strings
}

// segment is the text between two quotes of a line. Fields that are not free are read from both ends; what is left in the middle is
// one free field, or several with groups of other fields between them.
type segment struct {
	lead   string
	front  []bounded // read forwards: a field, then text
	middle []int     // free fields
	groups []group   // what stands between them
	back   []bounded // read backwards: a field, with text behind it
	join   string    // what stands before the first field of back
	tail   string    // the text before the quote, if there is one
	alone  bool      // it is one free field between two quotes
	last   bool      // no quote ends it
	search bool      // the mapping names one of the fields in the middle
}

// bounded is a field whose end can be seen, with the text behind it.
type bounded struct {
	field int
	class class
	set   [256]bool // the bytes of the class
	after string
}

// group is text and fields between two free fields.
type group struct {
	lead   string
	fields []bounded
}

// Errors about layouts; ErrMapping wraps them.
var (
	errLayoutEmpty = errors.New("it names no field")
	errLayoutSize  = fmt.Errorf("it has more than %d fields", maxColumns)
)

// newLayout makes a layout of tokens. The field that is a request line gives the fields method and target too.
func newLayout(tokens []token, q quoting, request string) (*layout, error) {
	y := &layout{quoting: q, request: -1}
	tokens = y.merge(tokens)
	start := 0
	for i, t := range tokens {
		if t.text == `"` {
			y.segments = append(y.segments, y.segment(tokens[start:i]))
			start = i + 1
		}
	}
	y.segments = append(y.segments, y.segment(tokens[start:]))
	y.segments[len(y.segments)-1].last = true
	switch {
	case len(y.names) == 0:
		return nil, errLayoutEmpty
	case len(y.names) > maxColumns:
		return nil, errLayoutSize
	}
	y.request = slices.Index(y.names, request)
	for i := range y.segments {
		g := &y.segments[i]
		g.alone = !g.last && len(g.middle) == 1 && len(g.front)+len(g.back) == 0 && g.lead+g.tail == ""
	}
	return y, nil
}

// merge cuts literals at their quotes, and makes one field of those with nothing between them.
func (y *layout) merge(tokens []token) (out []token) {
	for _, t := range tokens {
		if t.field == "" {
			for i, part := range strings.Split(t.text, `"`) {
				if i > 0 {
					out = append(out, token{text: `"`})
				}
				if part != "" {
					out = append(out, token{text: part})
				}
			}
			continue
		}
		if n := len(out); n > 0 && out[n-1].field != "" {
			y.merged = append(y.merged, out[n-1].field, t.field)
			out[n-1] = token{field: out[n-1].field + "+" + t.field}
			continue
		}
		out = append(out, t)
	}
	return out
}

// field returns the index of a field. Of two with the same name, the first counts.
func (y *layout) field(name string) int {
	y.names = append(y.names, name)
	return len(y.names) - 1
}

// segment makes one of the tokens between two quotes.
func (y *layout) segment(tokens []token) (g segment) {
	if len(tokens) > 0 && tokens[0].field == "" {
		g.lead, tokens = tokens[0].text, tokens[1:]
	}
	if n := len(tokens); n > 0 && tokens[n-1].field == "" {
		g.tail = tokens[n-1].text
	}
	var fields []bounded // with the text behind each
	for i, t := range tokens {
		if t.field == "" {
			continue
		}
		b := bounded{field: y.field(t.field), class: t.class}
		if i+1 < len(tokens) {
			b.after = tokens[i+1].text
			if b.class.openEnded() && b.class.has(b.after[0]) {
				b.class = freeText // the text behind it could be a part of it
			}
		}
		b.set = b.class.set()
		fields = append(fields, b)
	}
	isFree := func(b bounded) bool { return b.class == freeText }
	first := slices.IndexFunc(fields, isFree)
	if first < 0 {
		g.front = fields
		return g
	}
	last := len(fields) - 1
	for before := fields[max(last-1, 0)].after; last > first && fields[last].readBack(before); last-- {
		before = fields[max(last-2, 0)].after
	}
	g.front, g.back, g.join = fields[:first], slices.Clone(fields[last+1:]), fields[last].after
	slices.Reverse(g.back)
	for i := first; i <= last; i++ {
		if fields[i].class != freeText {
			n := &g.groups[len(g.groups)-1]
			n.fields = append(n.fields, fields[i])
			continue
		}
		g.middle = append(g.middle, fields[i].field)
		if i < last {
			g.groups = append(g.groups, group{lead: fields[i].after})
		}
	}
	return g
}

// openEnded reports whether a text of the class ends where a byte follows that it cannot hold.
func (k class) openEnded() bool { return k != freeText && k != clfText && k != addrPortText }

// readBack reports whether the field can be read from its end: its start shows, behind the text that stands before it.
func (b bounded) readBack(before string) bool {
	return b.class == clfText || b.class.openEnded() && b.class != paddedText && before != "" && !b.class.has(before[len(before)-1])
}

// decoders returns the names of the fields, and a constructor of decoders.
func (y *layout) decoders() (fieldNames, func() decoder, error) {
	names := newFixedNames(append(slices.Clone(y.names), "method", "target"))
	names.unreadable = y.merged
	return names, func() decoder {
		d := &layoutDecoder{layout: y, split: y.request >= 0 && (names.asked(len(y.names)) || names.asked(len(y.names)+1))}
		asked := func(f int) bool { return names.asked(f) || d.split && f == y.request }
		needed := 0
		for i, g := range y.segments {
			g.search = slices.ContainsFunc(g.between(), asked)
			if g.search || slices.ContainsFunc(g.sides(), asked) {
				needed = i + 1
			}
			d.needed = append(d.needed, g)
		}
		d.needed = d.needed[:needed]
		return d
	}, nil
}

// sides returns the fields that are read from the two ends, and between those in the middle.
func (g *segment) sides() []int { return append(fieldsOf(g.front), fieldsOf(g.back)...) }

func (g *segment) between() []int {
	fields := slices.Clone(g.middle)
	for _, n := range g.groups {
		fields = append(fields, fieldsOf(n.fields)...)
	}
	return fields
}

func fieldsOf(from []bounded) (fields []int) {
	for _, b := range from {
		fields = append(fields, b.field)
	}
	return fields
}

// parseLayout reads a layout of this package: text with fields in braces, as in {client:addr} or {method}, which is a word.
func parseLayout(s string) (tokens []token) {
	classes := map[string]class{
		"": wordText, "free": freeText, "name": nameText, "stamp": stampText, "number": numberText, "addr": addrText, "addrport": addrPortText, "padded": paddedText, "clf": clfText,
	}
	for s != "" {
		open := strings.IndexByte(s, '{')
		if open != 0 {
			if open < 0 {
				open = len(s)
			}
			tokens, s = append(tokens, token{text: s[:open]}), s[open:]
			continue
		}
		field, rest, _ := strings.Cut(s[1:], "}")
		field, kind, _ := strings.Cut(field, ":")
		tokens, s = append(tokens, token{field: field, class: classes[kind]}), rest
	}
	return tokens
}

// newText makes decoders of a layout of this package.
func newText(text string, q quoting, request string) func(Mapping) (fieldNames, func() decoder, error) {
	return func(Mapping) (fieldNames, func() decoder, error) {
		y, err := newLayout(parseLayout(text), q, request)
		if err != nil {
			return nil, nil, err
		}
		return y.decoders()
	}
}
