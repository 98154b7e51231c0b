package deploy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rate_limit_quota/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // named in the files
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // named in the files
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/509da70d/floodgate/gate/sidecar"
	"github.com/509da70d/floodgate/schemas"
)

// readEnvoy reads a configuration as Envoy does: into its own messages, in which every name and every type must be known, and checked by its
// own rules. It returns Envoy's connection manager, and whether a cluster has a name.
func readEnvoy(t *testing.T, path string) (*managerv3.HttpConnectionManager, func(cluster string) bool) {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(readFile(t, path)))
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
	typed(t, b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), &manager)
	if !manager.GetUseRemoteAddress().GetValue() {
		t.Error("got clients' claims about their address believed, want them not")
	}
	return &manager, func(cluster string) bool {
		return slices.ContainsFunc(b.GetStaticResources().GetClusters(), func(c *clusterv3.Cluster) bool { return c.GetName() == cluster })
	}
}

// typed reads a configuration of a known type, and checks it.
func typed(t *testing.T, in *anypb.Any, out interface {
	proto.Message
	ValidateAll() error
},
) {
	t.Helper()
	if err := in.UnmarshalTo(out); err != nil {
		t.Fatal(err)
	}
	if err := out.ValidateAll(); err != nil {
		t.Fatal(err)
	}
}

func TestEnvoyTakesTheFile(t *testing.T) {
	manager, known := readEnvoy(t, "envoy/envoy.yaml")
	var authz authzv3.ExtAuthz
	typed(t, manager.GetHttpFilters()[0].GetTypedConfig(), &authz)
	if !authz.GetFailureModeAllow() {
		t.Error("got that a sidecar that is away refuses, want it to let pass")
	}
	if name := authz.GetGrpcService().GetEnvoyGrpc().GetClusterName(); !known(name) {
		t.Errorf("got no cluster %q, which the filter asks", name)
	}
}

// TestEnvoysBucketsAreAddresses: a bucket of what clients write would let one of them stop the service.
func TestEnvoysBucketsAreAddresses(t *testing.T) {
	manager, known := readEnvoy(t, "envoy/envoy-rlqs.yaml")
	var state filterstatev3.Config
	typed(t, manager.GetHttpFilters()[0].GetTypedConfig(), &state)
	set := state.GetOnRequestHeaders()[0]
	if got := set.GetFormatString().GetTextFormatSource().GetInlineString(); got != fmt.Sprintf("%%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT(%d)%%", schemas.DefaultIPv6Prefix) {
		t.Errorf("got %q, want the network by which floodgate counts", got)
	}
	var filter quotav3.RateLimitQuotaFilterConfig
	typed(t, manager.GetHttpFilters()[1].GetTypedConfig(), &filter)
	var buckets quotav3.RateLimitQuotaBucketSettings
	typed(t, filter.GetBucketMatchers().GetOnNoMatch().GetAction().GetTypedConfig(), &buckets)
	id := buckets.GetBucketIdBuilder().GetBucketIdBuilder()
	var input networkv3.FilterStateInput
	typed(t, id["remote_address"].GetCustomValue().GetTypedConfig(), &input)
	if len(id) != 1 || input.GetKey() != set.GetObjectKey() {
		t.Errorf("got bucket ids of %v, want the address that the first filter wrote", id)
	}
	if rule := buckets.GetNoAssignmentBehavior().GetFallbackRateLimit().GetBlanketRule(); rule != typev3.RateLimitStrategy_ALLOW_ALL || buckets.GetExpiredAssignmentBehavior() != nil {
		t.Errorf("got %v without an assignment and %v after one, want a sidecar that is away to let pass", rule, buckets.GetExpiredAssignmentBehavior())
	}
	if name := filter.GetRlqsServer().GetEnvoyGrpc().GetClusterName(); !known(name) {
		t.Errorf("got no cluster %q, which the filter reports to", name)
	}
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
