// Package reject is the format of the topic floodgate.rejects: lines and records that could not be read, with their place
// and the reason. A message is one Reject as a JSON object, all of whose texts are printable.Texts. After a crash, a Reject
// may be in the topic twice: equal source, offset, reason and line mean the same one. Several lines of one Kafka record have
// its offset.
package reject

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/printable"
)

// maxLine is how many bytes of a line are kept, before escaping.
const maxLine = 1 << 10

// ErrFormat says that a message is no Reject. Test with errors.Is.
var ErrFormat = errors.New("not a reject")

// Reject is one line, or a stretch of records, that could not be read.
type Reject struct {
	Time   time.Time `json:"time"`   // when it was read
	Source string    `json:"source"` // kafka:TOPIC/PARTITION, file:PATH, grpc:als or grpc:otlp
	Offset int64     `json:"offset"` // of the record in its partition, or of the line's first byte in its file, or in all that came by gRPC
	Reason string    `json:"reason"`
	Bytes  int       `json:"bytes"` // how long the line was
	Line   string    `json:"line"`  // its beginning
}

// escape returns the beginning of a line as a printable.Text, which is safe in a terminal, a log or a parser.
func escape(line []byte) string { return string(printable.Of(string(line[:min(len(line), maxLine)]))) }

// New returns the reject of a line.
func New(at time.Time, source string, offset int64, reason string, line []byte) Reject {
	return Reject{
		Time: at.UTC(), Source: string(printable.Of(source)), Offset: offset, Reason: string(printable.Of(reason)), Bytes: len(line), Line: escape(line),
	}
}

// Encode returns r as a message's value.
func (r *Reject) Encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("BUG: encode reject: %v", err)) // its fields can always be encoded
	}
	return b
}

// Decode reads a message's value. The texts of the Reject are printable.Texts, whichever program wrote the message.
func Decode(value []byte) (Reject, error) {
	var r Reject
	if err := json.Unmarshal(value, &r); err != nil {
		return Reject{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if r.Reason == "" {
		return Reject{}, fmt.Errorf("%w: no reason", ErrFormat)
	}
	for _, text := range []*string{&r.Source, &r.Reason, &r.Line} {
		if raw, err := printable.Parse(*text); err == nil {
			*text = raw
		} // otherwise another program wrote it without escapes
		*text = string(printable.Of(*text))
	}
	return r, nil
}
