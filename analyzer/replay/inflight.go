package replay

import (
	"strings"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/heap"
)

// inFlight has the responses of requests that have arrived and have not ended yet, in the order of their ends. The next line's arrival is
// mostly before them. One goroutine uses an inFlight.
type inFlight struct {
	waiting heap.Heap[response]
	bytes   int64 // of the responses that wait
	limit   int64 // of bytes
	added   uint64
	early   int64 // lines of which a response was taken before its time, because of the limit
}

// response is the response of one caller of a request.
type response struct {
	entry  schemas.Entry
	number uint64 // of equal ends, the request that arrived first comes first
}

// responseBytes is about what a response needs beside its texts.
const responseBytes = 200

// before orders responses.
func (r *response) before(other *response) bool {
	return r.entry.Time < other.entry.Time || r.entry.Time == other.entry.Time && r.number < other.number
}

func newInFlight(limit int64) inFlight {
	return inFlight{waiting: heap.New((*response).before, nil), limit: limit}
}

// add adds a response, with texts of its own.
func (f *inFlight) add(e *schemas.Entry) {
	r := response{entry: *e, number: f.added}
	f.added++
	r.entry.ID, r.entry.Resource = strings.Clone(e.ID), strings.Clone(e.Resource)
	f.bytes += r.size()
	f.waiting.Add(r)
}

// size returns the memory that a response needs.
func (r *response) size() int64 {
	return int64(responseBytes + len(r.entry.ID) + len(r.entry.Resource))
}

// next returns the response that comes next, if its request has ended at t, or if there is no room for it. It is removed.
func (f *inFlight) next(t int64) (e schemas.Entry, ok bool) {
	if f.waiting.Len() == 0 {
		return e, false
	}
	r := f.waiting.At(0)
	if r.entry.Time > t {
		if f.bytes <= f.limit {
			return e, false
		}
		f.early++
	}
	e = r.entry
	f.bytes -= r.size()
	f.waiting.Remove(0)
	return e, true
}

// lasts reports whether the response of a line comes later than its arrival.
func lasts(line *ingest.Line) bool { return line.End > line.Time }
