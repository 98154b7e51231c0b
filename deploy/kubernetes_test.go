package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/509da70d/floodgate/analyzer/notify/endpoint"
	"github.com/509da70d/floodgate/analyzer/notify/webhook"
	"github.com/509da70d/floodgate/deploy/testenv"
)

// manifest is what the tests want to know of an object for Kubernetes.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
		Claims []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type podSpec struct {
	InitContainers  []container `yaml:"initContainers"`
	Containers      []container
	Volumes         []volume
	AutomountToken  *bool `yaml:"automountServiceAccountToken"`
	SecurityContext struct {
		RunAsNonRoot bool  `yaml:"runAsNonRoot"`
		RunAsUser    int64 `yaml:"runAsUser"`
	} `yaml:"securityContext"`
}

type container struct {
	Name, Image string
	Args        []string
	Env         []struct{ Name, Value string }
	EnvFrom     []struct {
		ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
	} `yaml:"envFrom"`
	Ports           []containerPort
	VolumeMounts    []mount `yaml:"volumeMounts"`
	SecurityContext struct {
		ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		Capabilities struct{ Drop []string }
	} `yaml:"securityContext"`
	LivenessProbe  *probe `yaml:"livenessProbe"`
	ReadinessProbe *probe `yaml:"readinessProbe"`
	StartupProbe   *probe `yaml:"startupProbe"`
}

type containerPort struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
}

type probe struct {
	HTTPGet *struct{ Path, Port string } `yaml:"httpGet"`
}

type mount struct {
	Name      string
	MountPath string `yaml:"mountPath"`
	SubPath   string `yaml:"subPath"`
}

type volume struct {
	Name      string
	ConfigMap *struct{ Name string } `yaml:"configMap"`
	Secret    *struct {
		SecretName string `yaml:"secretName"`
	}
}

// manifests returns the objects of deploy/k8s/base, by kind and name.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	files, err := filepath.Glob("k8s/base/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v, want files", files, err)
	}
	all := map[string]manifest{}
	for _, name := range files {
		switch filepath.Base(name) {
		case "kustomization.yaml", "rules.yaml", "notify-settings.yaml":
			continue
		}
		d := yaml.NewDecoder(strings.NewReader(readFile(t, name)))
		for {
			var m manifest
			if err := d.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all[m.Kind+"/"+m.Metadata.Name] = m
		}
	}
	return all
}

// floodgates calls f with each container that runs floodgate.
func floodgates(t *testing.T, f func(where string, p *podSpec, c *container)) {
	t.Helper()
	found := 0
	for name, m := range manifests(t) {
		p := &m.Spec.Template.Spec
		for _, list := range [][]container{p.InitContainers, p.Containers} {
			for i := range list {
				if list[i].Image == "floodgate" {
					found++
					f(name+"/"+list[i].Name, p, &list[i])
				}
			}
		}
	}
	if found < 5 {
		t.Fatalf("got %d containers with floodgate, want those of topics, analyzer, ingest, notify and nginx", found)
	}
}

// settings returns the environment of a container, with that of settings.env.
func (c *container) settings(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef.Name != "floodgate-settings" {
			t.Errorf("%s: got variables of %q, want those of floodgate-settings", c.Name, from.ConfigMapRef.Name)
		}
		for line := range strings.Lines(readFile(t, "k8s/base/settings.env")) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			all[name] = value
		}
	}
	for _, v := range c.Env {
		all[v.Name] = v.Value
	}
	return all
}

// TestKubernetesRulesAreTheRulesToStartFrom compares two files that kustomize cannot share: it reads nothing above its folder.
func TestKubernetesRulesAreTheRulesToStartFrom(t *testing.T) {
	if got, want := readFile(t, "k8s/base/rules.yaml"), readFile(t, "rules/rules.yaml"); got != want {
		t.Error("deploy/k8s/base/rules.yaml differs from deploy/rules/rules.yaml: copy it")
	}
}

// TestKubernetesSettingsOfNotify loads them, with a secret in the place of the one that is mounted.
func TestKubernetesSettingsOfNotify(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ops.secret"), []byte(webhook.NewSecret()), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(readFile(t, "k8s/base/notify-settings.yaml"), "/etc/floodgate/secrets/", "")
	c, err := endpoint.Parse("notify-settings.yaml", []byte(text), dir)
	if err != nil || len(c.Warnings) != 0 {
		t.Errorf("got %v and %v, want settings without a warning", err, c)
	}
}

