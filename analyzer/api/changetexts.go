package api

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// keptChanges is how many of the newest changes a changeTexts keeps. A stream that is further behind the others encodes its events
// itself.
const keptChanges = 64

// changeTexts keeps the newest changes of one board as streams send them. So a change is encoded and compressed once, and not once for
// each stream. Streams apply their filters before, so the text does not depend on them. A stream whose client may see ids never shares a
// text with one whose client may not. The zero value is empty. Any goroutine may use it.
//
// Chosen input: it keeps 128 texts. Ids are bounded, so a text has a few KiB at most.
type changeTexts struct {
	of *Backend // whose board the changes are of; does not change

	mu           sync.Mutex
	open, hidden [keptChanges]changeText // guarded by mu: with ids, and redacted; a change is at its number % keptChanges
}

// changeText is the text of one change. The zero value belongs to no change, because changes have a kind.
type changeText struct {
	number  uint64
	kind    string
	inForce bool   // whether its decision was in force when the text was made: the text says so
	plain   []byte // is never written to again
	packed  []byte // plain, compressed by itself; nil until a stream wants it. Is never written to again
}

// get returns the text of a change, compressed or not. The caller must not write to it. v is the change with its ids, and redact replaces
// these in a copy of it; redact is nil for a client that may see ids.
func (t *changeTexts) get(v *apiv1.DecisionEvent, redact func(*apiv1.Caller), packed bool) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := &t.open[v.Number%keptChanges]
	if redact != nil {
		text = &t.hidden[v.Number%keptChanges]
	}
	if text.number != v.Number || text.kind != v.Kind || text.inForce != v.Decision.InForce {
		var b bytes.Buffer
		if err := writeEvent(&b, v, redact); err != nil {
			return nil, err
		}
		*text = changeText{number: v.Number, kind: v.Kind, inForce: v.Decision.InForce, plain: b.Bytes()}
	}
	if !packed {
		return text.plain, nil
	}
	if text.packed == nil {
		var b bytes.Buffer
		if err := flate.StatelessDeflate(&b, text.plain, false, nil); err != nil {
			return nil, err
		}
		text.packed = b.Bytes()
	}
	return text.packed, nil
}

// writeEvent writes an event as server-sent events are written.
func writeEvent(b *bytes.Buffer, v *apiv1.DecisionEvent, redact func(*apiv1.Caller)) error {
	if v.Decision != nil && redact != nil {
		event, decision := *v, *v.Decision
		redact(&decision.Caller)
		event.Decision = &decision
		v = &event
	}
	fmt.Fprintf(b, "event: %s\nid: %d\ndata: ", v.Kind, v.Number)
	if err := printable.JSON(b).Encode(v); err != nil { // ends the line
		return err
	}
	return b.WriteByte('\n')
}

// eventOf returns an event with its ids.
func eventOf(e *Event, now time.Time) apiv1.DecisionEvent {
	v := apiv1.DecisionEvent{Kind: e.Kind, Number: e.Number, Missed: e.Missed}
	if !e.At.IsZero() {
		v.At = e.At.UTC()
	}
	if e.Decision.Rule != "" {
		d := explain.Decision(&e.Decision, now.UnixNano())
		v.Decision = &d
	}
	return v
}
