package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/509da70d/floodgate/schemas"
)

// client follows no redirect, so that an answer is that of the server.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// description returns what schemas/openapi.yaml says, read once.
var description = sync.OnceValues(func() (libopenapi.Document, error) { return libopenapi.NewDocument(schemas.OpenAPI()) })

var validating = sync.OnceValues(func() (validator.Validator, error) {
	d, err := description()
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(d)
	if len(errs) > 0 {
		return nil, fmt.Errorf("schemas/openapi.yaml: %w", errs[0])
	}
	return v, nil
})

// conform fails the test if an answer is not one that the description has for this operation and status.
func conform(t *testing.T, r *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	if strings.HasPrefix(r.URL.Path, pagePath+"/") {
		return // of the dashboard, which comes with its server, and is no part of what others may rely on
	}
	if resp.StatusCode == http.StatusNotFound && (r.URL.RawPath != "" || !described(t, r.URL.Path, "")) {
		return // no operation has such an answer
	}
	if resp.StatusCode == http.StatusMethodNotAllowed && !described(t, r.URL.Path, r.Method) {
		return
	}
	v, err := validating()
	if err != nil {
		t.Fatal(err)
	}
	copied := *resp
	copied.Body = io.NopCloser(bytes.NewReader(body))
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-ndjson") || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/") ||
		resp.Header.Get("Content-Type") == "application/yaml" {
		return // text: the schema says no more
	}
	if ok, errs := v.ValidateHttpResponse(r, &copied); !ok {
		for _, e := range errs {
			t.Errorf("%s %s: %d %s\nis not as described: %s", r.Method, r.URL, resp.StatusCode, body, e)
		}
	}
}

// described reports whether the description has a path, and a method there.
func described(t *testing.T, path, method string) bool {
	t.Helper()
	return slices.ContainsFunc(operations(t), func(o string) bool {
		return strings.HasSuffix(o, " "+path) && strings.HasPrefix(o, method)
	})
}

// operations returns what the description has, as METHOD PATH.
func operations(t *testing.T) (list []string) {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	model, err := d.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method := range item.GetOperations().FromOldest() {
			list = append(list, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(list)
	return list
}

// TestEachRouteIsDescribed, and each description has a route.
func TestEachRouteIsDescribed(t *testing.T) {
	s, err := New(Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, r := range s.routeTable() {
		routes = append(routes, r.method+" "+r.path)
	}
	slices.Sort(routes)
	if got := operations(t); !slices.Equal(got, routes) {
		t.Errorf("described are\n%s\nand served are\n%s", strings.Join(got, "\n"), strings.Join(routes, "\n"))
	}
}

// TestTheDescriptionIsOpenAPI, by the schema of OpenAPI 3.1 itself.
func TestTheDescriptionIsOpenAPI(t *testing.T) {
	v, err := validating()
	if err != nil {
		t.Fatal(err)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		for _, e := range errs {
			t.Errorf("%s", e)
		}
	}
}

// TestEachParameterIsDescribed: what a route reads of the query, and what is described, are the same.
func TestEachParameterIsDescribed(t *testing.T) {
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	model, err := d.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			var want []string
			for _, p := range op.Parameters {
				if p.In == "query" {
					want = append(want, p.Name)
				}
			}
			route := s.routes[path][strings.ToUpper(method)]
			if route == nil {
				continue // the test above says so
			}
			got := slices.Sorted(slices.Values(route.params))
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s %s: got parameters %v, described are %v", method, path, got, want)
			}
			if !strings.Contains(op.Description, "Role: "+route.role.String()+".") {
				t.Errorf("%s %s: needs role %s, described is %q", method, path, route.role, op.Description)
			}
		}
	}
}
