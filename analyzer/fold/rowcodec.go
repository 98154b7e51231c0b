package fold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// RowKind is what a row of a store or snapshot holds: the first byte of its key.
type RowKind byte

// Kinds of rows.
const (
	CountRow    RowKind = 'w'                // a rule and caller: window and closure
	ProducerRow RowKind = 'p'                // sequence numbers of a producer
	SourceRow   RowKind = 's'                // offsets of a source of lines
	LossRow     RowKind = 'l'                // what a rule could not count
	ControlRow  RowKind = override.KeyPrefix // a control record; see override.Record
	EventRow    RowKind = 'e'                // an owner's: events that are to be written. A Fold has none, and passes over them
)

// KindOf returns the kind of the row with a key; 0 if the key is empty.
func KindOf(key []byte) RowKind {
	if len(key) == 0 {
		return 0
	}
	return RowKind(key[0])
}

// errRow is a stored row that cannot be read: the store is from another version, or broken.
var errRow = errors.New("bad row in store")

// Versions of rows. One that has a mark begins with it. One with early weight has both, and perhaps no mark. One with closes before
// its closure has all three, and perhaps neither mark nor early weight.
const (
	rowVersion    = 1
	markedVersion = 2
	earlyVersion  = 3
	stepsVersion  = 4

	// closedByDemandMark is in the place of how many slots of early weight follow.
	closedByDemandMark = -1

	closureNumbers = 4 // that a closure takes

	// maxSlotNumber bounds the numbers of slots that are read, so that they can be subtracted.
	maxSlotNumber = math.MaxInt64 / 4
)

// AppendRowKey appends the store key of a rule and caller: the rule's name, a zero byte, and kind:id. Neither names nor
// kinds hold a zero byte or a colon.
func AppendRowKey(dst []byte, rule, kind, id string) []byte {
	dst = append(dst, byte(CountRow))
	dst = append(dst, rule...)
	dst = append(dst, 0)
	dst = append(dst, kind...)
	dst = append(dst, ':')
	return append(dst, id...)
}

// ParseRowKey undoes AppendRowKey.
func ParseRowKey(key string) (rule, kind, id string, err error) {
	if key == "" || key[0] != byte(CountRow) {
		return "", "", "", fmt.Errorf("%w: got key %q, want one of a window", errRow, key)
	}
	rule, caller, ok := strings.Cut(key[1:], "\x00")
	kind, id, ok2 := strings.Cut(caller, ":")
	if !ok || !ok2 {
		return "", "", "", fmt.Errorf("%w: got key %q, want rule, zero byte, kind:id", errRow, key)
	}
	return rule, kind, id, nil
}

// AppendTo appends the value of a row: version, the shape that the state belongs to, its mark if it has one, its early weight
// if it has some, the closes before its closure if there are any, the closure, the state.
func (v *StoredRow) AppendTo(dst []byte) []byte {
	version := byte(rowVersion)
	switch {
	case len(v.steps) > 0:
		version = stepsVersion
	case v.byDemand || v.early != (earlyWeight{}):
		version = earlyVersion
	case v.since != never:
		version = markedVersion
	}
	dst = binary.LittleEndian.AppendUint64(append(dst, version), v.shape)
	if version != rowVersion {
		dst = binary.AppendVarint(dst, v.since)
	}
	switch {
	case version < earlyVersion:
	case v.byDemand:
		dst = binary.AppendVarint(dst, closedByDemandMark)
	case v.early == (earlyWeight{}):
		dst = binary.AppendVarint(dst, 0)
	default:
		dst = v.early.appendTo(dst)
	}
	if version == stepsVersion {
		dst = binary.AppendVarint(dst, int64(len(v.steps)))
		for _, c := range v.steps {
			dst = appendClosure(dst, c)
		}
	}
	dst = appendClosure(dst, v.Closure)
	for _, number := range v.State {
		dst = binary.AppendVarint(dst, number)
	}
	return dst
}

func appendClosure(dst []byte, c policy.Closure) []byte {
	dst = binary.AppendVarint(dst, c.CloseAt)
	dst = binary.AppendVarint(dst, c.Until)
	dst = binary.AppendVarint(dst, c.Nth)
	return binary.AppendVarint(dst, c.Peak)
}

// value returns what the value of a row under a rule of the given shape says.
func (r *row) value(shape uint64) StoredRow {
	return StoredRow{Closure: r.closure, State: r.state, shape: shape, since: r.since, byDemand: r.beside&closedByDemand != 0}
}

// StoredRow is what the value of a row of a rule and caller says.
type StoredRow struct {
	Closure policy.Closure
	State   window.State

	shape uint64
	since int64

	early    earlyWeight // zero if there is none
	byDemand bool        // early weight made the closure; then there is none

	steps []policy.Closure // the closes in a row before the closure, oldest first
}

// ReadRow reads the value of a stored row of a rule. An empty value is the row of a caller that was never counted.
func ReadRow(rule *rules.Rule, value []byte) (StoredRow, error) {
	if len(value) == 0 {
		return StoredRow{shape: rule.Shape(), since: never}, nil
	}
	v, err := ParseRow(value)
	if err == nil && (v.shape != rule.Shape() || !rule.Window.Valid(v.State)) {
		err = fmt.Errorf("%w: got a state that is not one of %s", errRow, rule.Window.Shape())
	}
	return v, err
}

