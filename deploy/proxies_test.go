package deploy

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // named in the file
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // named in the file
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/509da70d/floodgate/gate/sidecar"
)

// TestEnvoyTakesTheFile reads the configuration as Envoy does: into its own messages, in which every name and every type
// must be known, and checked by its own rules.
func TestEnvoyTakesTheFile(t *testing.T) {
	text, err := os.ReadFile("envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var b bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(asJSON, &b); err != nil {
		t.Fatal(err)
	}
	if err := b.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	var manager managerv3.HttpConnectionManager
	if err := b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&manager); err != nil {
		t.Fatal(err)
	}
	if err := manager.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	var authz authzv3.ExtAuthz
	if err := manager.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(&authz); err != nil {
		t.Fatal(err)
	}
	if err := authz.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	if !authz.GetFailureModeAllow() || !manager.GetUseRemoteAddress().GetValue() {
		t.Errorf("got %v and %v, want a sidecar that is away to let pass, and clients' claims not believed", authz.GetFailureModeAllow(), manager.GetUseRemoteAddress())
	}
	name := authz.GetGrpcService().GetEnvoyGrpc().GetClusterName()
	for _, c := range b.GetStaticResources().GetClusters() {
		if c.GetName() == name {
			return
		}
	}
	t.Errorf("got no cluster %q, which the filter asks", name)
}

// traefikFile is what the test looks at of Traefik's files. Tests in cmd/floodgate give them to Traefik itself.
type traefikFile struct {
	EntryPoints map[string]struct {
		Address string `yaml:"address"`
	} `yaml:"entryPoints"`
	HTTP struct {
		Middlewares map[string]struct {
			ForwardAuth struct {
				Address            string `yaml:"address"`
				TrustForwardHeader *bool  `yaml:"trustForwardHeader"`
			} `yaml:"forwardAuth"`
			Errors struct {
				Status []string `yaml:"status"`
			} `yaml:"errors"`
		} `yaml:"middlewares"`
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct {
					URL string `yaml:"url"`
				} `yaml:"servers"`
			} `yaml:"loadBalancer"`
		} `yaml:"services"`
	} `yaml:"http"`
}

// TestTraefikAsksWhereTheSidecarAnswers follows the question through both files: to the entry point, and on to the sidecar.
func TestTraefikAsksWhereTheSidecarAnswers(t *testing.T) {
	var fixed, routes traefikFile
	for name, into := range map[string]*traefikFile{"traefik/traefik.yaml": &fixed, "traefik/floodgate.yaml": &routes} {
		if err := yaml.Unmarshal([]byte(readFile(t, name)), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	auth := routes.HTTP.Middlewares["floodgate"].ForwardAuth
	u, err := url.Parse(auth.Address)
	if point := fixed.EntryPoints["floodgate"].Address; err != nil || u.Path != sidecar.PathAuth || u.Host != point || point == "" {
		t.Errorf("got %q, want the sidecar's %s at the entry point %q", auth.Address, sidecar.PathAuth, point)
	}
	if auth.TrustForwardHeader == nil || *auth.TrustForwardHeader {
		t.Error("got forwarded headers trusted, want them not")
	}
	if servers := routes.HTTP.Services["floodgate"].LoadBalancer.Servers; len(servers) != 1 || servers[0].URL != "http://127.0.0.1:9091" {
		t.Errorf("got servers %v, want the sidecar at its default address", servers)
	}
}

// TestTraefikLetsPassWhatNoSidecarRefuses: each status lets pass but those that refuse and those that a client can bring about.
func TestTraefikLetsPassWhatNoSidecarRefuses(t *testing.T) {
	var routes traefikFile
	if err := yaml.Unmarshal([]byte(readFile(t, "traefik/floodgate.yaml")), &routes); err != nil {
		t.Fatal(err)
	}
	passing := map[int]bool{}
	for _, text := range routes.HTTP.Middlewares["floodgate-away"].Errors.Status {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		for status := number(t, first); status <= number(t, last); status++ {
			passing[status] = true
		}
	}
	refusing := []int{400, 417, 429, 431, 501}
	for status := 300; status <= 999; status++ {
		if want := !slices.Contains(refusing, status); passing[status] != want {
			t.Errorf("%d: got that it passes %v, want %v", status, passing[status], want)
		}
	}
}
