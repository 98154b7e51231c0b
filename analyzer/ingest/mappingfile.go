package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
)

// LoadMapping reads the mapping file at path: see ParseMapping.
func LoadMapping(path, format string, ids schemas.IDs) (*Format, error) {
	data, err := document.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	return ParseMapping(path, data, format, ids)
}

// ParseMapping returns the format that a mapping file describes; name is the file's, for messages. A format that is not
// "" goes before the file's. What is wrong is returned as document.Errors, with line and column: all of it at once, as far as
// possible. The file may set the IPv6 prefix where ids leaves it open, and must agree with ids where it does not. The format
// of the file is described by schemas/mapping.schema.json.
func ParseMapping(name string, data []byte, format string, ids schemas.IDs) (*Format, error) {
	doc := document.Parse(name, data, "version and format")
	top, ok := doc.Top("version", "format", "callers", "client", "time", "duration", "resource", "status", "cost", "blocked", "drop",
		"columns", "arrivals", "responses", "unwrap")
	if !ok {
		return nil, doc.Err()
	}
	f := &mappingFile{Mapping: top, format: format, ids: ids}
	m := f.read()
	if err := doc.Err(); err != nil {
		return nil, err
	}
	made, err := NewFormat(f.format, m)
	if err != nil {
		top.Fail("format", "%v", err)
		return nil, doc.Err()
	}
	return made, nil
}

// mappingFile is a mapping file while it is read.
type mappingFile struct {
	document.Mapping

	format string
	ids    schemas.IDs
	names  fieldNames // of the format; nil if any name will do
}

// read returns the mapping.
func (f *mappingFile) read() (m Mapping) {
	m.IDs = f.ids
	if f.Integer("version", 1, 1, 0); !f.Has("version") {
		f.Fail("version", "missing, want 1")
	}
	m.Columns = f.Texts("columns", "a name of a column", maxColumns)
	m.Unwrap = f.unwrap()
	f.findFormat(m)
	f.callers(&m)
	f.client(&m)
	f.time(&m)
	f.resource(&m)
	m.Status = f.field(f.Mapping, "status")
	if d, ok := f.Nested("cost", "field", "scale", "declared"); ok {
		if m.Cost, m.Declared = f.field(d, "field"), f.field(d, "declared"); m.Declared != "" && m.Duration == "" {
			d.Fail("declared", "got no duration, want one too: without it, nothing is expected of a request")
		}
		if m.CostScale = d.Integer("scale", 1, 1_000_000_000, 1); !powerOfTen(m.CostScale) {
			d.Fail("scale", "got %d, want 1, 10, 100 and so on up to 1000000000", m.CostScale)
		}
	}
	f.blocked(&m)
	f.drop(&m)
	m.NoResponses = !f.Boolean("responses", true)
	f.arrivals(&m)
	return m
}

// time reads the time, and how long a request took.
func (f *mappingFile) time(m *Mapping) {
	if d, ok := f.Nested("time", "field", "layout", "at"); ok {
		m.Time = f.field(d, "field")
		if text, ok := d.Filled("layout", "one of "+strings.Join(layoutNames(), ", ")); ok {
			var err error
			if m.Layout, err = ParseTimeLayout(text); err != nil {
				d.Fail("layout", "got %q, want one of %s", text, strings.Join(layoutNames(), ", "))
			}
		}
		if d.Has("at") {
			m.TimeAt = TimeAtStart
			if d.Choice("at", TimeAtStart.String(), TimeAtEnd.String()) == TimeAtEnd.String() {
				m.TimeAt = TimeAtEnd
			}
		}
	}
	if d, ok := f.Nested("duration", "field", "unit"); ok {
		if d.Lacks("field") {
			d.Fail("field", "missing, want the name of a field")
		}
		m.Duration = f.field(d, "field")
		const want = "one of s, ms, us, ns"
		text, ok := d.Required("unit", want)
		if m.Unit = durationUnit(text); ok && m.Unit == 0 {
			d.Wrong("unit", want)
		}
	}
}

// arrivals reads which lines are arrivals.
func (f *mappingFile) arrivals(m *Mapping) {
	if m.NoArrivals = f.Says("arrivals", "none"); m.NoArrivals {
		if m.NoResponses {
			f.Fail("arrivals", "got none, and no responses, want one of them: nothing would count")
		}
		return
	}
	if _, ok := f.Value("arrivals").Pairs(); !ok && f.Has("arrivals") {
		f.Wrong("arrivals", "none, or fields of the lines that are arrivals, with their values")
		return
	}
	f.Each("arrivals", maxFilters, func(field string, v document.Mapping) {
		f.known(v, field, field)
		m.Arrivals = append(m.Arrivals, FieldFilter{Field: field, Patterns: f.globs(v, field)})
	})
}

// unwrap reads what is around each line.
func (f *mappingFile) unwrap() []string {
	want := "one of " + strings.Join(unwrapNames(), ", ")
	names := f.Texts("unwrap", want, maxUnwrap)
	for _, n := range names {
		if _, err := newUnwrapper(n); err != nil {
			f.Fail("unwrap", "got %q, want %s", n, want)
		}
	}
	return names
}

// wantFormat is what a message wants in place of an unknown name. A list of all names would hide the rest of the message.
const wantFormat = `auto, a name that "floodgate formats" prints, or nginx: or apache: with a text behind it`

