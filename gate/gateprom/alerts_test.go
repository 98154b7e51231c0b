package gateprom_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/gate/gateprom"
)

// An alert on a metric that is not there is never raised.
func TestAlertsNameMetricsThatAreThere(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(gateprom.New(all()))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{} // of a metric
	for _, f := range families {
		labels[f.GetName()] = nil
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels[f.GetName()] = append(labels[f.GetName()], l.GetName())
		}
	}
	used := regexp.MustCompile(`(floodgate_(?:gate|link|recorder)_\w+?)(?:_bucket)?(?:\{(\w+)[=!]|\W)`).FindAllStringSubmatch(string(rules), -1)
	if len(used) < 8 {
		t.Fatalf("got %v, want the metrics of 8 alerts or more", used)
	}
	for _, u := range used {
		have, ok := labels[u[1]]
		if !ok {
			t.Errorf("alerts.yaml uses %s, which is no metric of gateprom", u[1])
		}
		if u[2] != "" && !strings.Contains(strings.Join(have, " "), u[2]) {
			t.Errorf("alerts.yaml uses %s by %s, which has labels %v", u[1], u[2], have)
		}
	}
}
