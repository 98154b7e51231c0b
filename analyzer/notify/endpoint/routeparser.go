package endpoint

import (
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/pattern"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/event"
)

func (f endpointParser) routes() (routes []Route) {
	for _, m := range f.Mappings("routes", maxRoutes, "types", "rules", "kinds", "modes") {
		var r Route
		var types []string
		for _, t := range event.Types() {
			types = append(types, string(t))
		}
		for _, t := range f.names(m, "types", types) {
			r.Types = append(r.Types, event.Type(t))
		}
		for _, text := range m.Texts("rules", "the name of a rule, or a pattern such as api-*", maxNames) {
			r.Rules = append(r.Rules, pattern.NewGlob(text))
		}
		for _, v := range m.List("kinds", maxNames) {
			kind, ok := v.Text()
			if !ok || schemas.ValidateKind(kind) != nil {
				f.doc.Errorf(v.Position(), "kinds: got %s, want a kind of a-z, 0-9, '_' and '-', such as ip", v)
				continue
			}
			r.Kinds = append(r.Kinds, kind)
		}
		r.Modes = f.names(m, "modes", modes())
		routes = append(routes, r)
	}
	return routes
}

// names reads a list of names, each of which must be known.
func (f endpointParser) names(m document.Mapping, field string, known []string) (names []string) {
	for _, v := range m.List(field, maxNames) {
		name, ok := v.Text()
		if !ok || !slices.Contains(known, name) {
			f.doc.Errorf(v.Position(), "%s: got %s, want one of %s", field, v, strings.Join(known, ", "))
			continue
		}
		names = append(names, name)
	}
	return names
}
