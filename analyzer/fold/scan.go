package fold

import (
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/store/rows"
)

// Scan is a pass over the rows of a fold, in pieces, between which the fold goes on. An owner writes the pieces to state[p] as a snapshot.
// Each row that existed when the scan began is returned when the scan reaches it: as it is then, or as dropped. Rows that were added after
// the scan began are not returned: whoever folds the log again from where the scan began makes them again.
//
// A row that is dropped before the scan reaches it would be missed. The fold notes such rows, and the next piece returns each of them: as
// dropped, or as it is if its caller has a new row by then.
type Scan struct {
	at         uint32 // rows below this index were returned
	end        uint32 // rows from this index on were made after the scan began
	dropped    []droppedRow
	overflowed bool

	records []override.Row // control records as they were when the scan began
}

// droppedRow is a row that was dropped before the scan had reached it.
type droppedRow struct {
	rule int32
	id   string
}

// maxDropped bounds how many dropped rows a scan remembers: about 50 MB. An owner takes them four times a second.
const maxDropped = 1 << 20

// Overflowed reports whether more rows were dropped than a scan remembers. Then the scan is useless.
func (s *Scan) Overflowed() bool { return s.overflowed }

// Dropped returns how many dropped rows the next piece must return.
func (s *Scan) Dropped() int { return len(s.dropped) }

// Records returns how many control records the scan must still return. They come before all other rows. While it is not 0, the next piece
// has control records only, as of where the scan began, because what is folded from there on depends on them. Records that came later are
// applied again by whoever folds from there.
func (s *Scan) Records() int { return len(s.records) }

// Behind returns how many rows the scan must still return until a share of all rows, from 0 to 1, was returned.
func (s *Scan) Behind(share float64) int { return int(share*float64(s.end)) - int(s.at) }

// Scan returns the scan that is under way, or nil.
func (f *Fold) Scan() *Scan { return f.table.scan }

// BeginScan starts a scan. A scan that is under way ends. It returns the whole dedupe table and all losses
// and pools as they are now.
func (f *Fold) BeginScan() ([]Sender, []rows.Change) {
	f.table.scan = &Scan{end: f.table.Made(), records: f.rules.records.Rows()}
	for i := range f.table.losses.byRule {
		f.table.losses.byRule[i].shown = false
	}
	senders := make([]Sender, 0, len(f.dedupe.rows))
	for id, s := range f.dedupe.rows {
		senders = append(senders, s.export(id))
	}
	return senders, append(f.table.losses.scan(), f.scanPools()...)
}

// EndScan abandons the scan, if there is one.
func (f *Fold) EndScan() { f.table.scan = nil }

// scanBytes is about how large a piece of a scan may get, in bytes. Rows of algorithm log may have thousands of numbers each.
const scanBytes = 256 << 10

// ScanRows returns the next piece of the scan, of about n rows, and whether there are more. Dropped rows come first, and have no value.
// There must be a scan.
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

// Put replaces a row by a row of a snapshot. It must be called when the fold has folded the records up to the offset that the snapshot's
// row is as of. A row without a value was dropped. The fold's store must be empty. Put ignores rows that no rule counts.
func (f *Fold) Put(key, value []byte) error {
	switch KindOf(key) {
	case LossRow:
		return f.table.losses.restore(key, value, 0)
	case PoolRow:
		return f.restorePool(key, value, 0)
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
			f.table.remove(i, f.table.row(i)) // it stays in its bucket of the wheel, which ignores it
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
			f.table.waiting.remove(w) // the weight that it sent is in the row, or was lost
		}
	}
	row := f.table.row(i)
	f.table.takeRow(row, &v)
	f.noteAbove(i, row)
	f.table.markDirty(i, row)
	f.table.wheel.schedule(i, f.table.expiry(row)) // perhaps a second time: the first may be too late now
	return nil
}

// EndPuts ends restoring from a snapshot. Call it after the last Put.
func (f *Fold) EndPuts() {
	f.table.trim()
	f.table.reschedule()
	f.findAbove()
}

// noteDropped tells the scan under way that a row is being dropped.
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

// readRow reads the value of a row of a rule. The state is nil if there is no such rule, or if the rule counts differently now.
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
