package deploy

import (
	"net/url"
	"os"
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

// TestTraefikAsksWhereTheSidecarAnswers: Traefik is in no package registry here, so its file is only read.
func TestTraefikAsksWhereTheSidecarAnswers(t *testing.T) {
	text, err := os.ReadFile("traefik/floodgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		HTTP struct {
			Middlewares map[string]struct {
				ForwardAuth struct {
					Address            string `yaml:"address"`
					TrustForwardHeader *bool  `yaml:"trustForwardHeader"`
				} `yaml:"forwardAuth"`
			} `yaml:"middlewares"`
		} `yaml:"http"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	auth := file.HTTP.Middlewares["floodgate"].ForwardAuth
	u, err := url.Parse(auth.Address)
	if err != nil || u.Path != sidecar.PathAuth || u.Host != "127.0.0.1:9091" {
		t.Errorf("got %q, want the sidecar's %s at its default address", auth.Address, sidecar.PathAuth)
	}
	if auth.TrustForwardHeader == nil || *auth.TrustForwardHeader {
		t.Error("got forwarded headers trusted, want them not")
	}
}
