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
