package receiver

import (
	"encoding/base64"
	"strconv"
	"time"
)

// object is text to which objects of JSON are appended, member by member.
type object []byte

// name begins a member.
func (o *object) name(name string) {
	if (*o)[len(*o)-1] != '{' {
		*o = append(*o, ',')
	}
	o.quote(name)
	*o = append(*o, ':')
}

// text appends a member, if its text is not empty.
func (o *object) text(name, text string) {
	if text != "" {
		o.name(name)
		o.quote(text)
	}
}

// number appends a member.
func (o *object) number(name string, n uint64) {
	o.name(name)
	*o = strconv.AppendUint(*o, n, 10)
}

// time appends a member.
func (o *object) time(name string, at time.Time) {
	o.name(name)
	*o = append(*o, '"')
	*o = at.UTC().AppendFormat(*o, time.RFC3339Nano)
	*o = append(*o, '"')
}

// bytes appends a value: bytes in base64.
func (o *object) bytes(b []byte) {
	*o = append(*o, '"')
	*o = base64.StdEncoding.AppendEncode(*o, b)
	*o = append(*o, '"')
}

// quote appends a text in quotes.
func (o *object) quote(s string) {
	const hex = "0123456789abcdef"
	b := append(*o, '"')
	from := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, s[from:i]...)
			b = append(b, '\\', c)
			from = i + 1
		case c < ' ':
			b = append(b, s[from:i]...)
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			from = i + 1
		}
	}
	b = append(b, s[from:]...)
	*o = append(b, '"')
}
