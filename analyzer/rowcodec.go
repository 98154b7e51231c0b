package analyzer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
)

// Kinds of store rows: the first byte of a key.
const (
	windowPrefix   = 'w'
	producerPrefix = 'p'
	sourcePrefix   = 's'
)

// errRow is a stored row that cannot be read: the store is from another version, or broken.
var errRow = errors.New("bad row in store")

const rowVersion = 1

// appendRowKey appends the store key of a rule and caller: the rule's name, a zero byte, and kind:id. Neither names nor
// kinds hold a zero byte or a colon.
func appendRowKey(dst []byte, rule, kind, id string) []byte {
	dst = append(dst, windowPrefix)
	dst = append(dst, rule...)
	dst = append(dst, 0)
	dst = append(dst, kind...)
	dst = append(dst, ':')
	return append(dst, id...)
}

// parseRowKey undoes appendRowKey.
func parseRowKey(key string) (rule, kind, id string, err error) {
	if key == "" || key[0] != windowPrefix {
		return "", "", "", fmt.Errorf("%w: got key %q, want one of a window", errRow, key)
	}
	rule, caller, ok := strings.Cut(key[1:], "\x00")
	kind, id, ok2 := strings.Cut(caller, ":")
	if !ok || !ok2 {
		return "", "", "", fmt.Errorf("%w: got key %q, want rule, zero byte, kind:id", errRow, key)
	}
	return rule, kind, id, nil
}

// appendRowValue appends a row: version, the shape that the state belongs to, the closure, the state.
func appendRowValue(dst []byte, shape uint64, r *row) []byte {
	dst = append(dst, rowVersion)
	dst = binary.LittleEndian.AppendUint64(dst, shape)
	dst = binary.AppendVarint(dst, r.closure.CloseAt)
	dst = binary.AppendVarint(dst, r.closure.Until)
	dst = binary.AppendVarint(dst, r.closure.Nth)
	dst = binary.AppendVarint(dst, r.closure.Peak)
	for _, v := range r.state {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

// parseRowValue undoes appendRowValue.
func parseRowValue(b []byte) (shape uint64, c policy.Closure, s window.State, err error) {
	if len(b) < 9 || b[0] != rowVersion {
		return 0, c, nil, fmt.Errorf("%w: got %d bytes, want version %d and a shape", errRow, len(b), rowVersion)
	}
	shape = binary.LittleEndian.Uint64(b[1:])
	b = b[9:]
	words := make([]int64, 0, 12) // as many as most rows have
	for len(b) > 0 {
		v, n := binary.Varint(b)
		if n <= 0 {
			return 0, c, nil, fmt.Errorf("%w: got a number cut short", errRow)
		}
		words = append(words, v)
		b = b[n:]
	}
	if len(words) < 4 {
		return 0, c, nil, fmt.Errorf("%w: got %d numbers, want 4 or more", errRow, len(words))
	}
	c = policy.Closure{CloseAt: words[0], Until: words[1], Nth: words[2], Peak: words[3]}
	if c.Nth < 0 || c.Peak < 0 {
		return 0, c, nil, fmt.Errorf("%w: got closure %+v, want no negative count", errRow, c)
	}
	return shape, c, window.State(words[4:]), nil
}
