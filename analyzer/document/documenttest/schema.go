package documenttest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schema is a JSON Schema, as an editor applies it to a YAML file.
type schema struct{ *jsonschema.Schema }

func compile(t testing.TB, file string) schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	return schema{s}
}

// validate says what an editor would say to a file.
func (s schema) validate(data []byte) error {
	// An editor takes a key twice, and reports it itself.
	var value any
	if err := yaml.UnmarshalWithOptions(data, &value, yaml.AllowDuplicateMapKey()); err != nil {
		return err
	}
	text, err := yaml.MarshalWithOptions(value, yaml.JSON())
	if err != nil {
		return err
	}
	return s.validateJSON(text)
}

func (s schema) validateJSON(text []byte) error {
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return s.Validate(instance)
}
