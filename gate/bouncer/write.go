package bouncer

import (
	"net/http"
	"strconv"
	"time"

	"github.com/509da70d/floodgate/gate"
)

// flushAt is how many bytes of an answer are collected before they are sent.
const flushAt = 32 << 10

// writer writes a long answer in pieces, each within a time-out. A short one has a length.
type writer struct {
	w      http.ResponseWriter
	buffer []byte
	items  int // in the list that is written
	began  bool
	failed bool
}

func newWriter(w http.ResponseWriter) *writer {
	w.Header().Set("Content-Type", "application/json")
	return &writer{w: w}
}

// list begins a list.
func (w *writer) list(before string) {
	w.buffer, w.items = append(w.buffer, before...), 0
}

// item separates items, and returns the buffer to append the next one to.
func (w *writer) item() []byte {
	w.items++
	if w.items == 1 {
		return append(w.buffer, '[')
	}
	return append(w.buffer, ',')
}

// endList ends a list. One without items is null.
func (w *writer) endList() {
	if w.items == 0 {
		w.buffer = append(w.buffer, "null"...)
		return
	}
	w.buffer = append(w.buffer, ']')
}

// flush sends what is collected.
func (w *writer) flush() {
	if w.failed || len(w.buffer) == 0 {
		return
	}
	_ = http.NewResponseController(w.w).SetWriteDeadline(time.Now().Add(writeTimeout)) // tests have no connection
	_, err := w.w.Write(w.buffer)
	w.buffer, w.began, w.failed = w.buffer[:0], true, err != nil
}

// end sends the rest, and reports whether all was sent.
func (w *writer) end(r *http.Request) bool {
	if !w.began {
		w.w.Header().Set("Content-Length", strconv.Itoa(len(w.buffer)))
	}
	w.flush()
	return !w.failed && http.NewResponseController(w.w).Flush() == nil && r.Context().Err() == nil
}

// write writes an answer of the stream, and reports whether it was sent whole.
func (s *Server) write(w http.ResponseWriter, r *http.Request, v *view, q *query, a *answer) bool {
	out := newWriter(w)
	out.list(`{"deleted":`)
	s.stats.deleted.Add(s.writeSlots(out, v, q, a, func(e *entry, _ int64) bool { return a.deleted(e) }))
	out.list(`,"new":`)
	s.stats.added.Add(s.writeSlots(out, v, q, a, a.added))
	out.buffer = append(out.buffer, '}')
	return out.end(r)
}

// writeSlots writes the items of those slots of an answer that are wanted, and returns how many these are.
func (s *Server) writeSlots(out *writer, v *view, q *query, a *answer, wanted func(e *entry, now int64) bool) uint64 {
	for from := 0; from < len(a.slots) && !out.failed; from += pieces {
		now := s.options.Clock().UnixNano()
		v.mu.Lock()
		for _, slot := range a.slots[from:min(from+pieces, len(a.slots))] {
			if slot < v.table.end() && v.table.used(slot) && wanted(v.table.at(slot), now) {
				s.writeItem(out, q, itemOf(v.table.at(slot)), now)
			}
		}
		v.mu.Unlock()
		if len(out.buffer) >= flushAt {
			out.flush()
		}
	}
	out.endList()
	return uint64(out.items)
}

func (s *Server) writeItem(out *writer, q *query, i item, now int64) {
	if p := s.prefix(i.addr); q.passes(p) {
		out.buffer = i.append(out.item(), p, now)
	}
}

// anyFresh reports whether the decisions of any partition are fresh.
func (s *Server) anyFresh() bool {
	now := s.options.Clock()
	for p := range s.options.Board.Partitions() {
		if s.options.Board.Freshness(p, now) == gate.Fresh {
			return true
		}
	}
	return false
}
