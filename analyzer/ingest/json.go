package ingest

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/valyala/fastjson"
)

// jsonLog scans logs of one JSON object a line. It walks over the members by hand and notes the values of the wanted
// ones; only a value with an escape, or inside of another object, is handed to a real parser.
//
// It takes what it can read: the walk ends at the first damage, and what was found before counts. Of equal keys the last
// counts, as in encoding/json. It accepts some texts that are no JSON, such as those with a raw control character.
type jsonLog struct {
	wanted  []jsonField
	byKey   [64]uint32 // bit i of the word at keySlot(key): wanted[i] has this key, or one that falls together with it
	callers []jsonCaller
	time    int // index in values; likewise the next three, where -1 is none
	status  int
	cost    int
	path    int

	last   [24]jsonMember // the first members of the last line
	clock  clock
	parser fastjson.Parser
	values []string // of the line at hand: the text of a string, number, true or false; empty if absent or null
}

// jsonField is a wanted member: of the object itself, or reached from there by a path of keys.
type jsonField struct {
	key  string
	path []string // the keys below that one
	slot int      // index in values
}

// jsonMember is the start of a member, up to its colon, and which of the wanted fields have this key.
type jsonMember struct {
	text []byte
	set  uint32
}

// jsonCaller is where callers of one kind are found.
type jsonCaller struct {
	kind  string
	slots []int
}

// maxLastKey bounds the keys that are remembered, with their quotes, in bytes.
const maxLastKey = 64

// maxJSONFields is how many fields jsonLog.byKey has bits for.
const maxJSONFields = 32

func newJSON(m Mapping) (*Format, error) {
	if len(m.Callers) == 0 {
		return nil, fmt.Errorf("%w: format json needs a caller, such as ip=client_ip", ErrMapping)
	}
	if m.Layout >= timeLayouts {
		return nil, fmt.Errorf("%w: unknown time layout %d", ErrMapping, m.Layout)
	}
	if m.Time == "" {
		m.Time = "time"
	}
	j := &jsonLog{clock: clock{layout: m.Layout}}
	slots := map[string]int{}
	j.time, j.status, j.cost, j.path = j.slot(slots, m.Time), j.slot(slots, m.Status), j.slot(slots, m.Cost), j.slot(slots, m.Resource)
	var kinds []string
	for _, c := range m.Callers {
		caller := jsonCaller{kind: c.Kind}
		for _, f := range c.Fields {
			caller.slots = append(caller.slots, j.slot(slots, f))
		}
		j.callers, kinds = append(j.callers, caller), append(kinds, c.Kind)
	}
	if len(j.wanted) > maxJSONFields {
		return nil, fmt.Errorf("%w: got %d names of fields (one with dots is several), want at most %d", ErrMapping, len(j.wanted), maxJSONFields)
	}
	return &Format{name: "json", kinds: kinds, open: func() Scanner {
		return &jsonLog{
			wanted: j.wanted, byKey: j.byKey, callers: j.callers, time: j.time, status: j.status, cost: j.cost, path: j.path,
			clock: j.clock, values: make([]string, len(slots)),
		}
	}}, nil
}

// slot returns the index in values of a field, which it adds to slots and to the wanted ones where it is new: under its
// own name and, if that has dots, by each path of keys that they may mean. It returns -1 for no field.
func (j *jsonLog) slot(slots map[string]int, field string) int {
	if field == "" {
		return -1
	}
	if slot, seen := slots[field]; seen {
		return slot
	}
	slot := len(slots)
	slots[field] = slot
	keys := strings.Split(field, ".")
	for n := 1; n <= len(keys); n++ {
		key := strings.Join(keys[:n], ".")
		j.byKey[keySlot(key)] |= 1 << len(j.wanted)
		j.wanted = append(j.wanted, jsonField{key: key, path: keys[n:], slot: slot})
	}
	return slot
}

// Scan implements Scanner.
func (j *jsonLog) Scan(line []byte, l *Line) Reason {
	l.reset(len(j.callers))
	clear(j.values)
	missing := MissingField
	if !j.walk(view(line[:min(len(line), MaxLine)]), l) {
		missing = BadJSON
	}
	text := j.values[j.time]
	if text == "" {
		return missing
	}
	var ok bool
	if l.Time, ok = j.clock.parse(text); !ok {
		return BadTime
	}
	if reason := j.identify(l, missing); reason != OK {
		return reason
	}
	if j.path >= 0 {
		l.resource(pathOf(j.values[j.path]))
	}
	if j.status >= 0 {
		if n := whole(j.values[j.status]); n <= 999 {
			l.Status = uint16(n)
		}
	}
	if j.cost >= 0 {
		l.Cost = whole(j.values[j.cost])
	}
	return OK
}

// identify sets the callers of l. If there are none it says why, or missing if there is no reason but that.
func (j *jsonLog) identify(l *Line, missing Reason) Reason {
	reason, found := missing, false
	for i := range j.callers {
		c := &j.callers[i]
		var parts [maxParts]string
		for k, slot := range c.slots {
			parts[k] = j.values[slot]
		}
		if r := l.caller(i, c.kind, parts[:len(c.slots)]); r != OK {
			reason = r
		}
		found = found || l.IDs[i] != ""
	}
	if found {
		return OK
	}
	return reason
}

// keySlot is a hash of a key, from 0 to 63: enough to tell most of the others from the wanted ones.
func keySlot(key string) int {
	if key == "" {
		return 0
	}
	return (len(key) + 7*int(key[0])) & 63
}

// found notes that a member of the key that the fields in set have has the text of a value.
func (j *jsonLog) found(set uint32, text string, l *Line) {
	for ; set != 0; set &= set - 1 {
		f := &j.wanted[bits.TrailingZeros32(set)]
		kind := text[0]
		nested := kind == '{' || kind == '['
		switch {
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
	v, err := j.parser.Parse(text)
	if err != nil {
		return "", false
	}
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
