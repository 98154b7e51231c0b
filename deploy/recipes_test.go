package deploy

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/schemas"
)

// TestRecipesLimitTokensOfKeys: each recipe has a rule on the costs of keys, in which requests in flight hold a part of the limit, and a
// mapping, if it has one, says who sent a request, and what it cost.
func TestRecipesLimitTokensOfKeys(t *testing.T) {
	files, err := filepath.Glob("recipes/*/rules.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("got %v and %v, want the rules of two recipes or more", files, err)
	}
	for _, file := range files {
		set, err := rules.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if r := set.Rules[0]; r.Kind != "key" || r.Measure != rules.Cost || r.Hold == nil || r.Mode != schemas.ModeEnforce {
			t.Errorf("%s: got %+v, want a limit on the costs of keys that holds", file, r)
		}
	}
	mappings, err := filepath.Glob("recipes/*/mapping.yaml")
	if err != nil || len(mappings) < 2 {
		t.Fatalf("got %v and %v, want the mappings of two recipes or more", mappings, err)
	}
	for _, file := range mappings {
		if format, err := ingest.LoadMapping(file, "", schemas.IDs{}); err != nil {
			t.Error(err)
		} else if kinds := format.Kinds(); !slices.Equal(kinds, []string{"key"}) {
			t.Errorf("%s: got callers of kind %v, want key", file, kinds)
		}
	}
}

// TestEnvoyLogsWhatAIGatewayLogs: envoy.yaml, which a test runs, logs what gateway.yaml makes Envoy Gateway log, and all of it is read.
func TestEnvoyLogsWhatAIGatewayLogs(t *testing.T) {
	logged := map[string]string{}
	attribute := regexp.MustCompile(`- \{key: (\w+), value: \{string_value: "(.*)"\}\}`)
	for _, a := range attribute.FindAllStringSubmatch(readFile(t, "recipes/envoy-ai-gateway/envoy.yaml"), -1) {
		logged[a[1]] = a[2]
	}

	for doc := range strings.SplitSeq(readFile(t, "recipes/envoy-ai-gateway/gateway.yaml"), "\n---\n") {
		var proxy struct {
			Kind string
			Spec struct {
				Telemetry struct {
					AccessLog struct {
						Settings []struct {
							Format struct{ JSON map[string]string }
						}
					} `yaml:"accessLog"`
				}
			}
		}
		if err := yaml.Unmarshal([]byte(doc), &proxy); err != nil {
			t.Fatal(err)
		}
		if proxy.Kind != "EnvoyProxy" {
			continue
		}
		if got := proxy.Spec.Telemetry.AccessLog.Settings[0].Format.JSON; !maps.Equal(got, logged) {
			t.Errorf("got %v in gateway.yaml and %v in envoy.yaml, want the same", got, logged)
		}
		mapping := readFile(t, "recipes/envoy-ai-gateway/mapping.yaml")
		for name := range logged {
			if !strings.Contains(mapping, name) {
				t.Errorf("got no %s in mapping.yaml, which Envoy logs", name)
			}
		}
		return
	}
	t.Error("got no EnvoyProxy in gateway.yaml")
}
