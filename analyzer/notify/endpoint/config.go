package endpoint

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/template"
	"time"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

// Bounds of a file.
const (
	maxEndpoints = 32
	maxRoutes    = 32 // of an endpoint
	maxNames     = 64 // in a list of a route
	maxNetworks  = 64
	maxSecrets   = 2
	maxURL       = 2048 // bytes
	maxTemplate  = 16 << 10
	maxFile      = 4 << 10 // bytes of a file with a secret or a URL
	maxName      = 64
)

// Defaults, and bounds of times.
const (
	DefaultOver  = 10
	DefaultEvery = 10 * time.Second
	minTimeout   = 100 * time.Millisecond
	maxTimeout   = time.Minute
	minEvery     = 100 * time.Millisecond
	maxEvery     = time.Hour
	maxOver      = 10_000
)

// Config is a file of settings. It does not change.
type Config struct {
	Endpoints []*Endpoint
	Warnings  []*document.Error
	Files     []string // paths of the files of secrets and URLs that it names

	sum [sha256.Size]byte // of the file, and of the files that it names
}

// Same reports whether two Configs were read from the same contents. One that is nil is the same as no other.
func (c *Config) Same(other *Config) bool { return c != nil && other != nil && c.sum == other.sum }

// Named returns the endpoint of a name, or nil.
func (c *Config) Named(name string) *Endpoint {
	i := slices.IndexFunc(c.Endpoints, func(e *Endpoint) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return c.Endpoints[i]
}

// Endpoint is where messages go.
type Endpoint struct {
	Name    string
	Webhook webhook.Config
	Routes  []Route // an event needs to fit one; empty: every event fits
	Digest  Digest

	template *template.Template // nil: the bodies of Standard Webhooks
}

// Wants reports whether the endpoint gets an event. Events of types that this version does not know go nowhere.
func (e *Endpoint) Wants(v *event.Event) bool {
	if !v.Known() {
		return false
	}
	return len(e.Routes) == 0 || slices.ContainsFunc(e.Routes, func(r Route) bool { return r.fits(v) })
}

// Digest says when events are sent together. The zero value is never.
type Digest struct {
	Over  int           // more events than this …
	Every time.Duration // … within this time are a storm: they wait until it has passed, and go as one digest
}

// Route says which events fit. Each list that is not empty must have the event's value.
type Route struct {
	Types []event.Type
	Rules []pattern.Glob
	Kinds []string // of callers
	Modes []string // enforce, shadow
}

func (r *Route) fits(v *event.Event) bool {
	rule := func(g pattern.Glob) bool { return v.Rule != "" && g.Match(v.Rule) }
	return (len(r.Types) == 0 || slices.Contains(r.Types, v.Type)) &&
		(len(r.Rules) == 0 || slices.ContainsFunc(r.Rules, rule)) &&
		(len(r.Kinds) == 0 || slices.Contains(r.Kinds, v.Caller.Kind)) &&
		(len(r.Modes) == 0 || slices.Contains(r.Modes, v.Mode))
}

// Load reads the file at path, and the files that it names: see Parse. Names of files that are not absolute are relative to the
// directory of the file.
func Load(path string) (*Config, error) {
	// Opening a named pipe would wait until there is a writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read settings: %s: got %v, want a regular file", path, info.Mode().Type())
	}
	data, err := document.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return Parse(path, data, filepath.Dir(path))
}

// Parse returns the settings in data. The name is the file's, for messages; dir is where the files are that it names. What is wrong
// is returned as document.Errors: as much of it at once as possible, in the order of the file. No message repeats what is in a file
// of a secret or a URL.
func Parse(name string, data []byte, dir string) (*Config, error) {
	p := &parser{doc: document.Parse(name, data, "version and endpoints"), dir: dir, sum: sha256.New()}
	p.sum.Write(data)
	endpoints := p.endpoints()
	if err := p.doc.Err(); err != nil {
		return nil, err
	}
	return &Config{Endpoints: endpoints, Warnings: p.doc.Warnings(), Files: p.files, sum: [sha256.Size]byte(p.sum.Sum(nil))}, nil
}

// modes are those of rules, by name.
func modes() []string { return []string{schemas.ModeEnforce.String(), schemas.ModeShadow.String()} }