// TestKubernetesPodsAreRestricted holds each pod to what the restricted level of pod security asks, and to the image's user.
func TestKubernetesPodsAreRestricted(t *testing.T) {
	user, err := strconv.ParseInt(strings.Split(dockerfile(t)["floodgate"].user, ":")[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range manifests(t) {
		p := &m.Spec.Template.Spec
		containers := append(append([]container(nil), p.InitContainers...), p.Containers...)
		if len(containers) == 0 {
			continue
		}
		if !p.SecurityContext.RunAsNonRoot || p.SecurityContext.RunAsUser != user {
			t.Errorf("%s: got user %+v, want %d, as in the Dockerfile", name, p.SecurityContext, user)
		}
		if p.AutomountToken == nil || *p.AutomountToken {
			t.Errorf("%s: got a token for Kubernetes, want none", name)
		}
		for _, c := range containers {
			s := c.SecurityContext
			if !s.ReadOnly || s.Escalation == nil || *s.Escalation || fmt.Sprint(s.Capabilities.Drop) != "[ALL]" {
				t.Errorf("%s/%s: got %+v, want it read-only, without capabilities, and without more privileges", name, c.Name, s)
			}
		}
	}
}

// TestKubernetesPortsAndPaths compares ports and paths of containers with each other.
func TestKubernetesPortsAndPaths(t *testing.T) {
	floodgates(t, func(where string, p *podSpec, c *container) {
		settings := c.settings(t)
		for _, name := range []string{"FLOODGATE_LISTEN", "FLOODGATE_API_LISTEN"} {
			if listen := settings[name]; listen != "" && !c.has(listen[strings.LastIndexByte(listen, ':')+1:]) {
				t.Errorf("%s: got %s=%s, want one of %+v", where, name, listen, c.Ports)
			}
		}
		if settings["FLOODGATE_LISTEN"] != "" {
			for _, probe := range []*probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
				if probe != nil && (probe.HTTPGet == nil || probe.HTTPGet.Path != "/healthz" && probe.HTTPGet.Path != "/readyz") {
					t.Errorf("%s: got probe %+v, want /healthz or /readyz", where, probe)
				}
			}
		}
		for name, file := range settings {
			if !strings.HasPrefix(file, "/") || c.ignores(name) {
				continue
			}
			dir := path.Dir(file)
			if name == "FLOODGATE_DATA" {
				dir = file
			}
			if !c.mounts(dir) {
				t.Errorf("%s: got %s=%s, want a mount at %s, of a directory", where, name, file, dir)
			}
		}
		for _, m := range c.VolumeMounts {
			if !p.has(m.Name) && m.Name != "data" { // the volume of a claim
				t.Errorf("%s: got mount of %q, want a volume", where, m.Name)
			}
		}
	})
}

// has reports whether a port is one of the container's.
func (c *container) has(port string) bool {
	for _, p := range c.Ports {
		if strconv.Itoa(p.ContainerPort) == port {
			return true
		}
	}
	return false
}

// ignores reports whether a container has no flag for a variable of the one file of settings for all: a sidecar makes no topics, and
// notify also knows no partition of a caller.
func (c *container) ignores(name string) bool {
	return name == "FLOODGATE_PARTITIONS" || name == "FLOODGATE_PARTITION_KEY_FILE" && c.Name == "notify"
}

func (c *container) mounts(dir string) bool {
	for _, m := range c.VolumeMounts {
		if m.MountPath == dir && m.SubPath == "" {
			return true
		}
	}
	return false
}

func (p *podSpec) has(name string) bool {
	for _, v := range p.Volumes {
		if v.Name == name {
			return true
		}
	}
	return false
}

// testKubernetes compares the variables and arguments of the containers with the flags of the binary.
func testKubernetes(t *testing.T, floodgate *image) {
	floodgates(t, func(where string, _ *podSpec, c *container) {
		if len(c.Args) == 0 {
			t.Errorf("%s: got no arguments, want a subcommand", where)
			return
		}
		out, err := floodgate.command(t.Context(), nil, c.Args[0], "--help").CombinedOutput()
		if err != nil {
			t.Errorf("%s: %s --help: %v\n%s", where, c.Args[0], err, out)
			return
		}
		has := func(flag string) bool { return bytes.Contains(out, []byte(" "+flag+" ")) }
		for _, arg := range c.Args[1:] {
			if strings.HasPrefix(arg, "--") && !has(arg) {
				t.Errorf("%s: got %s, want a flag of %s", where, arg, c.Args[0])
			}
		}
		for name := range c.settings(t) {
			setting, ours := strings.CutPrefix(name, "FLOODGATE_")
			flag := "--" + strings.ToLower(strings.ReplaceAll(setting, "_", "-"))
			if ours && !has(flag) && !c.ignores(name) {
				t.Errorf("%s: got %s, want a flag of %s", where, name, c.Args[0])
			}
		}
	})
}

// TestKubernetesDocumentsNameEachSecret looks in the README beside the manifests for the secrets that the pods want.
func TestKubernetesDocumentsNameEachSecret(t *testing.T) {
	text := readFile(t, "k8s/README.md")
	for name, m := range manifests(t) {
		for _, v := range m.Spec.Template.Spec.Volumes {
			if v.Secret != nil && !regexp.MustCompile(`\b`+v.Secret.SecretName+`\b`).MatchString(text) {
				t.Errorf("%s: got secret %q, want it in k8s/README.md", name, v.Secret.SecretName)
			}
		}
	}
}

// TestKubernetesNginx asks nginx whether it can read the example's configuration.
func TestKubernetesNginx(t *testing.T) {
	nginx := testenv.Program(t, "nginx")
	file := filepath.Join(t.TempDir(), "nginx.conf")
	text := strings.ReplaceAll(readFile(t, "k8s/base/nginx.conf"), "/tmp/", t.TempDir()+"/")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), nginx, "-t", "-c", file).CombinedOutput()
	if err != nil {
		t.Errorf("got %v, want a configuration that nginx takes\n%s", err, out)
	}
}
