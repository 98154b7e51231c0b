package rules

import (
	"fmt"
	"net/netip"

	"github.com/goccy/go-yaml/ast"
)

// Document is a mapping in a YAML file that is not a rule file but is read as one: plain YAML within the same limits, of
// which all that is wrong is said at once, with line and column. Its methods read one field each; what is wrong with it
// is reported, and then, as where the field is absent, the zero value is returned. One goroutine uses it.
type Document struct{ f fields }

// ParseDocument gives the top mapping of data to read, and returns what was reported as Errors. All its fields must be
// known. name is the file's, for messages.
func ParseDocument(name string, data []byte, known []string, read func(*Document)) error {
	s := &source{file: name}
	if root := s.document(data); root != nil {
		if f, ok := s.mapping("file", root, known...); ok {
			read(&Document{f})
		}
	}
	if len(s.errs) > 0 {
		return Errors(sorted(s.errs))
	}
	return nil
}

// ReadDocument returns the file at path, up to one byte more than ParseDocument takes.
func ReadDocument(path string) ([]byte, error) { return read(path) }

// Has reports whether a field is there, whatever it says.
func (d *Document) Has(field string) bool { return d.f.has(field) }

// Says reports whether a field is there and says just that.
func (d *Document) Says(field, text string) bool {
	if !d.f.has(field) {
		return false
	}
	got, ok := textOf(d.f.nodes[field])
	return ok && got == text
}

// Failed reports whether anything in the file was reported.
func (d *Document) Failed() bool { return len(d.f.errs) > 0 }

// Fail reports what is wrong with a field: at its value, or at the mapping if it is not there.
func (d *Document) Fail(field, format string, args ...any) { d.f.fail(field, format, args...) }

// Text returns a string; want says what it should be.
func (d *Document) Text(field, want string) string {
	text, _ := d.f.text(field, want)
	return text
}

// Integer returns a whole number from least to most, or the fallback.
func (d *Document) Integer(field string, least, most, fallback int64) int64 {
	return d.f.integer(field, least, most, fallback)
}

// Boolean returns true or false, or the fallback where the field is absent.
func (d *Document) Boolean(field string, fallback bool) bool {
	if !d.f.has(field) {
		return fallback
	}
	return d.f.boolean(field)
}

// Mapping returns the mapping that is a field's value, or nil.
func (d *Document) Mapping(field string, known ...string) *Document {
	if !d.f.has(field) {
		return nil
	}
	f, ok := d.f.mapping(field, d.f.nodes[field], known...)
	if !ok {
		return nil
	}
	return &Document{f}
}

// Mappings returns the mappings in a list.
func (d *Document) Mappings(field string, most int, known ...string) []*Document {
	var all []*Document
	for _, n := range d.f.list(field, most) {
		if f, ok := d.f.mapping(field, n, known...); ok {
			all = append(all, &Document{f})
		}
	}
	return all
}

// Each calls read for each field of the mapping that is a field's value, whatever they are called, in their order. A
// field that is there twice is reported. An error of read is reported: key says at which end.
func (d *Document) Each(field string, most int, read func(key string, value *Document)) {
	if !d.f.has(field) {
		return
	}
	values, ok := pairs(d.f.nodes[field])
	switch {
	case !ok:
		d.f.wrong(field, "a mapping")
		return
	case len(values) == 0 || len(values) > most:
		d.f.fail(field, "got %d, want 1 to %d", len(values), most)
		return
	}
	seen := make(map[string]bool)
	for _, pair := range values {
		key := pair.Key.GetToken().Value
		if seen[key] {
			d.f.errorf(position(pair), "%s: given twice", printable(key))
			continue
		}
		seen[key] = true
		read(key, &Document{fields{source: d.f.source, node: pair, nodes: map[string]ast.Node{key: pair.Value}}})
	}
}

// Texts returns a list of strings that are not empty; one alone stands for a list of itself.
func (d *Document) Texts(field, want string, most int) []string {
	var all []string
	for _, n := range d.f.list(field, most) {
		text, ok := textOf(n)
		if !ok || text == "" {
			d.f.errorf(position(n), "%s: got %s, want %s", field, describe(n), want)
			continue
		}
		all = append(all, text)
	}
	return all
}

// Statuses returns a list of HTTP statuses and classes of them.
func (d *Document) Statuses(field string) []StatusRange {
	var all []StatusRange
	for _, n := range d.f.list(field, MaxGlobs) {
		status, ok := statusOf(n)
		if !ok {
			d.f.errorf(position(n), "%s: got %s, want 100 to 599, or 1xx to 5xx", field, describe(n))
			continue
		}
		all = append(all, status)
	}
	return all
}

// Networks returns a list of networks and addresses, in canonical form.
func (d *Document) Networks(field string, most int) []netip.Prefix {
	var all []netip.Prefix
	for _, n := range d.f.list(field, most) {
		text, ok := textOf(n)
		network, err := prefixOf(text)
		if !ok {
			err = fmt.Errorf("got %s, want an address, or a network such as 198.51.100.0/24", describe(n))
		}
		if err != nil {
			d.f.errorf(position(n), "%s: %v", field, err)
			continue
		}
		all = append(all, network)
	}
	return all
}

// prefixOf reads a network, or an address as the network of itself.
func prefixOf(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return canonicalNetwork(text)
}
