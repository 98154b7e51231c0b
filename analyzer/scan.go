package analyzer

import (
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/analyzer/policy"
	"github.com/509da70d/floodgate/analyzer/window"
)

// scan is a pass over the rows of a fold, in pieces, while the fold goes on: what an owner writes to state[p] as a
// snapshot. Whatever was there when it began is handed out once it is reached, as it is then, or as gone. Rows that came
// later need not be: who refolds the log from where the scan began makes them anew.
//
// One thing would be missed: a row that goes before it is reached. The fold reports those, and each is handed out with
// the next piece: as gone, or as what it has become since.
type scan struct {
	at   uint32 // rows below this index were handed out
	end  uint32 // rows from here on came later
	gone []goneRow
	lost bool // more went than is remembered: the scan is worth nothing
}

// goneRow is a row that went before the scan had reached it.
type goneRow struct {
	hash uint64
	rule int32
	id   string
}

// maxGone bounds what a scan remembers, about 50 MB. An owner takes them out four times a second.
const maxGone = 1 << 20

// scanned is a row as a scan hands it out; the value is nil if it has gone.
type scanned struct{ key, value []byte }

// sent is what was seen of a producer or source.
type sent struct {
	id   senderID
	seen sender
}

// beginScan starts a scan, in place of one that was under way, and returns the whole dedupe table as it is now.
func (f *Fold) beginScan() []sent {
	f.scan = &scan{end: f.table.next}
	senders := make([]sent, 0, len(f.dedupe.rows))
	for id, s := range f.dedupe.rows {
		senders = append(senders, sent{id, *s})
	}
	return senders
}

// endScan abandons the scan, if there is one.
func (f *Fold) endScan() { f.scan = nil }

// scanBytes is about how large a piece of a scan may get: few rows of a log with its thousands of entries.
const scanBytes = 256 << 10

// scanRows returns the next piece of the scan, of about so many rows, and whether more are left. Rows that have gone come
// first.
func (f *Fold) scanRows(most int) (piece []scanned, more bool) {
	s, size := f.scan, 0
	full := func() bool { return len(piece) >= most || size >= scanBytes }
	add := func(key, value []byte) {
		piece = append(piece, scanned{key, value})
		size += len(key) + len(value)
	}
	for n := len(s.gone); n > 0 && !full(); n-- {
		g := s.gone[n-1]
		s.gone = s.gone[:n-1]
		if i, ok := f.table.find(g.hash, g.rule, g.id); ok {
			add(f.encode(nil, f.table.row(i)))
			continue
		}
		r := f.set.Rules[g.rule]
		add(appendRowKey(nil, r.Name, r.Kind, g.id), nil)
	}
	for ; s.at < s.end && !full(); s.at++ {
		if r := f.table.row(s.at); r.rule >= 0 {
			add(f.encode(nil, r))
		}
	}
	return piece, s.at < s.end || len(s.gone) > 0
}

// went tells the scan under way about a row that is being dropped.
func (f *Fold) went(i uint32, r *row) {
	s := f.scan
	switch {
	case s == nil || i < s.at || i >= s.end:
	case len(s.gone) >= maxGone:
		s.lost = true
	default:
		s.gone = append(s.gone, goneRow{r.hash, r.rule, r.id})
	}
}

// restoreSender puts a sender of a snapshot into a fold that has folded nothing yet.
func (f *Fold) restoreSender(s sent) {
	row := s.seen
	row.from, row.stored, row.dirty = row.high, 0, true
	f.dedupe.rows[s.id] = &row
	f.dedupe.changed = append(f.dedupe.changed, s.id)
	f.dedupe.oldest = min(f.dedupe.oldest, row.last)
}

// put makes a row what a snapshot says it was after the records that have been folded by now, whatever they made of it
// here; without a value it was gone. The fold's store must be empty. Rows that no rule counts are passed over.
func (f *Fold) put(key, value []byte) error {
	name, kind, id, err := parseRowKey(string(key))
	if err != nil {
		return err
	}
	rule := f.ruleIndex(name)
	if rule < 0 || f.set.Rules[rule].Kind != kind {
		return nil
	}
	hash := rowHash(f.opts.Key.Hash(kind, id), rule)
	i, ok := f.table.find(hash, rule, id)
	if len(value) == 0 {
		if ok {
			f.table.remove(i) // it stays in its bucket of the wheel, which passes over it
		}
		return nil
	}
	closure, state, err := f.readRow(key, value, rule)
	if err != nil || state == nil {
		return err
	}
	if !ok {
		i = f.table.insert(hash, rule, strings.Clone(id))
	}
	row := f.table.row(i)
	row.set(state)
	row.closure = closure
	f.markDirty(i, row)
	f.wheel.schedule(i, f.expiry(row)) // perhaps a second time: the first may be too late now
	return nil
}

// readRow reads the value of a row of a rule; the state is nil if there is no such rule, or if it counts otherwise now.
func (f *Fold) readRow(key, value []byte, rule int32) (policy.Closure, window.State, error) {
	shape, closure, state, err := parseRowValue(value)
	if err != nil {
		return closure, nil, fmt.Errorf("read row %q: %w", key, err)
	}
	if rule < 0 || f.set.Rules[rule].Shape() != shape {
		return closure, nil, nil
	}
	r := f.set.Rules[rule]
	if !r.Window.Valid(state) {
		return closure, nil, fmt.Errorf("read row %q: %w: got a state of %d numbers, want one of %s", key, errRow, len(state), r.Window.Shape())
	}
	return closure, state, nil
}

// endPuts ends restoring from a snapshot: each row is in one bucket of the wheel again.
func (f *Fold) endPuts() {
	f.wheel = wheel{minute: f.wheel.minute, started: f.wheel.started}
	f.table.each(func(i uint32, r *row) bool {
		f.wheel.schedule(i, f.expiry(r))
		return true
	})
}
