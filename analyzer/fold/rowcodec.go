package fold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/509da70d/floodgate/analyzer/hold"
	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/analyzer/window"
)

// RowKind says what a row of a store or snapshot holds. It is the first byte of the row's key.
type RowKind byte

// Kinds of rows.
const (
	CountRow    RowKind = 'w'                // a rule and caller: window and closure
	ProducerRow RowKind = 'p'                // sequence numbers of a producer
	SourceRow   RowKind = 's'                // offsets of a source of lines
	LossRow     RowKind = 'l'                // what a rule could not count
	ControlRow  RowKind = override.KeyPrefix // a control record; see override.Record
	PoolRow     RowKind = 'q'                // a pool: what all its callers asked for, and its level
	EventRow    RowKind = 'e'                // events that an owner must still write. A Fold has none, and ignores these rows
)

// KindOf returns the kind of the row with a key; 0 if the key is empty.
func KindOf(key []byte) RowKind {
	if len(key) == 0 {
		return 0
	}
	return RowKind(key[0])
}

// errRow says that a stored row cannot be read: the store is from another version, or damaged.
var errRow = errors.New("bad row in store")

// rowVersion is the first byte of the values of all rows.
const rowVersion = 1

// Flags in the second byte of a row of a rule and caller say which optional parts follow the shape, in this order.
const (
	markedFlag   = 1 << iota // since
	earlyFlag                // early weight
	stepsFlag                // closes before the closure
	byDemandFlag             // a fact without a part: early weight made the closure
	holdFlag                 // requests in flight
	goesOnFlag               // a fact without a part: see closeGoesOn
	allFlags     = 1<<iota - 1
)

const (
	rowHead        = 10 // bytes before the parts: version, flags, shape
	closureNumbers = 4  // how many numbers a closure takes
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

// ParseRowKey returns what AppendRowKey has appended.
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

// StoredRow is the value of the row of a rule and caller.
type StoredRow struct {
	Closure policy.Closure
	State   window.State

	shape    uint64
	since    int64
	early    *earlyWeight     // nil if there is none
	byDemand bool             // early weight made the closure; early is nil then
	steps    []policy.Closure // the closes in a row before the closure, oldest first
	hold     *hold.State      // requests in flight; nil if there are none
	goesOn   bool             // see closeGoesOn
}

// flags says which optional parts the row has.
func (v *StoredRow) flags() (flags byte) {
	if v.since != never {
		flags |= markedFlag
	}
	if v.early != nil {
		flags |= earlyFlag
	}
	if len(v.steps) > 0 {
		flags |= stepsFlag
	}
	if v.byDemand {
		flags |= byDemandFlag
	}
	if v.hold != nil {
		flags |= holdFlag
	}
	if v.goesOn {
		flags |= goesOnFlag
	}
	return flags
}

// AppendTo appends the value of a row: version, flags, the shape that the state belongs to, the parts that the flags name, the closure,
// the state.
func (v *StoredRow) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, rowVersion, v.flags()), v.shape)
	if v.since != never {
		dst = binary.AppendVarint(dst, v.since)
	}
	if v.early != nil {
		dst = v.early.appendTo(dst)
	}
	if len(v.steps) > 0 {
		dst = appendSteps(dst, v.steps)
	}
	if v.hold != nil {
		dst = v.hold.AppendTo(dst)
	}
	dst = appendClosure(dst, v.Closure)
	for _, number := range v.State {
		dst = binary.AppendVarint(dst, number)
	}
	return dst
}

// ReadRow reads the value of a stored row of a rule. An empty value gives the row of a caller that was never counted.
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
	if v.hold != nil {
		at = max(at, v.hold.Expiry())
	}
	return at <= math.MaxInt64-int64(expirySlack) && minuteOf(at+int64(expirySlack)) < minuteOf(now)
}

