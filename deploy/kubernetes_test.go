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
	"slices"
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
		TTL      *int `yaml:"ttlSecondsAfterFinished"`
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

// manifests returns the objects of deploy/k8s/base with the components api and notify, by kind and name.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	all := map[string]manifest{}
	for _, part := range []string{"base", "api", "notify"} {
		for key, m := range manifestsOf(t, part) {
			if before, patched := all[key]; patched {
				m = before.with(&m)
			}
			all[key] = m
		}
	}
	return all
}

// with returns an object with what a patch adds to it, as kustomize merges them: by the names of containers.
func (m *manifest) with(patch *manifest) manifest {
	sum := *m
	p := &sum.Spec.Template.Spec
	p.Volumes = slices.Concat(p.Volumes, patch.Spec.Template.Spec.Volumes)
	p.Containers = slices.Clone(p.Containers)
	for i := range p.Containers {
		for j := range patch.Spec.Template.Spec.Containers {
			if c, added := &p.Containers[i], &patch.Spec.Template.Spec.Containers[j]; c.Name == added.Name {
				c.Env, c.Ports = slices.Concat(c.Env, added.Env), slices.Concat(c.Ports, added.Ports)
				c.VolumeMounts = slices.Concat(c.VolumeMounts, added.VolumeMounts)
			}
		}
	}
	return sum
}

// manifestsOf returns the objects of a folder of deploy/k8s, by kind and name.
func manifestsOf(t *testing.T, part string) map[string]manifest {
	t.Helper()
	files, err := filepath.Glob("k8s/" + part + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v, want files", files, err)
	}
	all := map[string]manifest{}
	for _, name := range files {
		switch filepath.Base(name) {
		case "kustomization.yaml", "rules.yaml", "settings.yaml":
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
		if from.ConfigMapRef.Name != "floodgate-settings" && from.ConfigMapRef.Name != "floodgate-topics" {
			t.Errorf("%s: got variables of %q, want those of settings.env", c.Name, from.ConfigMapRef.Name)
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
	text := strings.ReplaceAll(readFile(t, "k8s/notify/settings.yaml"), "/etc/floodgate/secrets/", "")
	c, err := endpoint.Parse("settings.yaml", []byte(text), dir)
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

// TestOnlyThePartitionKeyIsNeeded: a pod waits for ever for a secret that it mounts and that nobody has made. Base mounts the one secret that
// all need, and each component those that it names in its own file.
func TestOnlyThePartitionKeyIsNeeded(t *testing.T) {
	for part, want := range map[string]string{"base": "[floodgate-partition-key]", "api": "[floodgate-api floodgate-api-tls]", "notify": "[floodgate-notify]"} {
		var got []string
		for _, m := range manifestsOf(t, part) {
			for _, v := range m.Spec.Template.Spec.Volumes {
				if v.Secret != nil {
					got = append(got, v.Secret.SecretName)
				}
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); fmt.Sprint(got) != want {
			t.Errorf("%s: got secrets %v, want %s", part, got, want)
		}
		for _, name := range got {
			if !strings.Contains(readFile(t, "k8s/"+part+"/kustomization.yaml"), name) {
				t.Errorf("%s: got secret %s, want it in kustomization.yaml, for whoever takes only this part", part, name)
			}
		}
	}
}

// TestTheJobOfTopicsCanBeAppliedAgain: Kubernetes refuses each change of a Job, and the name of a ConfigMap with a hash is one. So the Job is
// removed when it has run, and its settings have a name that stays.
func TestTheJobOfTopicsCanBeAppliedAgain(t *testing.T) {
	job := manifestsOf(t, "base")["Job/floodgate-topics"]
	if job.Spec.TTL == nil || *job.Spec.TTL != 0 {
		t.Errorf("got ttlSecondsAfterFinished %v, want 0", job.Spec.TTL)
	}
	var file struct {
		Generators []struct {
			Name    string
			Options struct {
				NoHash bool `yaml:"disableNameSuffixHash"`
			}
		} `yaml:"configMapGenerator"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "k8s/base/kustomization.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	hashed := map[string]bool{}
	for _, g := range file.Generators {
		hashed[g.Name] = !g.Options.NoHash
	}
	for _, c := range job.Spec.Template.Spec.Containers {
		for _, from := range c.EnvFrom {
			if name := from.ConfigMapRef.Name; hashed[name] || !strings.Contains(readFile(t, "k8s/base/kustomization.yaml"), "- name: "+name+"\n") {
				t.Errorf("got variables of %s, want those of a ConfigMap without a hash", name)
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

// TestTheKustomizationOfThePageIsOne: what k8s/README.md shows to copy names folders and objects that there are.
func TestTheKustomizationOfThePageIsOne(t *testing.T) {
	found := regexp.MustCompile("(?s)```yaml\n(# kustomization.yaml.*?)```").FindStringSubmatch(readFile(t, "k8s/README.md"))
	if found == nil {
		t.Fatal("got no kustomization in k8s/README.md, want one")
	}
	var file struct {
		Resources, Components []string
		Generators            []struct{ Name, Behavior string } `yaml:"configMapGenerator"`
		Patches               []struct {
			Target struct{ Kind, Name string }
			Patch  string
		}
	}
	if err := yaml.Unmarshal([]byte(found[1]), &file); err != nil {
		t.Fatal(err)
	}
	all := readFile(t, "k8s/base/kustomization.yaml")
	for _, dir := range slices.Concat(file.Resources, file.Components) {
		if _, err := os.Stat(strings.Replace(dir, "floodgate/deploy/", "", 1) + "/kustomization.yaml"); err != nil {
			t.Error(err)
		}
	}
	for _, g := range file.Generators {
		if g.Behavior != "merge" || !strings.Contains(all, "- name: "+g.Name+"\n") {
			t.Errorf("got ConfigMap %+v, want one of base, merged", g)
		}
	}
	if len(file.Patches) != 2 {
		t.Errorf("got %d patches, want those of Kafka and of the brake", len(file.Patches))
	}
	for _, p := range file.Patches {
		if objects := manifestsOf(t, "base"); objects[p.Target.Kind+"/"+p.Target.Name].Kind == "" && manifestsOf(t, "operator")[p.Target.Kind+"/"+p.Target.Name].Kind == "" {
			t.Errorf("got a patch of %+v, want an object that there is", p.Target)
		}
		var steps []struct{ Op, Path string }
		if err := yaml.Unmarshal([]byte(p.Patch), &steps); err != nil || len(steps) != 1 || steps[0].Op != "replace" {
			t.Errorf("got %v and patch %s, want one replacement", err, p.Patch)
		}
	}
	if image := "newTag: "; strings.SplitN(all, image, 2)[1] != strings.SplitN(readFile(t, "k8s/notify/kustomization.yaml"), image, 2)[1] {
		t.Error("got another version of the image in notify than in base, want one")
	}
}
