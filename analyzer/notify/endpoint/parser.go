package endpoint

import (
	"hash"
	"strings"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
)

// parser reads a file of settings.
type parser struct {
	doc   *document.Document
	dir   string
	files []string  // that were named
	sum   hash.Hash // of everything that was read
}

// endpoints reads the whole file. What it returns is only good where no error was reported.
func (p *parser) endpoints() []*Endpoint {
	top, list, ok := p.doc.List("endpoints")
	if !ok {
		return nil
	}
	if len(list) == 0 || len(list) > maxEndpoints {
		top.Fail("endpoints", "got %d, want 1 to %d", len(list), maxEndpoints)
		return nil
	}
	lines := make(map[string]int) // of the endpoint of each name
	var endpoints []*Endpoint
	for _, v := range list {
		e := p.endpoint(v)
		if first := lines[e.Name]; first > 0 {
			p.doc.Errorf(v.Position(), "name: %s is taken by the endpoint in line %d", e.Name, first)
		}
		if e.Name != "" {
			lines[e.Name] = v.Position().Line
		}
		endpoints = append(endpoints, e)
	}
	return endpoints
}

// endpointParser reads one endpoint.
type endpointParser struct {
	document.Mapping

	*parser
}

func (p *parser) endpoint(v document.Value) *Endpoint {
	m, ok := p.doc.Mapping("endpoint", v, "name", "url", "url_file", "secret_files", "allow_addresses", "timeout", "template",
		"content_type", "digest", "routes")
	if !ok {
		return &Endpoint{}
	}
	f := endpointParser{m, p}
	e := &Endpoint{Name: f.name(), Digest: f.digest(), Routes: f.routes()}
	e.Webhook = webhook.Config{
		Allowed: f.Networks("allow_addresses", maxNetworks),
		Timeout: f.Duration("timeout", minTimeout, maxTimeout, webhook.DefaultTimeout),
	}
	e.Webhook.ContentType = f.contentType()
	e.Webhook.URL = f.url(e.Webhook.Allowed)
	e.Webhook.Secrets = f.secrets()
	f.template(e)
	return e
}

func (f endpointParser) name() string {
	const want = "a name of a-z, 0-9, '_' and '-', beginning with a letter or digit"
	name, ok := f.Required("name", want)
	if !ok {
		return ""
	}
	if len(name) > maxName {
		f.Fail("name", "got %d bytes, want 1 to %d", len(name), maxName)
		return ""
	}
	// It is part of the name of a consumer group.
	for i := range len(name) {
		if b := name[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && (i == 0 || b != '_' && b != '-') {
			f.Wrong("name", want)
			return ""
		}
	}
	if name == "" {
		f.Wrong("name", want)
	}
	return name
}

func (f endpointParser) contentType() string {
	text, ok := f.Text("content_type", "a content type such as application/json")
	if ok && (len(text) > 100 || !strings.Contains(text, "/") || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })) {
		f.Wrong("content_type", "a content type such as application/json")
	}
	if ok && f.Lacks("template") {
		f.Fail("content_type", "needs template")
	}
	return text
}

func (f endpointParser) digest() Digest {
	if f.Says("digest", "off") {
		return Digest{}
	}
	d := Digest{DefaultOver, DefaultEvery}
	if !f.Has("digest") {
		return d
	}
	if _, ok := f.Value("digest").Pairs(); !ok {
		f.Wrong("digest", "off, or a mapping with over and every")
		return d
	}
	if m, ok := f.Nested("digest", "over", "every"); ok {
		d.Over = int(m.Integer("over", 1, maxOver, DefaultOver))
		d.Every = m.Duration("every", minEvery, maxEvery, DefaultEvery)
	}
	return d
}