// ParseRow reads what AppendTo has appended. It does not check that a rule still counts by the state (see ReadRow).
func ParseRow(b []byte) (v StoredRow, err error) {
	if len(b) < rowHead || b[0] != rowVersion || b[1] > allFlags || b[1]&earlyFlag != 0 && b[1]&byDemandFlag != 0 {
		return v, fmt.Errorf("%w: got %d bytes, want version %d, flags and a shape", errRow, len(b), rowVersion)
	}
	flags := b[1]
	v = StoredRow{shape: binary.LittleEndian.Uint64(b[2:]), since: never, byDemand: flags&byDemandFlag != 0, goesOn: flags&goesOnFlag != 0}
	numbers, err := readNumbers(b[rowHead:])
	if err == nil && flags&markedFlag != 0 && len(numbers) > 0 {
		v.since, numbers = numbers[0], numbers[1:]
	}
	if err == nil && flags&earlyFlag != 0 {
		v.early, numbers, err = readEarly(numbers)
	}
	if err == nil && flags&stepsFlag != 0 {
		v.steps, numbers, err = readSteps(numbers)
	}
	if err == nil && flags&holdFlag != 0 {
		if v.hold, numbers, err = hold.Read(numbers); err != nil {
			err = fmt.Errorf("%w: %w", errRow, err)
		}
	}
	if err == nil && len(numbers) < closureNumbers {
		err = fmt.Errorf("%w: got %d numbers, want %d or more", errRow, len(numbers), closureNumbers)
	}
	if err != nil {
		return StoredRow{}, err
	}
	v.Closure, numbers = readClosure(numbers)
	if v.Closure.Nth < 0 || v.Closure.Peak < 0 || flags != v.flags() {
		return StoredRow{}, fmt.Errorf("%w: got closure %+v since %d, want no negative count and a time", errRow, v.Closure, v.since)
	}
	v.State = window.State(numbers)
	return v, nil
}

// readNumbers reads numbers up to the end of b.
func readNumbers(b []byte) ([]int64, error) {
	numbers := make([]int64, 0, 12) // enough for most rows
	for len(b) > 0 {
		number, n := binary.Varint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%w: got a number cut short", errRow)
		}
		numbers, b = append(numbers, number), b[n:]
	}
	return numbers, nil
}

func appendClosure(dst []byte, c policy.Closure) []byte {
	dst = binary.AppendVarint(dst, c.CloseAt)
	dst = binary.AppendVarint(dst, c.Until)
	dst = binary.AppendVarint(dst, c.Nth)
	return binary.AppendVarint(dst, c.Peak)
}

// readClosure reads a closure from at least closureNumbers numbers, and returns the numbers after it.
func readClosure(numbers []int64) (policy.Closure, []int64) {
	return policy.Closure{CloseAt: numbers[0], Until: numbers[1], Nth: numbers[2], Peak: numbers[3]}, numbers[closureNumbers:]
}

// appendSteps appends the closes in a row before a closure: first their number, then each of them.
func appendSteps(dst []byte, steps []policy.Closure) []byte {
	dst = binary.AppendVarint(dst, int64(len(steps)))
	for _, c := range steps {
		dst = appendClosure(dst, c)
	}
	return dst
}

// readSteps reads what appendSteps wrote, and returns the numbers after it.
func readSteps(numbers []int64) (steps []policy.Closure, rest []int64, err error) {
	if len(numbers) == 0 || numbers[0] < 1 || numbers[0] > policy.MaxSteps || int64(len(numbers)-1) < numbers[0]*closureNumbers {
		return nil, nil, fmt.Errorf("%w: got %d numbers, want 1 to %d closes, of %d numbers each", errRow, len(numbers), policy.MaxSteps, closureNumbers)
	}
	steps, rest = make([]policy.Closure, numbers[0]), numbers[1:]
	for i := range steps {
		steps[i], rest = readClosure(rest)
		if c := steps[i]; c.Nth < 1 || c.Peak < 1 {
			return nil, nil, fmt.Errorf("%w: got close %+v in a row, want a number and a peak above 0", errRow, c)
		}
	}
	return steps, rest, nil
}
