package fold

import (
	"encoding/binary"
	"fmt"

	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/rows"
)

// maxManualText bounds what is read of one string of a control record, in bytes. All of them are shorter.
const maxManualText = 1024

// manualKey returns the store key of a control record: the prefix and its id.
func manualKey(id schemas.ControlID) []byte { return append([]byte{byte(ManualRow)}, id[:]...) }

func (m *manual) key() []byte { return manualKey(m.ID) }

// value is a version, where the record was applied, the record, and the one that undid it, if there is one.
func (m *manual) value() []byte { return m.valueWith(m.undo) }

func (m *manual) valueWith(undo *schemas.Control) []byte {
	b := append(make([]byte, 0, commonRow), rowVersion)
	b = binary.AppendVarint(b, m.offset)
	b = binary.AppendVarint(b, m.from)
	b = binary.AppendVarint(b, m.at)
	b = appendManual(b, &m.Control)
	if undo != nil {
		b = appendManual(append(b, undo.ID[:]...), undo)
	}
	return b
}

// appendManual appends what a control record says, but for its id.
func appendManual(b []byte, c *schemas.Control) []byte {
	b = binary.AppendVarint(append(b, byte(c.Action)), c.Time)
	for _, s := range [...]string{c.Author, c.Reason, c.Caller.Kind, c.Caller.ID, c.Rule} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = binary.AppendVarint(b, c.Limit)
	b = binary.AppendVarint(b, c.Until)
	return append(b, c.Target[:]...)
}

// manualReader reads what appendManual writes. After the first mistake it reads nothing.
type manualReader struct {
	b   []byte
	bad bool
}

func (r *manualReader) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *manualReader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *manualReader) text() string {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > maxManualText {
		r.b, r.bad = nil, true
		return ""
	}
	r.b = r.b[size:]
	return string(r.bytes(n))
}

func (r *manualReader) record() (c schemas.Control) {
	if b := r.bytes(1); len(b) == 1 {
		c.Action = schemas.ControlAction(b[0])
	}
	c.Time = r.varint()
	for _, s := range [...]*string{&c.Author, &c.Reason, &c.Caller.Kind, &c.Caller.ID, &c.Rule} {
		*s = r.text()
	}
	c.Limit, c.Until = r.varint(), r.varint()
	copy(c.Target[:], r.bytes(uint64(len(c.Target))))
	return c
}

// readManual undoes key and value.
func readManual(key, value []byte) (*manual, error) {
	m := new(manual)
	if len(key) != 1+len(m.ID) || len(value) == 0 || value[0] != rowVersion {
		return nil, fmt.Errorf("%w: got a control record of %d + %d bytes", errRow, len(key), len(value))
	}
	r := manualReader{b: value[1:]}
	m.offset, m.from, m.at = r.varint(), r.varint(), r.varint()
	m.Control = r.record()
	copy(m.ID[:], key[1:])
	if len(r.b) > 0 {
		var id schemas.ControlID
		copy(id[:], r.bytes(uint64(len(id))))
		undo := r.record()
		undo.ID, m.undo = id, &undo
	}
	if r.bad || len(r.b) > 0 || m.offset < 0 || m.from < 0 || !m.restorable() {
		return nil, fmt.Errorf("%w: got a control record %s that no owner writes", errRow, m.ID)
	}
	return m, nil
}

// ReadManual reads a row of kind ManualRow. The result shares no memory with key and value.
func ReadManual(key, value []byte) (Manual, error) {
	m, err := readManual(key, value)
	if err != nil {
		return Manual{}, err
	}
	return m.shown(), nil
}

// restorable reports whether a fold can have the record in a row.
func (m *manual) restorable() bool {
	about := m.Caller.Validate() == nil
	switch m.Action {
	case schemas.ControlClose, schemas.ControlOpen:
	case schemas.ControlLimit:
		about = about && m.Rule != "" && m.Limit > 0
	case schemas.ControlReset:
		return about && m.undo == nil
	case schemas.ControlMode:
		about = true
	case schemas.ControlUndo, schemas.ControlRules:
		return false
	default:
		return false
	}
	return about && m.Until > m.Time && (m.undo == nil || m.undo.Action == schemas.ControlUndo && m.undo.Target == m.ID)
}

