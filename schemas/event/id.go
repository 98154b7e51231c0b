package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"
)

// idBytes is how much of the SHA-256 an id has.
const idBytes = 16

// Identify sets the id: the first 16 bytes, in hexadecimal digits, of the SHA-256 over what the event is about. That is its type,
// partition, offset, times, rule, mode, caller and share, the control record, the rules, and the offsets of a gap. Each text has its
// length before it, so that no two events share an input. The times are part of it because one message may close a caller twice.
//
// An owner that counts the same message again makes the same id. Counts are not part of it: after a restart, the rows of a table that is
// too small may lack weight. The id of a control event depends on the id of its control record only, so it is the same wherever an owner
// applied the record.
func (e *Event) Identify() {
	if e.Type == Control {
		e.ID = identify(&Event{Type: Control, Record: e.Record})
		return
	}
	e.ID = identify(e)
}

// IdentifyWithin sets an id that leaves out the offset, and has the time rounded down to a multiple of d. So all equal events within d
// have one id, and are written once. It is for events that may happen with each message.
func (e *Event) IdentifyWithin(d time.Duration) {
	same := *e
	same.Offset, same.Time = 0, e.Time.Truncate(d)
	e.ID = identify(&same)
}

func identify(e *Event) string {
	h := sha256.New()
	var number [8]byte
	add := func(n uint64) {
		binary.BigEndian.PutUint64(number[:], n)
		h.Write(number[:])
	}
	caller := e.Caller.Caller()
	for _, text := range []string{string(e.Type), e.Rule, caller.Kind, caller.ID, e.Mode, e.Record, e.RulesFrom, e.RulesTo} {
		add(uint64(len(text)))
		h.Write([]byte(text))
	}
	for _, n := range []int64{int64(e.Partition), e.Offset, nanos(e.Time), nanos(e.CloseAt), nanos(e.Until), e.From, e.To} {
		add(uint64(n))
	}
	add(math.Float64bits(e.Share))
	return hex.EncodeToString(h.Sum(nil)[:idBytes])
}

// nanos returns t in Unix nanoseconds, and the lowest number for no time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixNano()
}
