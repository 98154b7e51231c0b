package deploy

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/analyzerprom"
	"github.com/509da70d/floodgate/analyzer/api/apiprom"
	"github.com/509da70d/floodgate/analyzer/ingest/ingestprom"
	"github.com/509da70d/floodgate/analyzer/notify/notifyprom"
	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/gate/sidecar/sidecarprom"
	"github.com/509da70d/floodgate/store/kafkaio/kafkaprom"
)

// described returns the labels of each metric of some collectors.
func described(collectors ...prometheus.Collector) map[string][]string {
	descs := make(chan *prometheus.Desc)
	var describing sync.WaitGroup
	describing.Go(func() {
		defer close(descs)
		for _, c := range collectors {
			c.Describe(descs)
		}
	})
	all := make(map[string][]string)
	for d := range descs {
		found := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`).FindStringSubmatch(d.String())
		all[found[1]] = strings.Split(found[2], ",")
	}
	describing.Wait()
	return all
}

// gateMetrics returns the metrics that gates show in the servers that register gateprom.
func gateMetrics() map[string][]string {
	set, rec := gate.New(gate.Options{}), record.New(record.Options{})
	return described(gateprom.New(gateprom.Options{Set: set, Recorder: rec, Link: new(kafkalink.Link), Partitions: true}))
}

// allMetrics returns what all daemons and gates show, and what Prometheus adds.
func allMetrics() map[string][]string {
	all := described(
		analyzerprom.New(nil), analyzerprom.NewRules(nil), analyzerprom.NewPartitionRules(nil, 1), analyzerprom.NewDisk("."), analyzerprom.NewLog(nil, nil), kafkaprom.New(), kafkaprom.NewOutage(nil),
		apiprom.New(nil), ingestprom.New(nil, nil, nil), ingestprom.NewReceiver(nil), notifyprom.New(time.Now), sidecarprom.New(nil), sidecarprom.NewBouncer(nil), sidecarprom.NewFeed(nil), sidecarprom.NewFrames(nil), sidecarprom.NewHAProxy(nil),
	)
	maps.Copy(all, gateMetrics())
	all["floodgate_build_info"] = []string{"version", "revision", "go"} // of package main
	all["up"] = nil
	all["ALERTS"] = []string{"alertname", "alertstate"}
	return all
}

// selector is one metric in an expression, with its matchers and the range behind it.
type selector struct{ text, name, matchers, span string }

// selectors returns the metrics that an expression reads. Expressions here name floodgate's metrics, up and ALERTS.
func selectors(expr string) (all []selector) {
	for _, m := range regexp.MustCompile(`\b(floodgate_\w+|up|ALERTS)\b(\{[^}]*\})?(\[[^\]]*\])?`).FindAllStringSubmatch(expr, -1) {
		all = append(all, selector{m[0], m[1], m[2], m[3]})
	}
	return all
}

// family returns the name of the metric of a series: that of a histogram has an ending for each kind of number.
func family(name string) string {
	for _, ending := range []string{"_bucket", "_count", "_sum"} {
		if short, ok := strings.CutSuffix(name, ending); ok {
			return short
		}
	}
	return name
}

// checkExpression says which metrics and labels of an expression are none that there are. Prometheus adds instance and job to each
// series, and histograms have le.
func checkExpression(t *testing.T, where, expr string, metrics map[string][]string) {
	t.Helper()
	known := map[string]bool{"instance": true, "job": true, "le": true}
	found := selectors(expr)
	if len(found) == 0 && expr != "vector(0)" {
		t.Errorf("%s: got %s, want an expression that reads a metric", where, expr)
	}
	for _, s := range found {
		labels, ok := metrics[family(s.name)]
		if !ok {
			t.Errorf("%s: got metric %s, want one that there is", where, s.name)
			continue
		}
		here := map[string]bool{"instance": true, "job": true, "le": true}
		for _, l := range labels {
			known[l], here[l] = true, true
		}
		for _, m := range regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`).FindAllStringSubmatch(s.matchers, -1) {
			if !here[m[1]] {
				t.Errorf("%s: got label %s of %s, want one of %v", where, m[1], s.name, labels)
			}
		}
	}
	for _, m := range regexp.MustCompile(`\b(?:by|on) ?\(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			if l = strings.TrimSpace(l); l != "" && !known[l] && !strings.Contains(expr, `, "`+l+`", `) {
				t.Errorf("%s: got %s, of which no metric here has the label %s", where, m[0], l)
			}
		}
	}
}

// alertRule is one of prometheus/alerts.yaml.
type alertRule struct {
	Record, Alert, Expr string
	Annotations         struct {
		Runbook string `yaml:"runbook_url"`
	}
}

func alerts(t *testing.T) (all []alertRule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal([]byte(readFile(t, "prometheus/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	all = slices.DeleteFunc(all, func(r alertRule) bool { return r.Record != "" })
	if len(all) < 25 {
		t.Fatalf("got %d alerts, want all of them", len(all))
	}
	return all
}
