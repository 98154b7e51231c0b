package ingest

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unsafe"

	"github.com/valyala/fastjson"
)

// jsonLog reads logs of one JSON object a line. It walks over the members by hand and notes the values of the wanted
// ones; only a value with an escape, or inside of another object, is handed to a real parser.
//
// It takes what it can read: the walk ends at the first damage, and what was found before counts. Of equal keys the last
// counts, as in encoding/json. It accepts some texts that are no JSON, such as those with a raw control character.
type jsonLog struct {
	*jsonNames
	last    [24]jsonMember // the first members of the last line
	keys    fastjson.Parser
	objects fastjson.Parser
	parsed  int             // bytes that objects has parsed since it was new
	object  string          // what objects parsed last
	nested  *fastjson.Value // and made of it; nil if it could not
	values  []string        // of the line at hand: the text of a string, number, true or false; empty if absent or null
}

// jsonNames are the wanted members. They do not change once the format is made.
type jsonNames struct {
	slots  map[string]int
	wanted []jsonField
	byKey  [64]uint64 // bit i of the word at keySlot(key): wanted[i] has this key, or one that falls together with it
}

// jsonField is a wanted member: of the object itself, or reached from there by a path of keys.
type jsonField struct {
	key  string
	path []string // the keys below that one
	slot int      // index in values

	bytes bool // the value may also be a list of bytes, as journald writes a line that is no text
}

// jsonMember is the start of a member, up to its colon, and which of the wanted fields have this key.
type jsonMember struct {
	text []byte
	set  uint64
}

// maxLastKey bounds the keys that are remembered, with their quotes, in bytes.
const maxLastKey = 64

// maxParsed is how many bytes a parser parses before another one takes its place. A parser keeps its memory, and each value
// in it keeps that of its own members: lines with one long list each, every time in another place, would make it keep the
// square of a line.
const maxParsed = 1 << 20

// maxJSONFields is how many fields jsonNames.byKey has bits for.
const maxJSONFields = 64

func newJSON(Mapping) (fieldNames, func() decoder, error) {
	names := &jsonNames{slots: make(map[string]int)}
	return names, func() decoder { return &jsonLog{jsonNames: names} }, nil
}

// slot adds a field where it is new: under its own name and, if that has dots, by each path of keys that they may mean.
func (j *jsonNames) slot(field string) (int, error) {
	if field == "" {
		return 0, errTemplateEmpty
	}
	if slot, seen := j.slots[field]; seen {
		return slot, nil
	}
	slot := len(j.slots)
	j.slots[field] = slot
	keys := strings.Split(field, ".")
	if len(j.wanted)+len(keys) > maxJSONFields {
		return 0, fmt.Errorf("got more names of fields (one with dots is several), want at most %d", maxJSONFields)
	}
	for n := 1; n <= len(keys); n++ {
		key := strings.Join(keys[:n], ".")
		j.byKey[keySlot(key)] |= 1 << len(j.wanted)
		j.wanted = append(j.wanted, jsonField{key: key, path: keys[n:], slot: slot})
	}
	return slot, nil
}

func (j *jsonNames) size() int { return len(j.slots) }

// decode implements decoder.
func (j *jsonLog) decode(s string, values []string, l *Line) Reason {
	j.values, j.object, j.nested = values, "", nil
	if j.parsed > maxParsed {
		j.objects, j.parsed = fastjson.Parser{}, 0
	}
	if !j.walk(s, l) {
		return BadJSON
	}
	return MissingField
}

// keySlot is a hash of a key, from 0 to 63: enough to tell most of the others from the wanted ones.
func keySlot(key string) int {
	if key == "" {
		return 0
	}
	return (len(key) + 7*int(key[0])) & 63
}

