package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
)

// decoder reads the fields of a line in one format. It is used by one goroutine.
type decoder interface {
	// decode sets the values of the fields that the line has, as views of s or in l's scratch. A format with a time,
	// status and cost of its own sets those of l; its time is noTime where it can't be read. The reason is the one to
	// give if what a line needs is not among them.
	decode(s string, values []string, l *Line) (missing Reason)
}

// noTime is the time of a line that has none.
const noTime = -1

// ref is a field in a mapping.
type ref struct {
	what  refKind
	slots []int // indices of values; the first value that is not empty counts
}

type refKind uint8

const (
	refNone     refKind = iota
	refField            // of the log
	refClient           // fieldClient
	refNet              // fieldNet
	refASN              // fieldASN
	refResource         // fieldResource
	refPath             // the same, before it is made to fit a template
)

// ofClient reports whether the value is the client, or made of it.
func (r *ref) ofClient() bool { return r.what == refClient || r.what == refNet || r.what == refASN }

// caller is how callers of one kind are made.
type caller struct {
	template template
	kind     string
	secret   *schemas.KindHasher // nil if ids are not hashed with one
}

// mapper is a Mapping whose fields were found in a format. It does not change.
type mapper struct {
	callers []caller
	client  clientRef
	time    ref // refNone: the decoder reads time, status and cost
	layout  TimeLayout
	path    ref
	method  ref
	routes  *routes // nil if there are no templates
	status  ref
	cost    ref
	scale   int64
	blocked statusSet
	drop    []filter

	arrivals arrivals

	dash bool // a value of "-" is none
}

// newMapper returns m for a format with the given fields. Native reports whether its decoder reads time, status and cost.
func newMapper(m Mapping, names fieldNames, native bool) (*mapper, error) {
	c := &compiler{names: names, client: m.Client.Address, resource: m.Resource, asn: m.IDs.ASN != nil}
	p := &mapper{layout: m.Layout, scale: max(m.CostScale, 1)}
	p.client = clientRef{
		address: c.field(m.Client.Address), forwarded: c.field(m.Client.Forwarded), ids: m.IDs,
		trusted: schemas.NewNetworks(m.Client.Trusted),
	}
	c.clientKnown = m.Client.Address != "" || m.Client.Forwarded != ""
	if !native {
		p.time = c.field(m.Time)
	}
	p.path, p.method, p.status, p.cost = c.field(m.Resource), c.field(m.Method), c.field(m.Status), c.field(m.Cost)
	for _, t := range m.Callers {
		made := c.caller(t)
		made.secret = m.IDs.Hash.Kind(t.Kind)
		p.callers = append(p.callers, made)
	}
	p.drop, p.arrivals = c.filters(m.Drop), c.arrivals(m)
	p.blocked = blockedStatuses(m)
	if len(m.Routes) > 0 || m.OtherRoute != "" {
		var err error
		if p.routes, err = newRoutes(m.Routes, m.OtherRoute); err != nil {
			c.fail(err)
		}
	}
	if c.err == nil && len(p.callers) == 0 {
		c.fail(errors.New("no callers: want one, such as ip=client_ip"))
	}
	if c.err == nil && !native && m.Time == "" {
		c.fail(errors.New("no time: want a field that has it, such as $time_local of nginx or %t of Apache"))
	}
	return p, c.err
}

// compiler turns names of fields into refs. It keeps the first error.
type compiler struct {
	names       fieldNames
	client      string // the field that means fieldClient
	clientKnown bool
	resource    string // the field of which fieldResource is made
	asn         bool   // there is a file of autonomous systems
	err         error
}

func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %w", ErrMapping, err)
	}
}

// field returns the ref of a field of the log, with its alternatives.
func (c *compiler) field(name string) ref {
	if name == "" {
		return ref{}
	}
	r := ref{what: refField}
	for alternative := range strings.SplitSeq(name, "|") {
		slot, err := c.names.slot(alternative)
		if err != nil {
			c.fail(err)
			return r
		}
		r.slots = append(r.slots, slot)
	}
	if len(r.slots) > maxOtherwise {
		c.fail(fmt.Errorf("got %d fields in %q, want at most %d", len(r.slots), name, maxOtherwise))
	}
	return r
}

// value returns the ref of a field of the log or of the mapping. The field of the client's address means the client, so that a
// mapping which trusts proxies and names that field gets the client behind them.
func (c *compiler) value(name string) ref {
	switch {
	case c.clientKnown && (name == fieldClient || name == c.client):
		return ref{what: refClient}
	case c.clientKnown && name == fieldNet:
		return ref{what: refNet}
	case c.clientKnown && name == fieldASN:
		if !c.asn {
			c.fail(errors.New("got {asn} and no file that says which addresses an autonomous system has, want --asn-file; {asn|asn} is a field asn of the log"))
		}
		return ref{what: refASN}
	case c.resource != "" && name == fieldResource:
		return ref{what: refResource}
	}
	return c.field(name)
}

// statusSet is a set of HTTP statuses.
type statusSet [16]uint64

func (s *statusSet) add(r pattern.StatusRange) {
	for n := r.From; n <= min(r.To, 999); n++ {
		s[n/64] |= 1 << (n % 64)
	}
}

func (s *statusSet) has(n uint16) bool { return n < 1000 && s[n/64]&(1<<(n%64)) != 0 }

// blockedStatuses returns the statuses that say that a request was blocked.
func blockedStatuses(m Mapping) (s statusSet) {
	switch {
	case m.NoBlocked:
	case len(m.Blocked) == 0:
		s.add(pattern.StatusRange{From: 429, To: 429})
	default:
		for _, r := range m.Blocked {
			s.add(r)
		}
	}
	return s
}

// caller compiles the template of one kind.
func (c *compiler) caller(t CallerTemplate) caller {
	parts, err := parseTemplate(t.Template)
	made := caller{template: parts, kind: t.Kind}
	if err == nil && schemas.OfAddress(t.Kind) && !parts.alone() {
		err = fmt.Errorf("these are %s: want one field and no text beside it", madeOfAddress(t.Kind))
	}
	if err != nil {
		c.fail(fmt.Errorf("callers %s: %w", t.Kind, err))
		return made
	}
	for i := range parts.parts {
		p := &parts.parts[i]
		field := p.field
		if c.clientKnown && (field == fieldClient || field == c.client) && (t.Kind == schemas.KindNet || t.Kind == schemas.KindASN) {
			field = t.Kind // fieldNet or fieldASN
		}
		if p.ref = c.value(field); t.Kind == kindHost && p.ref.what == refClient {
			p.ref = c.field(cmp.Or(c.client, p.field)) // as the log has it
		}
	}
	return made
}

// madeOfAddress returns what the ids of a kind are that is made of an address.
func madeOfAddress(kind string) string {
	switch kind {
	case schemas.KindNet:
		return "networks of addresses"
	case schemas.KindASN:
		return "autonomous systems of addresses"
	}
	return "addresses"
}
