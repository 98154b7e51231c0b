package api

import (
	"bufio"
	"bytes"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/509da70d/floodgate/schemas"
)

// client follows no redirect, so that an answer is that of the server.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// description is schemas/openapi.yaml. Several goroutines may use it.
type description struct {
	root     map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler // guarded by mu
}

// described returns what schemas/openapi.yaml says, read once.
var described = sync.OnceValues(func() (*description, error) {
	text, err := yaml.YAMLToJSON(schemas.OpenAPI())
	if err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &description{compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020) // the dialect of OpenAPI 3.1
	d.root, _ = value.(map[string]any)
	return d, d.compiler.AddResource("openapi.json", value)
})

func readDescription(t *testing.T) *description {
	t.Helper()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// at returns what stands at a path of keys, and the JSON pointer of it; nil if there is nothing. It follows references.
func (d *description) at(path ...string) (value map[string]any, pointer string) {
	value, pointer = d.root, "#"
	for _, key := range path {
		value, _ = value[key].(map[string]any)
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		if ref, ok := value["$ref"].(string); ok {
			value, pointer = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return value, pointer
}

// validate says how a body differs from the schema at a pointer.
func (d *description) validate(pointer string, body []byte) error {
	d.mu.Lock()
	schema, err := d.compiler.Compile("openapi.json" + pointer)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// has reports whether the description has a path, and a method there, if one is given.
func (d *description) has(path, method string) bool {
	return slices.ContainsFunc(d.operations(), func(o string) bool {
		return strings.HasSuffix(o, " "+path) && strings.HasPrefix(o, method)
	})
}

// operations returns what is described, as METHOD PATH, in order.
func (d *description) operations() (list []string) {
	paths, _ := d.at("paths")
	for path := range paths {
		item, _ := d.at("paths", path)
		for method := range item {
			list = append(list, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(list)
	return list
}

// conform fails the test if an answer is not one that the description has for this operation and status.
func conform(t *testing.T, r *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	if strings.HasPrefix(r.URL.Path, pagePath+"/") {
		return // of the dashboard, which comes with its server, and is no part of what others may rely on
	}
	d := readDescription(t)
	if resp.StatusCode == http.StatusNotFound && (r.URL.RawPath != "" || !d.has(r.URL.Path, "")) {
		return // no operation has such an answer
	}
	if resp.StatusCode == http.StatusMethodNotAllowed && !d.has(r.URL.Path, r.Method) {
		return
	}
	answer, pointer := d.at("paths", r.URL.Path, strings.ToLower(r.Method), "responses", strconv.Itoa(resp.StatusCode))
	if answer == nil {
		t.Errorf("%s %s: %d %s\nis not described", r.Method, r.URL, resp.StatusCode, body)
		return
	}
	contents, _ := answer["content"].(map[string]any)
	if len(contents) == 0 && len(body) == 0 {
		return
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || contents[kind] == nil {
		t.Errorf("%s %s: %d: got content of type %q, described are %v", r.Method, r.URL, resp.StatusCode, resp.Header.Get("Content-Type"), contents)
		return
	}
	if resp.StatusCode >= http.StatusBadRequest && resp.Header.Get("X-Content-Type-Options") != "" && kind != "application/problem+json" {
		t.Errorf("%s %s: %d: got content of type %q, want a problem, as it is an answer of this server", r.Method, r.URL, resp.StatusCode, kind)
	}
	if !strings.HasSuffix(kind, "json") || kind == "application/x-ndjson" {
		return // text: the schema says no more
	}
	if err := d.validate(pointer+"/content/"+strings.ReplaceAll(kind, "/", "~1")+"/schema", body); err != nil {
		t.Errorf("%s %s: %d %s\nis not as described: %v", r.Method, r.URL, resp.StatusCode, body, err)
	}
}

// TestTheDescriptionIsAsked: an answer that is not as described is found.
func TestTheDescriptionIsAsked(t *testing.T) {
	d := readDescription(t)
	_, pointer := d.at("paths", "/v1/status", "get", "responses", "200")
	if err := d.validate(pointer+"/content/application~1json/schema", []byte(`{"analyzers":7}`)); err == nil {
		t.Error("got no error for a status without its fields")
	}
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
	if got := readDescription(t).operations(); !slices.Equal(got, routes) {
		t.Errorf("described are\n%s\nand served are\n%s", strings.Join(got, "\n"), strings.Join(routes, "\n"))
	}
}

// TestWhatNetHTTPRefusesIsDescribed for each operation: the server does not see such a request.
func TestWhatNetHTTPRefusesIsDescribed(t *testing.T) {
	w := newWorld(t)
	n := w.node(w.analyzer(0, 1, 2, 3), nil)
	n.get("/v1/openapi.yaml", "X-Long", strings.Repeat("a", 19<<10)).want(t, http.StatusOK, "")
	for header, status := range map[string]int{
		"X-Long: " + strings.Repeat("a", 20<<10): http.StatusRequestHeaderFieldsTooLarge,
		"X-Control: \x01":                        http.StatusBadRequest,
	} {
		for _, operation := range readDescription(t).operations() {
			method, path, _ := strings.Cut(operation, " ")
			r := httptest.NewRequest(method, path, nil)
			c, err := net.Dial("tcp", n.host())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", operation, header)
			resp, err := http.ReadResponse(bufio.NewReader(c), r)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != status {
				t.Errorf("%s: got %d, want %d", operation, resp.StatusCode, status)
			}
			conform(t, r, resp, nil)
			_ = c.Close()
		}
	}
}

// TestEachParameterIsDescribed: what a route reads of the query, and what is described, are the same.
func TestEachParameterIsDescribed(t *testing.T) {
	s, err := New(Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	d := readDescription(t)
	for _, operation := range d.operations() {
		method, path, _ := strings.Cut(operation, " ")
		route := s.routes[path][method]
		if route == nil {
			continue // the test above says so
		}
		op, _ := d.at("paths", path, strings.ToLower(method))
		if got, want := slices.Sorted(slices.Values(route.params)), d.query(op); !slices.Equal(got, want) {
			t.Errorf("%s: got parameters %v, described are %v", operation, got, want)
		}
		if says, _ := op["description"].(string); !strings.Contains(says, "Role: "+route.role.String()+".") {
			t.Errorf("%s: needs role %s, described is %q", operation, route.role, says)
		}
	}
}

// query returns the names of an operation's parameters in the query, in order.
func (d *description) query(op map[string]any) (names []string) {
	parameters, _ := op["parameters"].([]any)
	for _, p := range parameters {
		parameter, _ := p.(map[string]any)
		if ref, ok := parameter["$ref"].(string); ok {
			parameter, _ = d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if name, _ := parameter["name"].(string); parameter["in"] == "query" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
