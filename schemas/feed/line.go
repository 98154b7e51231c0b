package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// Version is the version of the lines of this package.
const Version = 1

// Types of lines.
const (
	Start     = "start"
	Decision  = "decision"
	Current   = "current"
	Heartbeat = "heartbeat"
)

// Bounds of a line, in bytes.
const (
	maxLine      = 64 << 10
	maxPartition = 256
)

// MaxLine returns how long the lines of a feed of n partitions may be, in bytes.
func MaxLine(n int) int { return maxLine + n*maxPartition }

// ErrLine says that a line cannot be read. Test with errors.Is.
var ErrLine = errors.New("not a line of a feed")

// Line is one line. Type says which of the other fields are set. A line of another type than those above is of a later version; it is
// to be ignored.
type Line struct {
	Type   string
	Cursor string // where a reader continues behind this line; empty if it cannot

	Version int  // of Start
	Resumed bool // of Start: what follows has changed since the cursor

	// Of Decision. Its spans end without jitter, as a gate.Set wants them. RuleVersion, Epoch, Seq and most of the Evidence are not in a
	// feed. A decision that opens its caller has no span and no share.
	Decision schemas.Decision

	At         int64       // of Heartbeat: when it was sent, in Unix nanoseconds
	Partitions []Partition // of Heartbeat
}

// Partition is what a heartbeat says of a partition of decisions. Its fields but State are 0 where they are not known.
type Partition struct {
	State      string        // "cold", "fresh" or "stale"
	Age        time.Duration // since its owner was heard
	Lag        time.Duration // from a request to its decision
	Epoch, Seq uint64        // of the owner's heartbeat
	Watermark  int64
}

// wire is a Line as JSON has it.
type wire struct {
	Type    string `json:"type"`
	Cursor  string `json:"cursor"`
	Version int    `json:"version"`
	Resumed bool   `json:"resumed"`

	Rule      string     `json:"rule"`
	Kind      string     `json:"kind"`
	ID        *string    `json:"id"`
	IDBase64  []byte     `json:"id_base64"`
	Mode      string     `json:"mode"`
	Spans     []wireSpan `json:"spans"`
	Share     *wireShare `json:"share"`
	Limit     int64      `json:"limit"`
	Window    seconds    `json:"window"`
	Partition int32      `json:"partition"`

	At         seconds         `json:"at"`
	Partitions []wirePartition `json:"partitions"`
}

type wireSpan struct {
	From   seconds `json:"from"`
	Until  seconds `json:"until"`
	Jitter seconds `json:"jitter"`
	Early  bool    `json:"early"`
	Held   bool    `json:"held"`
}

type wireShare struct {
	From        seconds `json:"from"`
	Until       seconds `json:"until"`
	Period      seconds `json:"period"`
	Permits     int64   `json:"permits"`
	DemandFrom  seconds `json:"demand_from"`
	DemandUntil seconds `json:"demand_until"`
	Demand      int64   `json:"demand"`
}

type wirePartition struct {
	State     string  `json:"state"`
	Age       seconds `json:"age"`
	Lag       seconds `json:"lag"`
	Epoch     uint64  `json:"epoch"`
	Seq       uint64  `json:"seq"`
	Watermark int64   `json:"watermark"`
}

// Parse reads a line, with or without its end. The error is ErrLine, and says what is wrong. The Line shares no memory with the text.
func Parse(text []byte) (Line, error) {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return Line{}, fmt.Errorf("%w: %w", ErrLine, err)
	}
	l := Line{Type: w.Type, Cursor: w.Cursor}
	switch w.Type {
	case "":
		return Line{}, fmt.Errorf("%w: got no type, want one", ErrLine)
	case Start:
		l.Version, l.Resumed = w.Version, w.Resumed
	case Heartbeat:
		l.At = int64(w.At)
		l.Partitions = make([]Partition, len(w.Partitions))
		for i, p := range w.Partitions {
			l.Partitions[i] = Partition{p.State, time.Duration(p.Age), time.Duration(p.Lag), p.Epoch, p.Seq, p.Watermark}
		}
	case Decision:
		var err error
		if l.Decision, err = w.decision(); err != nil {
			return Line{}, fmt.Errorf("%w: decision: %w", ErrLine, err)
		}
	}
	return l, nil
}

// decision returns the decision of a line of this type.
func (w *wire) decision() (schemas.Decision, error) {
	d := schemas.Decision{
		Rule: w.Rule, Caller: schemas.Caller{Kind: w.Kind, ID: string(w.IDBase64)}, Partition: w.Partition,
		Evidence: schemas.Evidence{Limit: w.Limit, Window: int64(w.Window)},
	}
	if w.ID != nil {
		d.Caller.ID = *w.ID
	}
	switch w.Mode {
	case schemas.ModeEnforce.String():
		d.Mode = schemas.ModeEnforce
	case schemas.ModeShadow.String():
		d.Mode = schemas.ModeShadow
	default:
		return d, fmt.Errorf("mode: got %.40q, want enforce or shadow", w.Mode)
	}
	if err := d.Caller.Validate(); err != nil {
		return d, err
	}
	if w.Partition < 0 {
		return d, fmt.Errorf("partition: got %d, want 0 or more", w.Partition)
	}
	spans := [2]schemas.Span{}
	if len(w.Spans) > len(spans) {
		return d, fmt.Errorf("spans: got %d, want at most %d", len(w.Spans), len(spans))
	}
	for i, s := range w.Spans {
		if s.Jitter < 0 || s.Until-s.Jitter <= s.From {
			return d, fmt.Errorf("spans: got one from %v until %v with a jitter of %v, want it to last longer than its jitter", s.From, s.Until, s.Jitter)
		}
		spans[i] = schemas.Span{CloseAt: int64(s.From), Until: int64(s.Until - s.Jitter), Early: s.Early}
	}
	d.CloseAt, d.Until, d.Early, d.Next = spans[0].CloseAt, spans[0].Until, spans[0].Early, spans[1]
	d.Held = d.Early && w.Spans[0].Held
	if s := w.Share; s != nil {
		d.Share = &schemas.Share{
			From: int64(s.From), Until: int64(s.Until), Period: int64(s.Period), Permits: s.Permits,
			DemandFrom: int64(s.DemandFrom), DemandUntil: int64(s.DemandUntil), Demand: s.Demand,
		}
	}
	return d, nil
}
