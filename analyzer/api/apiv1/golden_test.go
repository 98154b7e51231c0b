package apiv1

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// TestTheJSONOfEachTypeStays: clients of version 1 read these names. The first object of a file has each field filled, the second none:
// what is left out when it is zero, and what is null, is seen. A field may come; none may be renamed or go.
func TestTheJSONOfEachTypeStays(t *testing.T) {
	for name, zero := range types() {
		var got bytes.Buffer
		e := json.NewEncoder(&got)
		e.SetIndent("", "  ")
		for _, v := range []any{filled(reflect.TypeOf(zero)).Interface(), zero} {
			if err := e.Encode(v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		file := filepath.Join("testdata", name+".json")
		if testenv.Update() {
			if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v (%s writes it)", err, testenv.UpdateCommand(t))
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: got\n%s\nwant\n%s\n(%s writes it)", file, &got, want, testenv.UpdateCommand(t))
		}
	}
}

// TestNoGoldenFileIsLeftOver: the file of a type that is no more would say what nobody writes.
func TestNoGoldenFileIsLeftOver(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(files) != len(types()) {
		t.Errorf("got %d files and %v, want one for each of %d types", len(files), err, len(types()))
	}
	for _, f := range files {
		if _, ok := types()[strings.TrimSuffix(filepath.Base(f), ".json")]; !ok {
			t.Errorf("%s is of no type", f)
		}
	}
}

// TestFieldsAreNamedAlike: names are lower case with underscores, each field has one, and no name stands for two fields of a type, also
// not by embedding, where package json would leave out both.
func TestFieldsAreNamedAlike(t *testing.T) {
	for name, v := range types() {
		seen := make(map[string]string)
		for _, f := range fieldsOf(reflect.TypeOf(v)) {
			if f.name == "" || f.name != strings.ToLower(f.name) || strings.ContainsAny(f.name, " -.") {
				t.Errorf("%s.%s: got the name %q, want lower case with underscores", name, f.field, f.name)
			}
			if other := seen[f.name]; other != "" {
				t.Errorf("%s: %s and %s are both named %q", name, other, f.field, f.name)
			}
			seen[f.name] = f.field
		}
	}
}

// field is a field of a type, or of one that is embedded in it.
type field struct {
	field, name string
	optional    bool
	typ         reflect.Type
}

func fieldsOf(typ reflect.Type) (all []field) {
	if typ.Kind() != reflect.Struct {
		return nil
	}
	for f := range typ.Fields() {
		if f.Anonymous {
			all = append(all, fieldsOf(f.Type)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, field{f.Name, name, options == "omitempty" || options == "omitzero", f.Type})
	}
	return all
}

// TestWhatIsLeftOutCanBe: package json ignores omitempty for times and structs, and omitzero leaves out what clients need to tell
// apart from nothing, such as an empty list.
func TestWhatIsLeftOutCanBe(t *testing.T) {
	for name, v := range types() {
		typ := reflect.TypeOf(v)
		if typ.Kind() != reflect.Struct {
			continue
		}
		for f := range typ.Fields() {
			_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			structure := f.Type.Kind() == reflect.Struct && !f.Anonymous
			if structure && options == "omitempty" || !structure && options == "omitzero" {
				t.Errorf("%s.%s of type %s has %s", name, f.Name, f.Type, options)
			}
		}
	}
}
