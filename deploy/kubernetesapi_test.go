package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/deploy/testenv"
	"github.com/509da70d/floodgate/store/kafkaio/embedded"
)

// analyzerContainer returns the container of the analyzer, and its settings in the pod floodgate-analyzer-0.
func analyzerContainer(t *testing.T) (c *container, settings map[string]string) {
	t.Helper()
	floodgates(t, func(where string, _ *podSpec, found *container) {
		if where == "StatefulSet/floodgate-analyzer/analyzer" {
			c = found
		}
	})
	if c == nil {
		t.Fatal("got no container analyzer, want one")
	}
	settings = c.settings(t)
	settings["POD_NAME"], settings["POD_NAMESPACE"] = "floodgate-analyzer-0", "floodgate"
	for _, v := range c.Env {
		settings[v.Name] = regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(settings[v.Name], func(ref string) string {
			// Kubernetes replaces what stands before it in the list, and leaves the rest as it is.
			if slices.IndexFunc(c.Env, named(ref[2:len(ref)-1])) >= slices.IndexFunc(c.Env, named(v.Name)) {
				t.Errorf("%s: got %s, want a variable that stands before it", v.Name, ref)
			}
			return settings[ref[2:len(ref)-1]]
		})
	}
	return c, settings
}

func named(name string) func(struct{ Name, Value string }) bool {
	return func(v struct{ Name, Value string }) bool { return v.Name == name }
}

// certificate makes the certificate of the API by the command in k8s/README.md, and returns its files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	testenv.Program(t, "openssl")
	command := regexp.MustCompile(`(?m)^openssl req(?:.*\\\n)*.*$`).FindString(readFile(t, "k8s/README.md"))
	if command == "" {
		t.Fatal("got no command in k8s/README.md that makes a certificate, want one")
	}
	c := exec.CommandContext(t.Context(), "sh", "-ec", command)
	c.Dir = t.TempDir()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return readFile(t, filepath.Join(c.Dir, "tls.crt")), readFile(t, filepath.Join(c.Dir, "tls.key"))
}

// TestKubernetesAnalyzersReachEachOther: the address that a pod advertises is one of its Service, at the API's port, which policies
// open, and the certificate of the README is for it.
func TestKubernetesAnalyzersReachEachOther(t *testing.T) {
	_, settings := analyzerContainer(t)
	host, port, err := net.SplitHostPort(settings["FLOODGATE_API_ADVERTISE"])
	if err != nil || host != "floodgate-analyzer-0.floodgate-analyzer.floodgate.svc" {
		t.Errorf("got %s, %v, want POD.SERVICE.NAMESPACE.svc and a port", settings["FLOODGATE_API_ADVERTISE"], err)
	}
	if settings["FLOODGATE_API_LISTEN"] != "0.0.0.0:"+port {
		t.Errorf("got the API at %s and advertised port %s, want one port", settings["FLOODGATE_API_LISTEN"], port)
	}
	if all := manifests(t); all["Service/floodgate-analyzer"].Kind == "" || all["NetworkPolicy/api"].Kind == "" {
		t.Error("got no service floodgate-analyzer or no policy api, want both")
	}
	policy, service := readFile(t, "k8s/api/networkpolicy.yaml"), readFile(t, "k8s/api/analyzer.yaml")
	if strings.Count(policy, "port: "+port) != 2 || !strings.Contains(service, "{name: api, port: "+port+", targetPort: api}") {
		t.Errorf("got no port %s in the service, or not in and out in the policies, want both", port)
	}
	text, _ := certificate(t)
	block, _ := pem.Decode([]byte(text))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(strings.Split(settings["FLOODGATE_API_ALLOWED_HOSTS"], ","), host, "127.0.0.1") {
		if err := cert.VerifyHostname(name); err != nil {
			t.Errorf("got %v, want a certificate for %s", err, name)
		}
	}
}

// testKubernetesAPI starts the analyzer with the variables of its manifest and the secrets of the README, and asks its API.
func testKubernetesAPI(t *testing.T, floodgate *image) {
	broker, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	c, settings := analyzerContainer(t)
	cert, key := certificate(t)
	token, sum := api.NewToken()
	stranger, _ := api.NewToken()
	for path, text := range map[string]string{
		settings["FLOODGATE_RULES"]: readFile(t, "k8s/base/rules.yaml"), settings["FLOODGATE_PARTITION_KEY_FILE"]: strings.Repeat("5a", 16),
		settings["FLOODGATE_API_TOKENS"]: "alice admin " + sum + "\n", settings["FLOODGATE_API_CLUSTER_KEY_FILE"]: strings.Repeat("a5", 32),
		settings["FLOODGATE_API_CERT"]: cert, settings["FLOODGATE_API_KEY"]: key,
	} {
		at := filepath.Join(floodgate.root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := net.SplitHostPort(testenv.FreeAddress(t))
	start(t, floodgate, service{Command: c.Args, Environment: settings}, strings.NewReplacer("kafka-bootstrap.kafka:9092", broker.Addr(),
		"0.0.0.0:9090", testenv.FreeAddress(t), "0.0.0.0:9096", "0.0.0.0:"+port))
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(cert))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	ask := func(host, token string) (status int, body string, err error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+net.JoinHostPort(host, port)+"/v1/status", nil)
		if err != nil {
			return 0, "", err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
	for _, host := range []string{"127.0.0.1", "localhost"} { // as through kubectl port-forward
		eventually(t, host, func() error {
			status, body, err := ask(host, token)
			if err != nil || status != http.StatusOK || !strings.Contains(body, `"role":"admin"`) {
				return fmt.Errorf("got %d %s, %w, want 200 for a token of role admin", status, body, err)
			}
			return nil
		})
	}
	if status, body, err := ask("127.0.0.1", stranger); err != nil || status != http.StatusUnauthorized {
		t.Errorf("got %d %s, %v for another token, want 401", status, body, err)
	}
}