// findFormat reads which format the log has, and so which fields there are.
func (f *mappingFile) findFormat(m Mapping) {
	text, ok := f.Filled("format", wantFormat)
	if ok && !KnownFormat(text) {
		f.Fail("format", "got %q, want %s", text, wantFormat)
		return
	}
	if f.format == "" {
		f.format = text
	}
	if f.format == "" {
		f.format = FormatAuto
	}
	if s, ok := styleOf(f.format); ok {
		if names, _, err := s.make(m); err == nil {
			f.names = names
		}
	}
}

// field reads the name of a field of the log.
func (f *mappingFile) field(d document.Mapping, name string) string {
	text, ok := d.Filled(name, "the name of a field")
	if ok {
		f.known(d, name, text)
	}
	return text
}

// known reports a field that the format does not have.
func (f *mappingFile) known(d document.Mapping, at, field string) {
	if f.names == nil || slices.Contains([]string{fieldClient, fieldNet, fieldASN, fieldResource}, field) {
		return
	}
	for alternative := range strings.SplitSeq(field, "|") {
		if _, err := f.names.slot(alternative); err != nil {
			d.Fail(at, "%v", err)
			return
		}
	}
}

func (f *mappingFile) callers(m *Mapping) {
	m.OnlyCallers = f.Has("callers")
	f.Each("callers", MaxCallers, func(kind string, d document.Mapping) {
		text, ok := d.Filled(kind, `a template such as "{remote_addr}"`)
		if !ok {
			return
		}
		if err := schemas.ValidateKind(kind); err != nil {
			d.Fail(kind, "want a kind of a-z, 0-9, '_' and '-', such as ip, and none of floodgate's own")
			return
		}
		t, err := parseTemplate(text)
		if err != nil {
			d.Fail(kind, "got %q: %v", text, err)
			return
		}
		for _, p := range t.parts {
			f.known(d, kind, p.field)
		}
		if schemas.OfAddress(kind) && !t.alone() {
			d.Fail(kind, "got %q, want one field: callers of kind %s are %s", text, kind, madeOfAddress(kind))
		}
		m.Callers = append(m.Callers, CallerTemplate{Kind: kind, Template: text})
	})
}

func (f *mappingFile) client(m *Mapping) {
	d, ok := f.Nested("client", "address", "forwarded", "trusted", "ipv6_prefix")
	if !ok {
		return
	}
	m.Client.Address, m.Client.Forwarded = f.field(d, "address"), f.field(d, "forwarded")
	m.Client.Trusted = d.Networks("trusted", maxPrefixes)
	prefix := int(d.Integer("ipv6_prefix", 1, 128, int64(f.ids.IPv6Prefix)))
	if f.ids.IPv6Prefix != 0 && prefix != f.ids.IPv6Prefix {
		d.Fail("ipv6_prefix", "got %d, want %d, which --ipv6-prefix says", prefix, f.ids.IPv6Prefix)
	}
	m.IDs.IPv6Prefix = prefix
}

func (f *mappingFile) resource(m *Mapping) {
	d, ok := f.Nested("resource", "field", "method", "templates", "other")
	if !ok {
		return
	}
	m.Resource, m.Method = f.field(d, "field"), f.field(d, "method")
	m.Routes = d.Texts("templates", "a path such as /users/{id}", maxRoutes)
	m.OtherRoute, _ = d.Filled("other", "a name for paths that fit no template")
	if _, err := newRoutes(m.Routes, m.OtherRoute); err != nil {
		d.Fail("templates", "%v", err)
	}
}

// blocked reads the statuses of blocked lines, or none.
func (f *mappingFile) blocked(m *Mapping) {
	if m.NoBlocked = f.Says("blocked", "none"); !m.NoBlocked {
		m.Blocked = f.Statuses("blocked", maxPatterns)
	}
}

func (f *mappingFile) drop(m *Mapping) {
	for _, d := range f.Mappings("drop", maxFilters, "client", "status", "resource", "fields") {
		n := Filter{Client: d.Networks("client", maxPrefixes), Status: d.Statuses("status", maxPatterns)}
		if globs := f.globs(d, "resource"); len(globs) > 0 {
			n.Fields = append(n.Fields, FieldFilter{Field: fieldResource, Patterns: globs})
		}
		d.Each("fields", maxFilters, func(field string, v document.Mapping) {
			f.known(v, field, field)
			n.Fields = append(n.Fields, FieldFilter{Field: field, Patterns: f.globs(v, field)})
		})
		if !d.Has("client") && !d.Has("status") && !d.Has("resource") && !d.Has("fields") {
			f.Fail("drop", "a filter with no condition drops every line")
		}
		m.Drop = append(m.Drop, n)
	}
}

func (f *mappingFile) globs(d document.Mapping, field string) (globs []pattern.Glob) {
	for _, text := range d.Texts(field, "a pattern such as /static/*", maxPatterns) {
		if method, path, found := strings.Cut(text, " "); found && field == fieldResource && schemas.Method(method) != "" {
			d.Fail(field, "got %q, want the path alone, %s: a filter compares no method here, but under fields", text, path)
		}
		globs = append(globs, pattern.NewGlob(text))
	}
	return globs
}