// found notes that a member of the key that the fields in set have has the text of a value.
func (j *jsonLog) found(set uint64, text string, l *Line) {
	for ; set != 0; set &= set - 1 {
		f := &j.wanted[bits.TrailingZeros64(set)]
		kind := text[0]
		nested := kind == '{' || kind == '['
		switch {
		case kind == '[' && f.bytes:
			j.values[f.slot] = byteList(text, l)
		case nested != (len(f.path) > 0): // an object where a text was wanted, or the other way round
		case nested || kind == '"' && strings.IndexByte(text, '\\') >= 0:
			if v, ok := j.parse(text, f.path, l); ok {
				j.values[f.slot] = v
			}
		case kind == '"':
			j.values[f.slot] = text[1 : len(text)-1]
		case text == "null":
			j.values[f.slot] = ""
		default:
			j.values[f.slot] = text
		}
	}
}

// parse has the parser read a whole value and returns what stands at path below it, copied to l's scratch, and whether
// there is such a thing.
func (j *jsonLog) parse(text string, path []string, l *Line) (string, bool) {
	if j.nested == nil || len(text) != len(j.object) || unsafe.StringData(text) != unsafe.StringData(j.object) {
		v, err := j.objects.Parse(text)
		j.parsed += len(text)
		if j.nested, j.object = v, text; err != nil {
			j.nested = nil
			return "", false
		}
	}
	v := j.nested
	if v = v.Get(path...); v == nil {
		return "", false
	}
	switch v.Type() {
	case fastjson.TypeNull:
		return "", true
	case fastjson.TypeString:
		b, err := v.StringBytes()
		return l.keep(view(b)), err == nil
	case fastjson.TypeNumber, fastjson.TypeTrue, fastjson.TypeFalse:
		n := len(l.scratch)
		l.scratch = v.MarshalTo(l.scratch)
		return view(l.scratch[n:]), true
	}
	return "", false
}

// byteList returns the text that a list of numbers such as [71, 69, 84] spells, in l's scratch, or "" if it is no such list.
func byteList(list string, l *Line) string {
	from := len(l.scratch)
	for number := range strings.SplitSeq(list[1:len(list)-1], ",") {
		b, err := strconv.ParseUint(strings.TrimSpace(number), 10, 8)
		if err != nil {
			l.scratch = l.scratch[:from]
			return ""
		}
		l.scratch = append(l.scratch, byte(b))
	}
	return view(l.scratch[from:])
}

// walk calls j.found for the wanted members of the object s, and reports whether it reached the end of the object.
func (j *jsonLog) walk(s string, l *Line) bool {
	i := skipSpace(s, len(s)-len(strings.TrimPrefix(s, "\ufeff")))
	if i == len(s) || s[i] != '{' {
		return false
	}
	i = skipSpace(s, i+1)
	for n := 0; i < len(s) && s[i] == '"'; n++ {
		set, value := j.member(s, i, n)
		if value == 0 {
			return false
		}
		if i = plainEnd(s, value); i == 0 {
			if i = valueEnd(s, value); i <= value {
				return false
			}
		}
		if set != 0 {
			j.found(set, s[value:i], l)
		}
		if i = skipSpace(s, i); i >= len(s) || s[i] != ',' {
			break
		}
		i = skipSpace(s, i+1)
	}
	return i < len(s) && s[i] == '}'
}

// member reads the key of the n-th member, which starts at i, and returns the wanted fields that have this key, as a set
// of bits, and where its value starts; 0 if it is damaged. The lines of a log are much alike: the key is looked up only
// where the last line had another one in this place.
func (j *jsonLog) member(s string, i, n int) (set uint64, value int) {
	if n < len(j.last) {
		if m := &j.last[n]; len(m.text) > 0 && strings.HasPrefix(s[i:], view(m.text)) {
			return m.set, skipSpace(s, i+len(m.text))
		}
	}
	end, plain := keyEnd(s, i+1)
	colon := skipSpace(s, end+1)
	if colon >= len(s) || s[colon] != ':' {
		return 0, 0
	}
	key := s[i+1 : end]
	if !plain {
		key = j.unescape(s[i : end+1])
	}
	for maybe := j.byKey[keySlot(key)]; maybe != 0; maybe &= maybe - 1 {
		if f := bits.TrailingZeros64(maybe); j.wanted[f].key == key {
			set |= 1 << f
		}
	}
	if n < len(j.last) && colon-i < maxLastKey {
		j.last[n].text, j.last[n].set = append(j.last[n].text[:0], s[i:colon+1]...), set
	}
	return set, skipSpace(s, colon+1)
}

