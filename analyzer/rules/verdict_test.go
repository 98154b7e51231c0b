package rules

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/document/documenttest"
)

const (
	schemaFile  = "../../schemas/rules.schema.json"
	rulesFolder = "../../testdata/rules"
)

// semantic lists the files that the schema accepts and the loader does not, and why a schema can't tell.
func semantic() map[string]string {
	const (
		length  = "a pattern knows the form of a duration, not its length"
		address = "a schema knows no addresses"
		names   = "a schema compares no fields of different objects"
		numbers = "a schema does not calculate"
		values  = "a schema sees values, not how YAML wrote them"
		zones   = "a schema has no time zone database"
	)
	return map[string]string{
		"rejects_anchor_and_alias":                  values,
		"rejects_capacity_close_for":                length,
		"rejects_capacity_window":                   length,
		"rejects_charge_arrival_default_slots":      numbers,
		"rejects_charge_arrival_half_seconds":       length,
		"rejects_charge_arrival_slots":              numbers,
		"rejects_charge_arrival_under_10s":          length,
		"rejects_close_for_zero":                    length,
		"rejects_duplicate_field":                   values,
		"rejects_duplicate_name":                    names,
		"rejects_escalate_max_under_close_for":      length,
		"rejects_gcra_burst_over_a_year":            numbers,
		"rejects_gcra_override_under_a_microsecond": numbers,
		"rejects_gcra_under_a_microsecond":          numbers,
		"rejects_hold_longest_1s":                   length,
		"rejects_hold_longest_25h":                  length,
		"rejects_hold_resource_twice":               values,
		"rejects_limit_float":                       "100.0 is an integer to JSON Schema",
		"rejects_limit_octal":                       values,
		"rejects_merge_key":                         values,
		"rejects_override_address_as_network":       address,
		"rejects_override_bad_address":              address,
		"rejects_override_host_bits":                address,
		"rejects_override_mapped_network":           address,
		"rejects_override_network_of_keys":          address,
		"rejects_override_same_address_twice":       address,
		"rejects_override_same_id_twice":            values,
		"rejects_tag":                               values,
		"rejects_timezone_path":                     zones,
		"rejects_timezone_unknown":                  zones,
		"rejects_two_documents":                     "an editor checks each document by itself",
		"rejects_warn_falling":                      "a schema knows no order",
		"rejects_warn_percentages":                  "a schema knows no order",
		"rejects_window_over_a_year":                length,
		"rejects_window_overflow":                   length,
		"rejects_window_zero":                       length,
	}
}

// reader is how rules are read.
func reader() *documenttest.Reader {
	return &documenttest.Reader{
		Folder: rulesFolder, Least: 100, Schema: schemaFile, Semantic: semantic(),
		Parse: func(data []byte) ([]*document.Error, error) {
			set, err := Parse("file", data)
			if err != nil {
				return nil, err
			}
			return set.Warnings, nil
		},
	}
}

func TestEachFileGetsTheVerdictOfItsName(t *testing.T) { reader().Verdicts(t) }

func TestSchemaAndLoaderAgree(t *testing.T) { reader().SchemaAgrees(t) }

// Every example of the schema loads where it stands, so that an editor offers nothing wrong.
func TestExamplesOfTheSchemaLoad(t *testing.T) {
	var schema struct {
		Defs struct {
			Rule struct {
				Properties map[string]struct {
					Examples   []any
					Properties map[string]struct{ Examples []any }
				}
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(contents(t, schemaFile), &schema); err != nil {
		t.Fatal(err)
	}
	loads := func(field string, value any) {
		t.Helper()
		rule := map[string]any{"name": "r", "callers": "ip", "limit": 5, "window": "1m"}
		switch field {
		case "timezone":
			rule["window"] = "month"
		case "escalate":
			rule["close_for"] = "30s"
		case "capacity", "weights", "protect":
			delete(rule, "limit")
			rule["callers"], rule["capacity"] = "key", 5000
		case "hold":
			rule["measure"], rule["charge"] = "cost", "arrival"
			if hold := value.(map[string]any); hold["estimate"] == nil {
				hold["estimate"] = 1000
			}
		}
		rule[field] = value
		text, err := json.Marshal(map[string]any{"version": 1, "rules": []any{rule}}) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("example", text); err != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
	n := 0
	for field, property := range schema.Defs.Rule.Properties {
		for _, example := range property.Examples {
			loads(field, example)
			n++
		}
		for inner, property := range property.Properties {
			for _, example := range property.Examples {
				loads(field, map[string]any{inner: example})
				n++
			}
		}
	}
	if n < 15 {
		t.Errorf("got %d examples, want more", n)
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
