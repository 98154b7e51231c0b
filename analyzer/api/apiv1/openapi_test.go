package apiv1

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/509da70d/floodgate/schemas"
)

// schema is what schemas/openapi.yaml says of a type or a field.
type schema struct {
	Type       string            `yaml:"type"`
	Format     string            `yaml:"format"`
	Ref        string            `yaml:"$ref"`
	Enum       []string          `yaml:"enum"`
	Encoding   string            `yaml:"contentEncoding"`
	Required   []string          `yaml:"required"`
	Properties map[string]schema `yaml:"properties"`
	Items      *schema           `yaml:"items"`
	AllOf      []schema          `yaml:"allOf"`
	Minimum    *int64            `yaml:"minimum"`
	OneOf      []schema          `yaml:"oneOf"`
}

// described returns all schemas by name.
func described(t *testing.T) map[string]schema {
	t.Helper()
	var d struct {
		Components struct {
			Schemas map[string]schema `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(schemas.OpenAPI(), &d); err != nil {
		t.Fatal(err)
	}
	return d.Components.Schemas
}

const refs = "#/components/schemas/"

// flat adds to a schema what those that it includes have.
func flat(all map[string]schema, s schema) schema {
	out := schema{Type: s.Type, Enum: s.Enum, Required: slices.Clone(s.Required), Properties: make(map[string]schema)}
	maps.Copy(out.Properties, s.Properties)
	for _, part := range s.AllOf {
		part = flat(all, all[strings.TrimPrefix(part.Ref, refs)])
		out.Required = append(out.Required, part.Required...)
		maps.Copy(out.Properties, part.Properties)
	}
	return out
}

// TestEachFieldIsDescribed: each type is a schema of its name with its fields and no others, of the right types, and a field is required
// if and only if it is always written. Bodies that clients send may leave out more.
func TestEachFieldIsDescribed(t *testing.T) {
	all := described(t)
	for name, v := range types() {
		typ := reflect.TypeOf(v)
		s, ok := all[name]
		if !ok {
			t.Errorf("%s is not described", name)
			continue
		}
		if typ.Kind() != reflect.Struct {
			continue
		}
		s = flat(all, s)
		seen := make(map[string]bool)
		for _, f := range fieldsOf(typ) {
			seen[f.name] = true
			p, ok := s.Properties[f.name]
			if !ok {
				t.Errorf("%s.%s is not described", name, f.name)
				continue
			}
			checkType(t, name+"."+f.name, f.typ, p)
			required := slices.Contains(s.Required, f.name)
			if sent := name == "Caller" && f.name == "id"; required == f.optional && !sent {
				t.Errorf("%s.%s: required is %v, and left out when zero is %v", name, f.name, required, f.optional)
			}
		}
		for p := range s.Properties {
			if !seen[p] {
				t.Errorf("%s.%s is described, and no such field is written", name, p)
			}
		}
	}
	for name := range all {
		if _, ok := types()[name]; !ok && !strings.HasSuffix(name, "Fields") {
			t.Errorf("%s is described, and there is no such type", name)
		}
	}
}

// checkType compares the type of a field with what is described.
func checkType(t *testing.T, where string, typ reflect.Type, p schema) {
	t.Helper()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	var want schema
	switch {
	case typ == reflect.TypeFor[time.Time]():
		want = schema{Type: "string", Format: "date-time"}
	case typ == reflect.TypeFor[[]byte]():
		want = schema{Type: "string", Encoding: "base64"}
	case typ.Kind() == reflect.Slice:
		if p.Type != "array" || p.Items == nil {
			t.Errorf("%s: got %+v, want an array", where, p)
			return
		}
		checkType(t, where+"[]", typ.Elem(), *p.Items)
		return
	case typ == reflect.TypeFor[Caller](), typ.PkgPath() == reflect.TypeFor[At]().PkgPath():
		if p.Ref != refs+typ.Name() {
			t.Errorf("%s: got %+v, want $ref %s", where, p, refs+typ.Name())
		}
		return
	default:
		want = schema{Type: map[reflect.Kind]string{
			reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Uint64: "integer",
			reflect.Float64: "number",
		}[typ.Kind()]}
	}
	if p.Type != want.Type || want.Format != "" && p.Format != want.Format || p.Encoding != want.Encoding {
		t.Errorf("%s: got type %s, format %q, encoding %q, want %s, %q, %q", where, p.Type, p.Format, p.Encoding, want.Type, want.Format, want.Encoding)
	}
	if typ.Kind() == reflect.Uint64 && (p.Format != "" || p.Minimum == nil || *p.Minimum != 0) {
		t.Errorf("%s: a number of 64 bits without a sign: got format %q and minimum %v, want none and 0", where, p.Format, p.Minimum)
	}
	if strings.HasSuffix(where, "_ns") && typ.Kind() != reflect.Int64 {
		t.Errorf("%s: got %s, want whole nanoseconds", where, typ)
	}
}

// TestEachWordIsDescribed: the words of an enumeration are those of the constants, in their order.
func TestEachWordIsDescribed(t *testing.T) {
	all := described(t)
	for name, typ := range map[string]string{"Verdict": "Verdict", "Uncounted": "Uncounted", "LimitSource": "LimitSource"} {
		words := constants(t, typ)
		if len(words) < 4 || !slices.Equal(all[name].Enum, words) {
			t.Errorf("%s: got %v, want %v", name, all[name].Enum, words)
		}
	}
	for _, f := range []struct {
		typ, field, prefix string
		words              int
	}{{"Action", "state", "State", 5}, {"RuleDiff", "change", "Diff", 3}, {"RuleDiff", "counts", "Counts", 4}} {
		if got, want := all[f.typ].Properties[f.field].Enum, constants(t, f.prefix); len(want) != f.words || !slices.Equal(got, want) {
			t.Errorf("%s.%s: got %v, want %v", f.typ, f.field, got, want)
		}
	}
	var actions []string
	for a := schemas.ControlClose; a < schemas.ControlRules; a++ {
		actions = append(actions, a.String())
	}
	if got := all["Action"].Properties["action"].Enum; !slices.Equal(got, actions) {
		t.Errorf("Action.action: got %v, want %v", got, actions)
	}
}