// unescape returns the text of a quoted string with escapes; it holds until the parser is used again.
func (j *jsonLog) unescape(quoted string) string {
	if v, err := j.keys.Parse(quoted); err == nil {
		if b, err := v.StringBytes(); err == nil {
			return view(b)
		}
	}
	return ""
}

// skipSpace returns the index of the first byte of s at or after i that is not white space.
func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// keyEnd returns the index of the quote that closes the key which starts at i, or len(s), and whether the key is without
// escapes. Keys are short: eight bytes at a time is faster than calling IndexByte.
func keyEnd(s string, i int) (end int, plain bool) {
	for ; i+8 <= len(s); i += 8 {
		w := word(s[i:])
		if hit := equalBytes(w, '"') | equalBytes(w, '\\'); hit != 0 {
			i += bits.TrailingZeros64(hit) / 8
			break
		}
	}
	for ; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i, true
		case '\\':
			return stringEnd(s, i), false
		}
	}
	return i, true
}

// equalBytes has the high bit set in the lowest byte of w that equals c; only the lowest set bit may be relied on.
// (Mycroft's zero byte test; see Hacker's Delight, 6-1.)
func equalBytes(w uint64, c byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w ^= ones * uint64(c)
	return (w - ones) &^ w & highs
}

// stringEnd returns the index of the quote that closes the string whose text starts at i, or len(s).
func stringEnd(s string, i int) int {
	start := i
	for {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return len(s)
		}
		if i += n; i == start || s[i-1] != '\\' || !escaped(s[start:i]) {
			return i
		}
		i++
	}
}

// plainEnd returns the index after the string with its quotes that starts at i, or 0 if that takes a closer look: it is
// no string, is cut, is empty or has a backslash at its end.
func plainEnd(s string, i int) int {
	if i >= len(s) || s[i] != '"' {
		return 0
	}
	n := strings.IndexByte(s[i+1:], '"')
	if n <= 0 || s[i+n] == '\\' {
		return 0
	}
	return i + n + 2
}

// valueEnd returns the index after the value that starts at i, or i if it is damaged or cut. A number that reaches the
// end of s counts as cut: some of its digits may be gone.
func valueEnd(s string, i int) int {
	if i >= len(s) {
		return i
	}
	switch s[i] {
	case '"':
		if end := stringEnd(s, i+1); end < len(s) {
			return end + 1
		}
		return i
	case '{', '[':
		return nestedEnd(s, i)
	}
	end := i
	for end < len(s) && s[end] > ' ' && s[end] != ',' && s[end] != '}' && s[end] != ']' && s[end] != '"' {
		end++
	}
	if end == len(s) || !scalar(s[i:end]) {
		return i
	}
	return end
}

// scalar reports whether s is a literal, or starts as a number does.
func scalar(s string) bool {
	return s != "" && (s[0]-'0' <= 9 || s[0] == '-') || s == "null" || s == "true" || s == "false"
}

// nestedEnd returns the index after the object or array that starts at i, or i if it is cut. What is inside is not looked
// at, but for strings, which may hold brackets.
func nestedEnd(s string, i int) int {
	depth := 0
	for end := i; end < len(s); end++ {
		switch s[end] {
		case '"':
			end = stringEnd(s, end+1)
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return end + 1
			}
		}
	}
	return i
}