// manualChanged puts a record on the list of the next checkpoint.
func (f *Fold) manualChanged(m *manual) {
	if !m.dirty && !f.opts.NoStore {
		m.dirty = true
		f.manual.dirty = append(f.manual.dirty, m)
	}
}

// takeManual appends the records that changed, for the store.
func (f *Fold) takeManual(changes []rows.Change) []rows.Change {
	for i, m := range f.manual.dirty {
		f.manual.dirty[i] = nil
		if m.dirty = false; m.gone {
			continue
		}
		key, value := m.key(), m.value()
		if m.stored == 0 && len(f.removed) > 0 {
			m.stored = f.removed.take(key)
		}
		changes = append(changes, rows.Change{Key: key, Value: value, Old: m.stored})
		m.stored = rows.Sum(key, value)
	}
	f.manual.dirty = f.manual.dirty[:0]
	return changes
}

// restoreManual puts a record back, from a store, where it has the given sum, or from a snapshot, with none. What it did is in the
// other rows, which need not be there yet. Without a value the snapshot says that it was forgotten.
func (f *Fold) restoreManual(key, value []byte, stored uint64) error {
	s := &f.manual
	if len(value) == 0 && stored == 0 {
		if len(key) == 1+len(schemas.ControlID{}) {
			f.forgetManual(schemas.ControlID(key[1:]))
		}
		return nil
	}
	m, err := readManual(key, value)
	if err != nil {
		return err
	}
	f.forgetManual(m.ID)
	if m.end() <= f.now {
		f.removed.add(key, stored)
		return nil
	}
	s.remember(m)
	if m.stored = stored; stored == 0 {
		f.manualChanged(m)
	}
	switch {
	case !m.inForce():
	case m.Action == schemas.ControlMode:
		s.modes = insertManual(s.modes, m)
		f.set = f.effective(f.file)
	default:
		f.addToHand(m)
	}
	return nil
}

// addToHand puts a record among those in force about its caller, whose rows are right already.
func (f *Fold) addToHand(m *manual) {
	h := f.manual.hands[m.Caller]
	if h == nil {
		h = new(hand)
		f.manual.hands[m.Caller] = h
	}
	h.records = insertManual(h.records, m)
	f.flagRows(m.Caller, true)
}

// flagRows notes in the rows of a caller whether there are control records about it.
func (f *Fold) flagRows(c schemas.Caller, is bool) {
	id := f.ids.hash(c.ID)
	for _, rule := range f.rulesOf(c.Kind) {
		if i, ok := f.table.find(rowHash(id, rule), rule, c.ID); ok {
			f.table.row(i).flagByHand(is)
		}
	}
}

// forgetManual takes a record out that a row of a snapshot replaces or removes, without an effect.
func (f *Fold) forgetManual(id schemas.ControlID) {
	s := &f.manual
	m := s.byID[id]
	if m == nil {
		return
	}
	for i := range s.ends.Len() { // only while a snapshot is restored
		if *s.ends.At(i) == m {
			s.takeEnd(i)
			break
		}
	}
	s.forget(m)
	f.removed.add(m.key(), m.stored)
	if !m.inForce() {
		return
	}
	s.inForce[m.Action]--
	is := func(o *manual) bool { return o == m }
	if m.Action == schemas.ControlMode {
		s.modes = deleteManual(s.modes, is)
		f.set = f.effective(f.file)
		return
	}
	h := s.hands[m.Caller]
	if h.records = deleteManual(h.records, is); len(h.records) == 0 {
		delete(s.hands, m.Caller)
		f.flagRows(m.Caller, false)
	}
}

// digestManual sums up the records that anything can still depend on at a log time. Of those about all partitions the fold of
// partition 0 counts. Where in requests[p] a record was applied differs from partition to partition, and is left out.
func (f *Fold) digestManual(at int64) (sum uint64) {
	for _, m := range f.manual.byID {
		if m.end() <= at || m.Global() && f.opts.Partition != 0 {
			continue
		}
		live := *m
		live.from, live.at = 0, 0
		sum += rows.Sum(live.key(), live.value())
	}
	return sum
}
