package merge

import (
	"net/netip"
	"unsafe"

	"github.com/509da70d/floodgate/schemas"
)

// Each calls visit with every entry and its hash, in order of arrival. It uses the same Entry for each call, and its strings
// are memory of the table: they are valid until visit returns. Copy them to keep them longer.
func (t *Table) Each(visit func(hash uint64, e *schemas.Entry)) {
	for i := range t.entries {
		t.Read(i, &t.visited)
		visit(t.entries[i].hash, &t.visited)
	}
}

// Read sets *e to entry i, 0 ≤ i < Len. Its strings are valid until the next call of a method of t.
func (t *Table) Read(i int, e *schemas.Entry) {
	s := &t.entries[i]
	kind := int(s.off) + s.shape.kind()
	id := kind + s.shape.id()
	*e = schemas.Entry{
		Time: s.time, Kind: t.text(int(s.off), kind), ID: t.text(kind, id), Resource: t.text(id, id+s.shape.resource()),
		Cost: s.cost, Count: s.count, Status: s.shape.status(),
		Blocked: s.shape&flagBlocked != 0, Early: s.shape&flagEarly != 0, Response: s.shape&flagResponse != 0,
	}
	if s.shape&flagAddr != 0 {
		e.ID = t.addrText([16]byte(t.arena[kind:id]))
	}
}

// addrText returns the text of an address in its canonical form.
func (t *Table) addrText(addr [16]byte) string {
	b := netip.AddrFrom16(addr).Unmap().AppendTo(t.addr[:0])
	return unsafe.String(&t.addr[0], len(b)) // valid until the next Read
}

// text returns arena[from:to] without a copy. Copies would be the only garbage that the recorder makes.
func (t *Table) text(from, to int) string {
	if from == to {
		return ""
	}
	return unsafe.String(&t.arena[from], to-from) // valid until Reset, as Each says
}
