package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// dashboard is what the tests want to know of a file of Grafana.
type dashboard struct {
	UID, Title, Description string
	Templating              struct{ List []variable }
	Panels                  []gridPanel
}

type variable struct {
	Name, Type, Definition string
	AllValue               string
	Datasource             source
}

type source struct{ Type, UID string }

type gridPanel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID, Expr, LegendFormat string
		Datasource                source
	}
}

// theSource is how a panel names the data source that its reader has chosen.
func theSource() source { return source{"prometheus", "${datasource}"} }

// dashboards returns the dashboards of deploy/grafana, by file.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v, want files", files, err)
	}
	all := make(map[string]dashboard)
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(readFile(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// TestDashboards: each dashboard has its own id, each panel a title, a description and a unit, and panels do not overlap.
func TestDashboards(t *testing.T) {
	uids := make(map[string]string)
	for file, d := range dashboards(t) {
		if d.UID != "floodgate-"+strings.TrimSuffix(file, ".json") || d.Title == "" || d.Description == "" {
			t.Errorf("%s: got id %q, title %q, description %q, want floodgate-NAME and both", file, d.UID, d.Title, d.Description)
		}
		if uids[d.UID] != "" {
			t.Errorf("%s: got the id of %s, want one of its own", file, uids[d.UID])
		}
		uids[d.UID] = file
		ids, places := make(map[int]bool), make(map[[2]int]string)
		for i := range d.Panels {
			p := &d.Panels[i]
			where := file + ", " + p.Title
			if p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: got id %d, want one of its own", where, p.ID)
			}
			ids[p.ID] = true
			checkPanel(t, where, p)
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := places[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: got the place %+v, want one within 24 columns that %q does not have", where, p.GridPos, other)
					}
					places[[2]int{x, y}] = p.Title
				}
			}
		}
	}
	for _, name := range []string{"overview", "rules", "partitions", "gates", "events"} {
		if uids["floodgate-"+name] == "" {
			t.Errorf("got no dashboard %s, want one", name)
		}
	}
}

func checkPanel(t *testing.T, where string, p *gridPanel) {
	t.Helper()
	if p.Type == "row" {
		if p.Title == "" || len(p.Targets) != 0 {
			t.Errorf("%s: got %+v, want a row with a title, and panels behind it", where, p)
		}
		return
	}
	units := []string{"none", "s", "reqps", "cps", "bytes", "percentunit"}
	if p.Title == "" || !strings.HasSuffix(p.Description, ".") || !slices.Contains(units, p.FieldConfig.Defaults.Unit) || len(p.Targets) == 0 {
		t.Errorf("%s: got title %q, description %q, unit %q and %d expressions, want a title, sentences, a unit of %v, and expressions",
			where, p.Title, p.Description, p.FieldConfig.Defaults.Unit, len(p.Targets), units)
	}
	if !slices.Contains([]string{"timeseries", "stat", "table"}, p.Type) || p.Datasource != theSource() {
		t.Errorf("%s: got %s of %+v, want a kind of panel that each Grafana has, and the source that is chosen", where, p.Type, p.Datasource)
	}
	letters := make(map[string]bool)
	for _, target := range p.Targets {
		if target.RefID == "" || letters[target.RefID] || target.Datasource != theSource() {
			t.Errorf("%s: got letter %q of %+v, want one of its own, and the source that is chosen", where, target.RefID, target.Datasource)
		}
		letters[target.RefID] = true
	}
	if seconds := strings.Contains(p.Targets[0].Expr, "_seconds"); p.Type == "timeseries" && seconds != (p.FieldConfig.Defaults.Unit == "s") && !strings.Contains(p.Targets[0].Expr, "_seconds_count") {
		t.Errorf("%s: got unit %s for %s, want s for seconds and only for them", where, p.FieldConfig.Defaults.Unit, p.Targets[0].Expr)
	}
}

// TestDashboardsNameMetricsThatAreThere: a panel of a metric that is not there stays empty, and nobody sees why.
func TestDashboardsNameMetricsThatAreThere(t *testing.T) {
	metrics := allMetrics()
	for file, d := range dashboards(t) {
		for i := range d.Panels {
			for _, target := range d.Panels[i].Targets {
				checkExpression(t, file+", "+d.Panels[i].Title, target.Expr, metrics)
				for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
					if by := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(target.Expr); by != nil && !regexp.MustCompile(`\b`+m[1]+`\b`).MatchString(by[1]) {
						t.Errorf("%s, %s: got legend %s, want a label that %s keeps", file, d.Panels[i].Title, m[0], target.Expr)
					}
				}
			}
		}
	}
}

// TestAlertsNameMetricsThatAreThere: an alert on a metric that is not there is never raised.
func TestAlertsNameMetricsThatAreThere(t *testing.T) {
	for _, a := range alerts(t) {
		checkExpression(t, a.Alert, a.Expr, allMetrics())
	}
}