// LowerBound reports whether weight may be missing from the row's window.
func (v *StoredRow) LowerBound() bool { return v.since != never }

// Dropped reports whether a fold at log time now would have dropped the row.
func (v *StoredRow) Dropped(rule *rules.Rule, now int64) bool {
	at := max(rule.Window.Expiry(v.State), v.Closure.Expiry(rule))
	return at <= math.MaxInt64-int64(expirySlack) && minuteOf(at+int64(expirySlack)) < minuteOf(now)
}

// ParseRow undoes AppendTo. It does not know whether a rule still counts by the state (see ReadRow).
func ParseRow(b []byte) (StoredRow, error) {
	if len(b) < 9 || b[0] < rowVersion || b[0] > stepsVersion {
		return StoredRow{}, fmt.Errorf("%w: got %d bytes, want version %d to %d and a shape", errRow, len(b), rowVersion, stepsVersion)
	}
	v := StoredRow{shape: binary.LittleEndian.Uint64(b[1:]), since: never}
	version := b[0]
	b = b[9:]
	words := make([]int64, 0, 12) // as many as most rows have
	for len(b) > 0 {
		word, n := binary.Varint(b)
		if n <= 0 {
			return StoredRow{}, fmt.Errorf("%w: got a number cut short", errRow)
		}
		words = append(words, word)
		b = b[n:]
	}
	if version != rowVersion && len(words) > 0 {
		v.since, words = words[0], words[1:]
	}
	var err error
	if version >= earlyVersion {
		if words, err = v.readEarly(words, version); err != nil {
			return StoredRow{}, err
		}
	}
	if version == stepsVersion {
		if words, err = v.readSteps(words); err != nil {
			return StoredRow{}, err
		}
	}
	if len(words) < closureNumbers {
		return StoredRow{}, fmt.Errorf("%w: got %d numbers, want %d or more", errRow, len(words), closureNumbers)
	}
	v.Closure, words = readClosure(words)
	if v.Closure.Nth < 0 || v.Closure.Peak < 0 || version == markedVersion && v.since == never {
		return StoredRow{}, fmt.Errorf("%w: got closure %+v since %d, want no negative count and a time", errRow, v.Closure, v.since)
	}
	v.State = window.State(words)
	return v, nil
}

// readClosure reads a closure from at least closureNumbers numbers, and returns the rest.
func readClosure(words []int64) (policy.Closure, []int64) {
	return policy.Closure{CloseAt: words[0], Until: words[1], Nth: words[2], Peak: words[3]}, words[closureNumbers:]
}

// readSteps reads the closes before the closure, and returns the rest.
func (v *StoredRow) readSteps(words []int64) ([]int64, error) {
	if len(words) == 0 || words[0] < 1 || words[0] > policy.MaxSteps || int64(len(words)-1) < words[0]*closureNumbers {
		return nil, fmt.Errorf("%w: got %d numbers, want 1 to %d closes, of %d numbers each", errRow, len(words), policy.MaxSteps, closureNumbers)
	}
	v.steps, words = make([]policy.Closure, words[0]), words[1:]
	for i := range v.steps {
		v.steps[i], words = readClosure(words)
		if c := v.steps[i]; c.Nth < 1 || c.Peak < 1 {
			return nil, fmt.Errorf("%w: got close %+v in a row, want a number and a peak above 0", errRow, c)
		}
	}
	return words, nil
}

// readEarly reads what is there of early weight, and returns the rest.
func (v *StoredRow) readEarly(words []int64, version byte) ([]int64, error) {
	switch {
	case version == stepsVersion && len(words) > 0 && words[0] == 0:
		return words[1:], nil // none
	case len(words) > 0 && words[0] == closedByDemandMark:
		v.byDemand = true
		return words[1:], nil
	case len(words) < 2 || words[0] < 1 || words[0] > min(earlySlots, int64(len(words)-2)):
		return nil, fmt.Errorf("%w: got %d numbers, want early weight before a closure", errRow, len(words))
	}
	end := 2 + int(words[0])
	v.early.newest = words[1]
	copy(v.early.weights[:], words[2:end])
	if !v.early.valid() || words[end-1] == 0 {
		return nil, fmt.Errorf("%w: got early weight %+v, want none below 0, and some in its first and last slot", errRow, v.early)
	}
	return words[end:], nil
}

// appendTo appends the number of slots up to the oldest with weight, the newest's number, and their weights.
func (d *earlyWeight) appendTo(dst []byte) []byte {
	n := earlySlots
	for d.weights[n-1] == 0 {
		n--
	}
	dst = binary.AppendVarint(dst, int64(n))
	dst = binary.AppendVarint(dst, d.newest)
	for _, w := range d.weights[:n] {
		dst = binary.AppendVarint(dst, w)
	}
	return dst
}

// valid reports whether the early weight is one that add makes.
func (d *earlyWeight) valid() bool {
	for _, w := range d.weights {
		if w < 0 {
			return false
		}
	}
	return d.weights[0] > 0 && -maxSlotNumber <= d.newest && d.newest <= maxSlotNumber
}

// take makes the row what a value says.
func (r *row) take(v *StoredRow) {
	r.set(v.State)
	r.closure, r.since = v.Closure, v.since
}
