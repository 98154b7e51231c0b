package ingest

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
)

// ErrMapping says that a mapping does not fit its format, or contradicts itself. Test with errors.Is.
var ErrMapping = errors.New("bad mapping")

// Bounds of a mapping.
const (
	MaxCallers   = 8    // caller kinds
	maxRoutes    = 1000 // resource templates
	maxFilters   = 64   // drop filters
	maxPrefixes  = 1000 // networks of trusted proxies
	maxPatterns  = 64   // in one list of a drop filter
	maxParts     = 4    // fields that make one caller
	maxOtherwise = 8    // alternatives of a field, as in a|b
)

// Names of fields that the mapping makes and the log does not have.
const (
	fieldClient   = "client"   // the client's address, behind trusted proxies, in canonical form
	fieldNet      = "net"      // the network of that address: the id of its caller of kind net
	fieldASN      = "asn"      // the autonomous system of that address: the id of its caller of kind asn
	fieldResource = "resource" // the method, a blank, and the path without the query or the template it fits: see schemas.Method
)

// kindHost is the kind of callers that are host names, for logs of servers that look names up. The client's field is read for it as
// the log has it, in small letters and without a dot at its end. The owner of an address chooses its name.
const kindHost = "host"

// CallerTemplate says how callers of one kind are made: text with fields in braces, such as "{remote_addr}" or
// "{tenant}|{route}". {a|b} is field a, or b where the line has no a.
type CallerTemplate struct {
	Kind     string
	Template string
}

// Client says where the address of the client stands. The zero value takes the format's defaults.
type Client struct {
	Address   string         // field with the address at the other end of the connection; a port after it is cut
	Forwarded string         // field with X-Forwarded-For as the server got it; "" does not look at it
	Trusted   []netip.Prefix // networks of proxies; a peer outside of them is the client, whatever it forwards
}

// Filter selects lines that do not count: those that meet all its conditions. The zero value is refused.
type Filter struct {
	Client []netip.Prefix
	Status []pattern.StatusRange
	Fields []FieldFilter
}

// FieldFilter holds for lines whose field matches one of the patterns. fieldResource is the path here, not the template it
// fits.
type FieldFilter struct {
	Field    string
	Patterns []pattern.Glob
}

// Mapping says what the callers of a line are and which fields have the rest, by the format's own names. For JSON a
// name is a key, or a path of keys with dots; a|b is a, or b where the line has no a. The zero value takes a format's
// defaults.
type Mapping struct {
	Callers     []CallerTemplate
	OnlyCallers bool // Callers are complete; otherwise the format adds its own, ip, as the first
	Client      Client
	IDs         schemas.IDs // how ids of callers are made; the same in all servers, sidecars and ingests
	Time        string      // field of the time
	Layout      TimeLayout  // how the time is written
	TimeAt      TimeAt      // which end of a request it is; needed with Duration
	Duration    string      // field of how long the request took: then its arrival counts at its start, and its response at its end
	Unit        time.Duration
	Resource    string   // field of the path, or of the request line
	Method      string   // field of the method; without it, the method of the request line, if that is the resource's field
	Routes      []string // templates of paths, such as /users/{id}: see fieldResource
	OtherRoute  string   // the resource of a path that fits no template; "" is the path itself
	Status      string   // field of the HTTP status
	Cost        string   // field of the cost, such as bytes
	Declared    string   // field of the cost that was expected when the request arrived; it needs Duration
	CostScale   int64    // factor of both costs, applied before their fractions are cut; 0 is 1
	Blocked     []pattern.StatusRange
	NoBlocked   bool     // no status says that a line was blocked; else Blocked, or if that is empty, 429
	Drop        []Filter // lines that do not count
	Arrivals    []FieldFilter
	NoArrivals  bool     // no line is an arrival: somebody else reports them
	Columns     []string // csv and tsv: names of the columns; empty if the first line has them
	Unwrap      []string // what collectors put around each line, the outermost first: see Unwraps; auto finds it out
	NoResponses bool     // leave out status and cost: half the entries, and rules that read responses count nothing

	guessed bool // auto tries this format: nobody says that the log has it
}

