package endpoint

import (
	"bytes"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/document"
	"github.com/509da70d/floodgate/analyzer/document/documenttest"
)

const (
	schemaFile = "../../../schemas/notify.schema.json"
	caseFolder = "../../../testdata/notify"
)

// semantic lists the files that the schema accepts and the loader does not, and why a schema can't tell.
func semantic() map[string]string {
	const (
		length  = "a pattern knows the form of a duration, not its length"
		address = "a schema knows no addresses"
		file    = "a schema reads no other file"
		text    = "a schema knows no templates"
		values  = "a schema sees values, not how YAML wrote them"
	)
	return map[string]string{
		"rejects_allow_host":              address,
		"rejects_allow_host_bits":         address,
		"rejects_anchor":                  values,
		"rejects_digest_every_long":       length,
		"rejects_duplicate_field":         values,
		"rejects_name_twice":              "a schema compares no fields of different objects",
		"rejects_secret_directory":        file,
		"rejects_secret_missing":          file,
		"rejects_secret_plain":            file,
		"rejects_secret_short":            file,
		"rejects_template_field":          text,
		"rejects_template_function":       text,
		"rejects_template_long":           text,
		"rejects_template_not_json":       text,
		"rejects_template_open":           text,
		"rejects_timeout_short":           length,
		"rejects_two_documents":           "an editor checks each document by itself",
		"rejects_url_file_large":          file,
		"rejects_url_file_loopback":       file,
		"rejects_url_file_missing":        file,
		"rejects_url_loopback":            address,
		"rejects_url_mapped":              address,
		"rejects_url_metadata":            address,
		"rejects_url_private_not_allowed": address,
	}
}

// reader is how endpoints are read.
func reader() *documenttest.Reader {
	return &documenttest.Reader{
		Folder: caseFolder, Least: 60, Schema: schemaFile, Semantic: semantic(),
		Parse: func(data []byte) ([]*document.Error, error) {
			c, err := Parse("file", data, caseFolder)
			if err != nil {
				return nil, err
			}
			return c.Warnings, nil
		},
	}
}

func TestEachFileGetsTheVerdictOfItsName(t *testing.T) { reader().Verdicts(t) }

func TestSchemaAndLoaderAgree(t *testing.T) { reader().SchemaAgrees(t) }

func TestErrorsShowNoSecret(t *testing.T) {
	failed := 0
	for name, data := range reader().Files(t) {
		_, err := Parse("file", data, caseFolder)
		if err == nil {
			continue
		}
		failed++
		for _, secret := range []string{"hunter2", "services", "c3Nz", "xxxxx"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: got %v, want nothing of a file of a secret or a URL in it", name, err)
			}
		}
	}
	if failed < 40 {
		t.Errorf("got %d files with errors, want more", failed)
	}
}

func FuzzParse(f *testing.F) {
	for _, data := range reader().Files(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("range")) {
			return // a template that counts to a billion takes its time
		}
		c, err := Parse("notify.yaml", data, caseFolder)
		if (err == nil) != (c != nil) {
			t.Fatalf("got %v and %v", c, err)
		}
	})
}
