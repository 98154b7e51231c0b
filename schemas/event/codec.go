package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// MaxBytes is how long a message may be. What this version writes has at most half of it.
const MaxBytes = 16 << 10

// ErrFormat says that a message is no Event. Test with errors.Is.
var ErrFormat = errors.New("not an event")

// Bounds of what Decode takes. Texts are in bytes; years are those of Unix nanoseconds, which count in 64 bits.
const (
	maxType   = 64
	maxRule   = 64
	firstYear = 1677
	lastYear  = 2262
)

// Encode returns e as a message's value. Bytes of texts that are not UTF-8 are replaced.
func (e *Event) Encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("BUG: encode event: %v", err)) // times are Unix nanoseconds, and so before the year 10000
	}
	return b
}

// Decode reads a message's value. It ignores fields that it does not know, and returns an event of a type that it does not know: see
// Event.Known. Every other mistake is an error that is ErrFormat. Any program may have written the texts: print them with package
// printable.
func Decode(value []byte) (Event, error) {
	if len(value) > MaxBytes {
		return Event{}, fmt.Errorf("%w: got %d bytes, want at most %d", ErrFormat, len(value), MaxBytes)
	}
	var e Event
	if err := json.Unmarshal(value, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	e.Time, e.CloseAt, e.Until = e.Time.UTC(), e.CloseAt.UTC(), e.Until.UTC()
	if err := e.validate(); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	e.Caller = CallerOf(e.Caller.Caller()) // one form of each caller
	return e, nil
}

func (e *Event) validate() error {
	if !isHex(e.ID, 2*idBytes) {
		return fmt.Errorf("id: got %.40q, want %d hexadecimal digits", e.ID, 2*idBytes)
	}
	if len(e.Type) == 0 || len(e.Type) > maxType {
		return fmt.Errorf("type: got %d bytes, want 1 to %d", len(e.Type), maxType)
	}
	if e.Time.IsZero() {
		return errors.New("time: got none, want RFC 3339")
	}
	for _, t := range []struct {
		name string
		got  time.Time
	}{{"time", e.Time}, {"close_at", e.CloseAt}, {"until", e.Until}} {
		if year := t.got.Year(); !t.got.IsZero() && (year < firstYear || year > lastYear) {
			return fmt.Errorf("%s: got the year %d, want %d to %d", t.name, year, firstYear, lastYear)
		}
	}
	for _, n := range []struct {
		name string
		got  int64
	}{{"partition", int64(e.Partition)}, {"offset", e.Offset}, {"from", e.From}, {"to", e.To}, {"lost", e.Lost}} {
		if n.got < 0 {
			return fmt.Errorf("%s: got %d, want 0 or more", n.name, n.got)
		}
	}
	for _, t := range []struct {
		name, got string
		maxLen    int
	}{{"rule", e.Rule, maxRule}, {"author", e.Author, 3 * schemas.MaxAuthor}, {"reason", e.Reason, 3 * schemas.MaxReason}} {
		if len(t.got) > t.maxLen { // Encode may have put three bytes in place of one
			return fmt.Errorf("%s: got %d bytes, want at most %d", t.name, len(t.got), t.maxLen)
		}
	}
	if caller := e.Caller.Caller(); caller != (schemas.Caller{}) {
		if err := caller.Validate(); err != nil {
			return fmt.Errorf("caller: %w", err)
		}
	}
	return nil
}

// isHex reports whether s has n hexadecimal digits, in lower case.
func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
