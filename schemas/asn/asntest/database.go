// Package asntest writes small databases of autonomous systems in MaxMind's format, for tests.
package asntest

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
)

// Field is the name under which records have their number.
const Field = "autonomous_system_number"

// Database returns a database of networks and their numbers, with records of 32 bits. Of two networks that overlap, the smaller one
// counts for its addresses. The text follows MaxMind DB File Format Specification, version 2.0.
func Database(systems map[string]uint32) []byte { return DatabaseOf(Field, systems) }

// DatabaseOf is Database with another name of the field.
func DatabaseOf(field string, systems map[string]uint32) []byte {
	t := tree{nodes: [][2]int{{}}}
	var data []byte
	networks := slices.SortedFunc(maps.Keys(systems), func(a, b string) int {
		return netip.MustParsePrefix(a).Bits() - netip.MustParsePrefix(b).Bits()
	})
	for _, text := range networks {
		t.insert(netip.MustParsePrefix(text), -1-len(data))
		data = append(append(data, 7<<5|1), value(field)...) // a map of one pair
		data = append(data, 6<<5|4)                          // a uint32 of 4 bytes
		data = binary.BigEndian.AppendUint32(data, systems[text])
	}
	var out []byte
	for _, n := range t.nodes {
		for _, to := range n {
			record := to // another node
			switch {
			case to == 0:
				record = len(t.nodes) // nothing
			case to < 0:
				record = len(t.nodes) + 16 + -1 - to
			}
			out = binary.BigEndian.AppendUint32(out, uint32(record))
		}
	}
	out = append(append(out, make([]byte, 16)...), data...)
	return append(out, metadata(len(t.nodes))...)
}

// tree has nodes with two branches: 0 is nothing, a positive number a node, and a negative one -1 minus an offset of the data.
type tree struct{ nodes [][2]int }

// insert puts data at a network. Wider networks come first.
func (t *tree) insert(p netip.Prefix, data int) {
	addr, bits := p.Addr().As16(), p.Bits()
	if p.Addr().Is4() {
		addr[10], addr[11], bits = 0, 0, bits+96 // IPv4 is at ::/96
	}
	at := 0
	for i := range bits {
		branch := &t.nodes[at][addr[i/8]>>(7-i%8)&1]
		if i == bits-1 {
			*branch = data
			return
		}
		if *branch <= 0 {
			t.nodes = append(t.nodes, [2]int{*branch, *branch}) // both halves of a wider network
			branch = &t.nodes[at][addr[i/8]>>(7-i%8)&1]
			*branch = len(t.nodes) - 1
		}
		at = *branch
	}
}

// metadata returns the end of a file.
func metadata(nodes int) []byte {
	out := append([]byte("\xab\xcd\xefMaxMind.com"), 7<<5|6)
	uint16Of := func(name string, n uint16) {
		out = binary.BigEndian.AppendUint16(append(append(out, value(name)...), 5<<5|2), n)
	}
	uint16Of("binary_format_major_version", 2)
	uint16Of("binary_format_minor_version", 0)
	uint16Of("ip_version", 6)
	uint16Of("record_size", 32)
	out = binary.BigEndian.AppendUint32(append(append(out, value("node_count")...), 6<<5|4), uint32(nodes))
	return append(append(out, value("database_type")...), value("test-ASN")...)
}

// value returns a text of at most 28 bytes.
func value(text string) []byte { return append([]byte{2<<5 | byte(len(text))}, text...) }
