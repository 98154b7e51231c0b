package gate_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// module is the path of floodgate's own module.
const module = "github.com/509da70d/floodgate/"

// heavy are the modules that a server does not link for a gate: neither the analyzer's store, nor a Kafka client that only
// tests use, nor gRPC and Envoy, which only gate/gategrpc and gate/sidecar need.
func heavy() []string {
	return []string{
		"github.com/dgraph-io/badger", "github.com/dgraph-io/ristretto", "github.com/twmb/franz-go",
		"google.golang.org/grpc", "github.com/envoyproxy/",
	}
}

// TestWhatAGateImports holds what it costs to embed a gate. gate and gate/gatehttp, the path of requests, take the standard
// library and floodgate's own packages beside them. The packages that connect a gate to Kafka and to Prometheus bring their
// client library, and nothing heavy.
func TestWhatAGateImports(t *testing.T) {
	for _, test := range []struct {
		pkg     string
		allowed []string // prefixes of import paths; nil allows all that is not heavy
	}{
		{"gate", []string{"gate", "gate/internal/", "schemas"}},
		{"gate/gatehttp", []string{"gate", "gate/gatehttp", "gate/internal/", "gate/record", "schemas"}},
		{"gate/kafkalink", nil},
		{"gate/gateprom", nil},
	} {
		t.Run(test.pkg, func(t *testing.T) {
			deps := dependencies(t, module+test.pkg)
			if !slices.Contains(deps, module+"schemas") {
				t.Fatalf("got %d packages that are not of the standard library, without schemas: %q", len(deps), deps)
			}
			for _, dep := range deps {
				if test.allowed != nil && !allows(test.allowed, dep) {
					t.Errorf("%s imports %s, want the standard library, schemas and %q only", test.pkg, dep, test.allowed)
				}
				if i := slices.IndexFunc(heavy(), func(prefix string) bool { return strings.HasPrefix(dep, prefix) }); i >= 0 {
					t.Errorf("%s imports %s, want nothing of %s", test.pkg, dep, heavy()[i])
				}
			}
		})
	}
}

// allows reports whether a package is one of the module's packages named. A name that ends in a slash stands for all
// packages below it.
func allows(names []string, dep string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return dep == module+name || strings.HasSuffix(name, "/") && strings.HasPrefix(dep, module+name)
	})
}

// dependencies returns all packages that a package links and that are not of the standard library, itself included. It reads
// the directories of floodgate's own, so that go test runs the test again after one of their files has changed.
func dependencies(t *testing.T, pkg string) (deps []string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Dir}}{{end}}", pkg)
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", list, err, stderr.String())
	}
	for line := range strings.Lines(string(out)) {
		path, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		deps = append(deps, path)
		if strings.HasPrefix(path, module) {
			if _, err := os.ReadDir(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	return deps
}