// TestEachAlertHasARunbook: whoever is woken by an alert finds a heading that speaks of it, and no heading speaks of an alert that is gone.
func TestEachAlertHasARunbook(t *testing.T) {
	const page = "https://github.com/509da70d/floodgate/blob/main/" + ".github/RUNBOOK.md#"
	chapters := make(map[string]string)
	for chapter := range strings.SplitSeq(readFile(t, "../.github/RUNBOOK.md"), "\n## ") {
		chapters[anchors("## " + chapter)[0]] = chapter
	}
	named := make(map[string]bool)
	for _, a := range alerts(t) {
		anchor, ok := strings.CutPrefix(a.Annotations.Runbook, page)
		if !ok || !strings.Contains(chapters[anchor], "`"+a.Alert+"`") {
			t.Errorf("%s: got runbook_url %q, want %s and a heading of which the text names the alert", a.Alert, a.Annotations.Runbook, page)
		}
		named[a.Alert] = true
	}
	for anchor, text := range chapters {
		for _, m := range regexp.MustCompile("`(Floodgate\\w+)`").FindAllStringSubmatch(text, -1) {
			if !named[m[1]] {
				t.Errorf("RUNBOOK.md#%s: got %s, want an alert that there is", anchor, m[1])
			}
		}
	}
}

// TestDashboardsNameNoCaller: a label with the id of a caller would be a series for each caller that there ever was.
func TestDashboardsNameNoCaller(t *testing.T) {
	for name, labels := range allMetrics() {
		for _, l := range labels {
			if l == "id" && name != "floodgate_rules_info" || l == "caller" || l == "resource" || l == "key" || l == "ip" {
				t.Errorf("%s: got label %s, want none that a caller chooses", name, l)
			}
		}
	}
}

// TestDashboardsAskForTheirVariables: the data source is chosen, and each variable that an expression reads is one of the dashboard.
func TestDashboardsAskForTheirVariables(t *testing.T) {
	metrics := allMetrics()
	for file, d := range dashboards(t) {
		names := map[string]bool{"__rate_interval": true}
		for i, v := range d.Templating.List {
			names[v.Name] = true
			if i == 0 {
				if v.Name != "datasource" || v.Type != "datasource" {
					t.Errorf("%s: got %+v first, want the data source", file, v)
				}
				continue
			}
			if v.Type != "query" || v.Datasource != theSource() || v.AllValue != ".*" {
				t.Errorf("%s: got variable %+v, want one that is looked up in the chosen source, and may be all", file, v)
			}
			for _, s := range selectors(v.Definition) {
				if metrics[s.name] == nil {
					t.Errorf("%s: variable %s: got metric %s, want one that there is", file, v.Name, s.name)
				}
			}
		}
		used := make(map[string]bool)
		for i := range d.Panels {
			for _, target := range d.Panels[i].Targets {
				for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
					if used[m[1]] = true; !names[m[1]] {
						t.Errorf("%s, %s: got $%s, want a variable of the dashboard", file, d.Panels[i].Title, m[1])
					}
				}
			}
		}
		for _, v := range d.Templating.List[1:] {
			if !used[v.Name] {
				t.Errorf("%s: got variable %s, want one that an expression reads", file, v.Name)
			}
		}
	}
}

// TestProvisioning: Grafana and Prometheus find the files and each other where compose.yaml puts them.
func TestProvisioning(t *testing.T) {
	all := services(t, "compose.yaml")
	volumes := strings.Join(append(all["grafana"].Volumes, all["prometheus"].Volumes...), " ")
	for _, want := range []string{"./grafana/provisioning:/etc/grafana/provisioning:ro", "./grafana:/etc/floodgate/dashboards:ro", "./prometheus:/etc/prometheus:ro"} {
		if !strings.Contains(volumes, want) {
			t.Errorf("got volumes %s, want %s", volumes, want)
		}
	}
	var dashboards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	var sources struct{ Datasources []struct{ URL, Type string } }
	var config struct {
		RuleFiles []string `yaml:"rule_files"`
		Scrapes   []struct {
			Job     string                       `yaml:"job_name"`
			Configs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	for file, v := range map[string]any{
		"grafana/provisioning/dashboards/floodgate.yaml": &dashboards, "grafana/provisioning/datasources/prometheus.yaml": &sources, "prometheus/prometheus.yml": &config,
	} {
		if err := yaml.Unmarshal([]byte(readFile(t, file)), v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if len(dashboards.Providers) != 1 || dashboards.Providers[0].Options.Path != "/etc/floodgate/dashboards" {
		t.Errorf("got %+v, want the path of the volume", dashboards)
	}
	if len(sources.Datasources) != 1 || sources.Datasources[0].URL != "http://prometheus:9090" || sources.Datasources[0].Type != "prometheus" {
		t.Errorf("got %+v, want the service prometheus", sources)
	}
	for _, file := range config.RuleFiles {
		if _, err := os.Stat(filepath.Join("prometheus", file)); err != nil {
			t.Error(err)
		}
	}
	ports := map[string]string{"analyzer": all["analyzer"].Environment["FLOODGATE_LISTEN"], "server": all["server"].Environment["METRICS"]}
	jobs := make(map[string]bool)
	for _, s := range config.Scrapes {
		jobs[s.Job] = true
		for _, target := range s.Configs[0].Targets {
			host, port, _ := strings.Cut(target, ":")
			if ports[host] != "0.0.0.0:"+port {
				t.Errorf("%s: got target %s, want where a service listens: %v", s.Job, target, ports)
			}
		}
	}
	if !jobs["floodgate"] || !jobs["floodgate-gates"] {
		t.Errorf("got jobs %v, want those of analyzers, which alerts name, and of gates", jobs)
	}
}
