package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// LoadMapping reads the mapping file at path: see ParseMapping.
func LoadMapping(path, format string) (*Format, error) {
	data, err := rules.ReadDocument(path)
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	return ParseMapping(path, data, format)
}

// ParseMapping returns the format that a mapping file describes; name is the file's, for messages. A format that is not
// "" goes before the file's. What is wrong is returned as rules.Errors, with line and column: all of it at once, as far as
// possible. The format of the file is described by schemas/mapping.schema.json.
func ParseMapping(name string, data []byte, format string) (*Format, error) {
	var made *Format
	err := rules.ParseDocument(name, data, mappingFields(), func(d *rules.Document) {
		f := &mappingFile{Document: d, format: format}
		m := f.read()
		if d.Failed() {
			return
		}
		var err error
		if made, err = NewFormat(f.format, m); err != nil {
			d.Fail("format", "%v", err)
		}
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func mappingFields() []string {
	return []string{"version", "format", "callers", "client", "time", "resource", "status", "cost", "blocked", "drop", "columns", "responses"}
}

// mappingFile is a mapping file while it is read.
type mappingFile struct {
	*rules.Document
	format string
	names  fieldNames // of the format; nil if any name will do
}

// read returns the mapping.
func (f *mappingFile) read() (m Mapping) {
	if f.Integer("version", 1, 1, 0); !f.Has("version") {
		f.Fail("version", "missing, want 1")
	}
	m.Columns = f.Texts("columns", "a name of a column", maxColumns)
	f.findFormat(m)
	f.callers(&m)
	f.client(&m)
	if d := f.Mapping("time", "field", "layout"); d != nil {
		m.Time = f.field(d, "field")
		if text := d.Text("layout", "one of "+strings.Join(layoutNames(), ", ")); text != "" {
			var err error
			if m.Layout, err = ParseTimeLayout(text); err != nil {
				d.Fail("layout", "got %q, want one of %s", text, strings.Join(layoutNames(), ", "))
			}
		}
	}
	f.resource(&m)
	m.Status = f.field(f.Document, "status")
	if d := f.Mapping("cost", "field", "scale"); d != nil {
		m.Cost = f.field(d, "field")
		if m.CostScale = d.Integer("scale", 1, 1_000_000_000, 1); !powerOfTen(m.CostScale) {
			d.Fail("scale", "got %d, want 1, 10, 100 and so on up to 1000000000", m.CostScale)
		}
	}
	f.blocked(&m)
	f.drop(&m)
	m.NoResponses = !f.Boolean("responses", true)
	return m
}

// findFormat reads which format the log has, and so which fields there are.
func (f *mappingFile) findFormat(m Mapping) {
	text := f.Text("format", "one of "+strings.Join(Formats(), ", "))
	if text != "" && !slices.Contains(Formats(), text) {
		f.Fail("format", "got %q, want one of %s", text, strings.Join(Formats(), ", "))
		return
	}
	if f.format == "" {
		f.format = text
	}
	if f.format == "" {
		f.format = FormatAuto
	}
	for _, s := range styles() {
		if s.name == f.format {
			if names, _, err := s.make(m); err == nil {
				f.names = names
			}
		}
	}
}

// field reads the name of a field of the log.
func (f *mappingFile) field(d *rules.Document, name string) string {
	text := d.Text(name, "the name of a field")
	if text != "" {
		f.known(d, name, text)
	}
	return text
}

// known reports a field that the format does not have.
func (f *mappingFile) known(d *rules.Document, at, field string) {
	if f.names == nil || field == FieldClient || field == FieldResource {
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
	f.Each("callers", MaxCallers, func(kind string, d *rules.Document) {
		text := d.Text(kind, `a template such as "{remote_addr}"`)
		if text == "" {
			return
		}
		if err := schemas.ValidateKind(kind); err != nil || kind == schemas.KindCanary {
			d.Fail(kind, "want a kind of a-z, 0-9, '_' and '-', such as ip")
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
		if kind == schemas.KindIP && !t.alone() {
			d.Fail(kind, "got %q, want one field: callers of kind ip are addresses", text)
		}
		m.Callers = append(m.Callers, CallerTemplate{Kind: kind, Template: text})
	})
}

func (f *mappingFile) client(m *Mapping) {
	d := f.Mapping("client", "address", "forwarded", "trusted", "ipv6_prefix")
	if d == nil {
		return
	}
	m.Client.Address, m.Client.Forwarded = f.field(d, "address"), f.field(d, "forwarded")
	m.Client.Trusted = d.Networks("trusted", MaxPrefixes)
	m.IPv6Bits = int(d.Integer("ipv6_prefix", 1, 128, 0))
}

func (f *mappingFile) resource(m *Mapping) {
	d := f.Mapping("resource", "field", "templates", "other")
	if d == nil {
		return
	}
	m.Resource = f.field(d, "field")
	m.Routes = d.Texts("templates", "a path such as /users/{id}", MaxRoutes)
	m.OtherRoute = d.Text("other", "a name for what fits no template")
	if _, err := newRoutes(m.Routes, m.OtherRoute); err != nil {
		d.Fail("templates", "%v", err)
	}
}

// blocked reads the statuses of blocked lines, or none.
func (f *mappingFile) blocked(m *Mapping) {
	if m.NoBlocked = f.Says("blocked", "none"); !m.NoBlocked {
		m.Blocked = f.Statuses("blocked")
	}
}

func (f *mappingFile) drop(m *Mapping) {
	for _, d := range f.Mappings("drop", MaxFilters, "client", "status", "resource", "fields") {
		n := Filter{Client: d.Networks("client", MaxPrefixes), Status: d.Statuses("status")}
		if globs := f.globs(d, "resource"); len(globs) > 0 {
			n.Fields = append(n.Fields, FieldFilter{Field: FieldResource, Patterns: globs})
		}
		d.Each("fields", MaxFilters, func(field string, v *rules.Document) {
			f.known(v, field, field)
			n.Fields = append(n.Fields, FieldFilter{Field: field, Patterns: f.globs(v, field)})
		})
		if !d.Has("client") && !d.Has("status") && !d.Has("resource") && !d.Has("fields") {
			f.Fail("drop", "a filter with no condition drops every line")
		}
		m.Drop = append(m.Drop, n)
	}
}

func (f *mappingFile) globs(d *rules.Document, field string) (globs []rules.Glob) {
	for _, text := range d.Texts(field, "a pattern such as /static/*", rules.MaxGlobs) {
		globs = append(globs, rules.NewGlob(text))
	}
	return globs
}
