package deploy

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/509da70d/floodgate/deploy/testenv"
)

// monitor is a PodMonitor of the Prometheus operator, as far as it is used here.
type monitor struct {
	Metadata struct{ Name string }
	Spec     struct {
		Selector struct {
			MatchLabels      map[string]string `yaml:"matchLabels"`
			MatchExpressions []struct {
				Key, Operator string
				Values        []string
			} `yaml:"matchExpressions"`
		}
		Endpoints []struct {
			Port        string
			Relabelings []struct {
				TargetLabel string `yaml:"targetLabel"`
				Replacement string
			}
		} `yaml:"podMetricsEndpoints"`
	}
}

// selects reports whether a monitor is of pods with some labels.
func (m *monitor) selects(labels map[string]string) bool {
	for key, value := range m.Spec.Selector.MatchLabels {
		if labels[key] != value {
			return false
		}
	}
	for _, e := range m.Spec.Selector.MatchExpressions {
		if e.Operator != "In" || !slices.Contains(e.Values, labels[e.Key]) {
			return false
		}
	}
	return true
}

func monitors(t *testing.T) (all []monitor) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(readFile(t, "k8s/operator/podmonitor.yaml"))); ; {
		var m monitor
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
}

// TestMonitorsScrapeUnderTheNamesThatAlertsKnow: each container that has metrics is scraped once, at the port that it has, as the job by
// which alerts and dashboards ask for it. An operator names jobs after its objects, and then FloodgateNoAnalyzer is always there.
func TestMonitorsScrapeUnderTheNamesThatAlertsKnow(t *testing.T) {
	all, asked := monitors(t), make(map[string]bool)
	for _, a := range alerts(t) {
		for _, m := range regexp.MustCompile(`job="([^"]*)"`).FindAllStringSubmatch(a.Expr, -1) {
			asked[m[1]] = true
		}
	}
	if len(asked) != 1 || !asked["floodgate"] {
		t.Errorf("got alerts on jobs %v, want that of analyzers", asked)
	}
	pods := manifests(t)
	floodgates(t, func(where string, _ *podSpec, c *container) {
		kind, name, _ := strings.Cut(where[:strings.LastIndexByte(where, '/')], "/")
		if kind == "Job" {
			return // it has no metrics
		}
		want := "floodgate-gates"
		if c.Args[0] == "analyze" {
			want = "floodgate"
		}
		var jobs []string
		for i := range all {
			if !all[i].selects(pods[kind+"/"+name].Spec.Template.Metadata.Labels) {
				continue
			}
			for _, e := range all[i].Spec.Endpoints {
				if !slices.ContainsFunc(c.Ports, func(p containerPort) bool { return p.Name == e.Port }) || len(e.Relabelings) != 1 || e.Relabelings[0].TargetLabel != "job" {
					t.Errorf("%s: got %+v of %s, want one of the ports %v and a name for the job", where, e, all[i].Metadata.Name, c.Ports)
					continue
				}
				jobs = append(jobs, e.Relabelings[0].Replacement)
			}
		}
		if !slices.Equal(jobs, []string{want}) {
			t.Errorf("%s: got scraped as jobs %v, want as %s", where, jobs, want)
		}
	})
	for _, job := range []string{"floodgate", "floodgate-gates"} {
		if !strings.Contains(readFile(t, "prometheus/prometheus.yml"), "job_name: "+job+"\n") {
			t.Errorf("got no job %s in prometheus.yml, want one name wherever Prometheus runs", job)
		}
	}
}

// TestTheOperatorsRulesAreTheAlerts: the object for the Prometheus operator is alerts.yaml, in an envelope. kustomize cannot make it.
func TestTheOperatorsRulesAreTheAlerts(t *testing.T) {
	const path = "k8s/operator/prometheusrule.yaml"
	_, groups, found := strings.Cut(readFile(t, "prometheus/alerts.yaml"), "\ngroups:\n")
	if !found {
		t.Fatal("got no groups in alerts.yaml")
	}
	var want strings.Builder
	want.WriteString("# The alerts of prometheus/alerts.yaml, for the Prometheus operator. Change them there, and then run:\n#\n" +
		"#   go test ./deploy -run TestTheOperatorsRulesAreTheAlerts -update\n" +
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: floodgate\nspec:\n  groups:\n")
	for line := range strings.Lines(groups) {
		if strings.TrimSpace(line) != "" {
			want.WriteString("  ")
		}
		want.WriteString(line)
	}
	if testenv.Update() {
		if err := os.WriteFile(path, []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := readFile(t, path); got != want.String() {
		t.Errorf("%s is not what alerts.yaml says: %s writes it", path, testenv.UpdateCommand(t))
	}
	var object struct {
		Spec struct{ Groups []struct{ Rules []alertRule } }
	}
	if err := yaml.Unmarshal([]byte(want.String()), &object); err != nil || len(object.Spec.Groups) < 4 {
		t.Fatalf("got %v and %d groups, want an object with all", err, len(object.Spec.Groups))
	}
	if got := object.Spec.Groups[0].Rules[0].Record; got != "floodgate:brake_minutes" || !strings.Contains(readFile(t, "k8s/README.md"), "/spec/groups/0/rules/0/expr") {
		t.Errorf("got %q as the first rule, want floodgate:brake_minutes, which k8s/README.md says how to set", got)
	}
}