// ParseCallerField parses kind=field, or kind=field+field for a composite caller such as ip_route=ip+resource.
func ParseCallerField(s string) (CallerTemplate, error) {
	kind, fields, found := strings.Cut(s, "=")
	if !found || fields == "" {
		return CallerTemplate{}, fmt.Errorf("%w: got callers %q, want kind=field", ErrMapping, s)
	}
	if err := schemas.ValidateKind(kind); err != nil {
		return CallerTemplate{}, fmt.Errorf("%w: callers %q: %w", ErrMapping, s, err)
	}
	if _, second, _ := strings.Cut(fields, ","); strings.Contains(second, "=") {
		return CallerTemplate{}, fmt.Errorf("%w: got callers %q, want one kind: give the flag again for another one", ErrMapping, s)
	}
	c := CallerTemplate{Kind: kind, Template: "{" + strings.ReplaceAll(fields, "+", "}"+schemas.CompositeSeparator+"{") + "}"}
	if _, err := parseTemplate(c.Template); err != nil {
		return CallerTemplate{}, fmt.Errorf("%w: callers %q: %w", ErrMapping, s, err)
	}
	return c, nil
}

// check reports what is wrong with m whatever the format.
func (m *Mapping) check() error {
	if len(m.Callers) > MaxCallers {
		return fmt.Errorf("%w: got %d caller kinds, want at most %d", ErrMapping, len(m.Callers), MaxCallers)
	}
	seen := map[string]bool{}
	for _, c := range m.Callers {
		if err := schemas.ValidateKind(c.Kind); err != nil {
			return fmt.Errorf("%w: %w", ErrMapping, err)
		}
		if seen[c.Kind] {
			return fmt.Errorf("%w: two templates for callers of kind %q", ErrMapping, c.Kind)
		}
		seen[c.Kind] = true
	}
	if err := m.IDs.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrMapping, err)
	}
	switch {
	case m.Layout >= timeLayouts:
		return fmt.Errorf("%w: unknown time layout %d", ErrMapping, m.Layout)
	case m.TimeAt >= timeAts:
		return fmt.Errorf("%w: unknown time at %d", ErrMapping, m.TimeAt)
	case (m.Duration != "") != (m.Unit > 0) || !powerOfTen(max(int64(m.Unit), 1)):
		return fmt.Errorf("%w: got duration %q in units of %v, want a field and its unit: s, ms, us or ns", ErrMapping, m.Duration, m.Unit)
	case m.Declared != "" && m.Duration == "":
		return fmt.Errorf("%w: got a declared cost without a duration: nothing holds it", ErrMapping)
	case m.NoArrivals && (m.NoResponses || len(m.Arrivals) > 0):
		return fmt.Errorf("%w: got no arrivals, and no responses or lines that are arrivals: want one", ErrMapping)
	case m.CostScale != 0 && !powerOfTen(m.CostScale):
		return fmt.Errorf("%w: got cost scale %d, want 1, 10, 100 and so on up to 1000000000", ErrMapping, m.CostScale)
	}
	return nil
}

// withDefaults returns m with what it leaves open taken from d.
func (m Mapping) withDefaults(d Mapping) Mapping {
	for _, f := range []struct{ to, from *string }{
		{&m.Time, &d.Time}, {&m.Resource, &d.Resource}, {&m.Method, &d.Method}, {&m.Status, &d.Status}, {&m.Cost, &d.Cost},
	} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
	if m.Layout == TimeAuto && m.Time == d.Time {
		m.Layout = d.Layout
	}
	if m.TimeAt == TimeAtUnknown && m.Time == d.Time {
		m.TimeAt = d.TimeAt
	}
	if m.Client.Address == "" {
		m.Client.Address = d.Client.Address
	}
	if m.Client.Forwarded == "" && (d.Client.Address == "" || len(m.Client.Trusted) > 0) {
		m.Client.Forwarded = d.Client.Forwarded
	}
	hasIP := false
	for _, c := range m.Callers {
		hasIP = hasIP || c.Kind == schemas.KindIP
	}
	known := m.Client.Address != "" || m.Client.Forwarded != ""
	if known && !hasIP && !m.OnlyCallers {
		ip := CallerTemplate{Kind: schemas.KindIP, Template: "{" + fieldClient + "}"}
		m.Callers = append([]CallerTemplate{ip}, m.Callers...)
	}
	return m
}

// powerOfTen reports whether n is 1, 10 and so on up to a billion: a fraction times such a number is exact.
func powerOfTen(n int64) bool {
	for p := int64(1); p <= 1_000_000_000; p *= 10 {
		if n == p {
			return true
		}
	}
	return false
}
