package gatehttp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A server in a module of its own that embeds a gate gets the standard library and floodgate with
// it, and nothing more: no Kafka client, no protobuf, no metrics library.
func TestOutsideModuleGetsTheStandardLibraryOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.com/outside\n\ngo 1.26.0\n\nrequire github.com/509da70d/floodgate v0.0.0\n\n" +
			"replace github.com/509da70d/floodgate => " + root + "\n",
		"main.go": `package main

import (
	"net/http"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gatehttp"
	"github.com/509da70d/floodgate/gate/record"
)

func main() {
	o := gatehttp.Options{
		Set: gate.New(gate.Options{}), Recorder: record.New(record.Options{}),
		Callers: []gatehttp.CallerFunc{gatehttp.ClientIP(nil)},
	}
	_ = http.ListenAndServe("127.0.0.1:0", gatehttp.New(o)(http.NotFoundHandler()))
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("build", "-o", filepath.Join(dir, "outside"), ".")
	floodgate := 0
	for pkg := range strings.FieldsSeq(run("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")) {
		switch {
		case pkg == "example.com/outside":
		case strings.HasPrefix(pkg, "github.com/509da70d/floodgate/gate"), pkg == "github.com/509da70d/floodgate/schemas":
			floodgate++
		default:
			t.Errorf("got package %s, want only the standard library, floodgate's gate and schemas", pkg)
		}
	}
	if floodgate < 4 {
		t.Errorf("got %d packages of floodgate, want gate, gatehttp, record and schemas at least", floodgate)
	}
}
