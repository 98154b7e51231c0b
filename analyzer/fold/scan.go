package fold

import (
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/store/rows"
)

// Scan is a pass over the rows of a fold, in pieces, while the fold goes on: what an owner writes to state[p] as a
// snapshot. Each row that was there when the scan began is handed out once the scan reaches it: as it is then, or as
// dropped. Rows inserted after the scan began are not handed out: folding the log again from where the scan began makes
// them anew.
//
// A row that is dropped before the scan reaches it would be missed. The fold notes those, and the next piece hands each of
// them out: as dropped, or as what it has become since.
type Scan struct {
	at         uint32 // rows below this index were handed out
	end        uint32 // rows from here on came later
	dropped    []droppedRow
	overflowed bool

	records []override.Row // control records as they were then
}

// droppedRow is a row that was dropped before the scan had reached it.
type droppedRow struct {
	rule int32
	id   string
}

// maxDropped bounds what a scan remembers, about 50 MB. An owner takes them out four times a second.
const maxDropped = 1 << 20

// Overflowed reports whether more rows were dropped than a scan remembers: then the scan is worth nothing.
func (s *Scan) Overflowed() bool { return s.overflowed }

// Dropped returns how many rows were dropped that the next piece must hand out.
func (s *Scan) Dropped() int { return len(s.dropped) }

// Records returns how many control records must still be handed out, before all other rows. While it is not 0, the next piece is of
// them alone, as of where the scan began: what is folded from there on depends on them. Later records are applied again.
func (s *Scan) Records() int { return len(s.records) }

// Behind returns how many rows must be handed out so that a share of all, from 0 to 1, has been.
func (s *Scan) Behind(share float64) int { return int(share*float64(s.end)) - int(s.at) }

// Scan returns the scan that is under way, or nil.
func (f *Fold) Scan() *Scan { return f.table.scan }

// BeginScan starts a scan, in place of one that was under way, and returns the whole dedupe table and all losses as they
// are now.
func (f *Fold) BeginScan() ([]Sender, []rows.Change) {
	f.table.scan = &Scan{end: f.table.Made(), records: f.rules.records.Rows()}
	for i := range f.table.losses.accounts {
		f.table.losses.accounts[i].shown = false
	}
	senders := make([]Sender, 0, len(f.dedupe.rows))
	for id, s := range f.dedupe.rows {
		senders = append(senders, s.export(id))
	}
	return senders, f.table.losses.scan()
}

// EndScan abandons the scan, if there is one.
func (f *Fold) EndScan() { f.table.scan = nil }

// scanBytes is about how large a piece of a scan may get: few rows of a log with its thousands of entries.
const scanBytes = 256 << 10

// ScanRows returns the next piece of the scan, of about n rows, and whether more are left. Dropped rows come first; they
// have no value. There must be a scan.
func (f *Fold) ScanRows(n int) (piece []rows.Change, more bool) {
	s, size := f.table.scan, 0
	full := func() bool { return len(piece) >= n || size >= scanBytes }
	add := func(key, value []byte) {
		piece = append(piece, rows.Change{Key: key, Value: value})
		size += len(key) + len(value)
	}
	for ; len(s.records) > 0; s.records = s.records[1:] {
		if full() {
			return piece, true
		}
		add(s.records[0].Encode())
	}
	if len(piece) > 0 {
		return piece, true
	}
	piece = f.table.losses.scan() // before the rows that they explain
	for last := len(s.dropped) - 1; last >= 0 && !full(); last-- {
		g := s.dropped[last]
		s.dropped = s.dropped[:last]
		if i, ok := f.table.find(rowHash(f.table.ids.hash(g.id), g.rule), g.rule, g.id); ok {
			add(f.table.encode(nil, f.table.row(i)))
			continue
		}
		r := f.rules.set.Rules[g.rule]
		add(AppendRowKey(nil, r.Name, r.Kind, g.id), nil)
	}
	for ; s.at < s.end && !full(); s.at++ {
		if r := f.table.row(s.at); r.rule >= 0 {
			add(f.table.encode(nil, r))
		}
	}
	return piece, s.at < s.end || len(s.dropped) > 0
}

// Put makes a row what a snapshot says it was after the records that have been folded by now, whatever they made of it
// here; without a value it had been dropped. The fold's store must be empty. Rows that no rule counts are ignored.
func (f *Fold) Put(key, value []byte) error {
	switch KindOf(key) {
	case LossRow:
		return f.table.losses.restore(key, value, 0)
	case ControlRow:
		return f.table.restoreRecord(key, value, 0)
	}
	name, kind, id, err := ParseRowKey(string(key))
	if err != nil {
		return err
	}
	rule := f.rules.index(name)
	if rule < 0 || f.rules.set.Rules[rule].Kind != kind {
		return nil
	}
	i, ok := f.table.find(rowHash(f.table.ids.hash(id), rule), rule, id)
	if len(value) == 0 {
		if ok {
			f.table.remove(i, f.table.row(i)) // it stays in its bucket of the wheel, which passes over it
		}
		return nil
	}
	v, err := f.table.readRow(key, value, rule)
	if err != nil || v.State == nil {
		return err
	}
	if !ok {
		i, _ = f.table.insert(rule, strings.Clone(id))
		if w, waits := f.table.waiting.find(rowHash(f.table.ids.hash(id), rule), rule); waits {
			f.table.waiting.remove(w) // what it sent is in the row, or was lost
		}
	}
	row := f.table.row(i)
	f.table.takeRow(row, &v)
	f.table.markDirty(i, row)
	f.table.wheel.schedule(i, f.table.expiry(row)) // perhaps a second time: the first may be too late now
	return nil
}

// EndPuts ends restoring from a snapshot: each row is in one bucket of the wheel again.
func (f *Fold) EndPuts() {
	f.table.trim()
	f.table.reschedule()
}

// noteDropped notes for the scan under way a row that is being dropped.
func (t *table) noteDropped(i uint32, r *row) {
	s := t.scan
	switch {
	case s == nil || i < s.at || i >= s.end:
	case len(s.dropped) >= maxDropped:
		s.overflowed = true
	default:
		s.dropped = append(s.dropped, droppedRow{int32(r.rule), r.id})
	}
}

// readRow reads the value of a row of a rule; the state is nil if there is no such rule, or if it counts otherwise now.
func (t *table) readRow(key, value []byte, rule int32) (StoredRow, error) {
	v, err := ParseRow(value)
	if err != nil {
		return v, fmt.Errorf("read row %q: %w", key, err)
	}
	if rule < 0 || t.rules.set.Rules[rule].Shape() != v.shape {
		return StoredRow{}, nil
	}
	r := t.rules.set.Rules[rule]
	if !r.Window.Valid(v.State) {
		return v, fmt.Errorf("read row %q: %w: got a state of %d numbers, want one of %s", key, errRow, len(v.State), r.Window.Shape())
	}
	return v, nil
}
