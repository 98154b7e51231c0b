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

// TestRecipesLimitTokensOfKeys: each recipe for language models has a rule on the costs of keys, in which requests in flight hold a part of the limit, and a
// mapping says who sent a request, and what it cost.
func TestRecipesLimitTokensOfKeys(t *testing.T) {
	for _, recipe := range []string{"envoy-ai-gateway", "litellm"} {
		file := filepath.Join("recipes", recipe, "rules.yaml")
		set, err := rules.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if r := set.Rules[0]; r.Kind != "key" || r.Measure != rules.Cost || r.Hold == nil || r.Mode != schemas.ModeEnforce {
			t.Errorf("%s: got %+v, want a limit on the costs of keys that holds", file, r)
		}
		file = filepath.Join("recipes", recipe, "mapping.yaml")
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
