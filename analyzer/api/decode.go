package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// decodeBody reads one JSON object into v. Fields that v does not have are refused, and so is anything behind the object.
func decodeBody(body []byte, v any) error {
	if len(body) == 0 || body[0] != '{' {
		return wrong(http.StatusBadRequest, "body", string(body[:min(len(body), maxGot)]), "a JSON object")
	}
	if !utf8.Valid(body) {
		return wrong(http.StatusBadRequest, "body", "bytes that are not UTF-8", "UTF-8; the bytes of an id as id_base64")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return jsonProblem(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return wrong(http.StatusBadRequest, "body", "more behind the object", "one JSON object")
	}
	return checkUniqueFields(json.NewDecoder(bytes.NewReader(body)), "")
}

// checkUniqueFields refuses an object that has a field twice, because readers of JSON do not agree which one counts. It also refuses names
// with capital letters, because package json takes them for the fields in lower case. It recurses; the value was decoded into a struct
// before, so its depth is bounded.
func checkUniqueFields(d *json.Decoder, pointer string) error {
	t, err := d.Token()
	if err != nil {
		return jsonProblem(err)
	}
	if t != json.Delim('{') && t != json.Delim('[') {
		return nil
	}
	seen := make(map[string]bool)
	for i := 0; d.More(); i++ {
		name := integer(i)
		if t == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return jsonProblem(err)
			}
			name, _ = key.(string)
			if name != strings.ToLower(name) {
				return badBody(pointer+"/"+name, name, "no other field than those that are described")
			}
		}
		at := pointer + "/" + name
		if seen[name] {
			return badBody(at, "the field twice", "once")
		}
		seen[name] = true
		if err := checkUniqueFields(d, at); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end, which Decode has seen
	return err
}

// jsonProblem says where a body is wrong, as far as package json says it.
func jsonProblem(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badBody("/"+strings.ReplaceAll(e.Field, ".", "/"), e.Value, e.Type.String())
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name, err := strconv.Unquote(field); err == nil {
			field = name
		}
		return badBody("/"+field, field, "no other field than those that are described")
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return wrong(http.StatusBadRequest, "body", e.Error()+" at byte "+strconv.FormatInt(e.Offset, 10), "JSON")
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok || strings.HasPrefix(err.Error(), "Time.UnmarshalJSON:") {
		return badBody("body", err.Error(), "times such as 2026-01-02T15:04:05Z")
	}
	return wrong(http.StatusBadRequest, "body", err.Error(), "JSON")
}
