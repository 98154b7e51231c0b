package merge

import (
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// Each calls visit with every entry and its hash, in order of arrival. The entry's strings are the table's own memory:
// they hold until the next Reset or Replace and must be copied to live longer. The entry is one and the same each time.
func (t *Table) Each(visit func(hash uint64, e *schemas.Entry)) {
	for i := range t.entries {
		t.Read(i, &t.shown)
		visit(t.entries[i].hash, &t.shown)
	}
}

// Read sets *e to entry i, 0 ≤ i < Len, under the same terms as Each.
func (t *Table) Read(i int, e *schemas.Entry) {
	s := &t.entries[i]
	kind := int(s.off) + int(s.kind)
	id := kind + int(s.id)
	*e = schemas.Entry{
		Time: s.time, Kind: t.text(int(s.off), kind), ID: t.text(kind, id), Resource: t.text(id, id+int(s.res)),
		Cost: s.cost, Count: s.count, Status: s.status,
		Blocked: s.flags&flagBlocked != 0, Response: s.flags&flagResponse != 0,
	}
}

// text returns arena[from:to] without a copy: a copy of each flush would be the recorder's only garbage.
func (t *Table) text(from, to int) string {
	if from == to {
		return ""
	}
	return unsafe.String(&t.arena[from], to-from) // valid until Reset, as Each says
}
