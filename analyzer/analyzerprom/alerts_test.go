package analyzerprom_test

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/analyzerprom"
)

// families returns the labels of each metric, as a registry that checks everything gathers them.
func families(t *testing.T, c prometheus.Collector) map[string][]string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := make(map[string][]string)
	for _, f := range gathered {
		labels[f.GetName()] = nil
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels[f.GetName()] = append(labels[f.GetName()], l.GetName())
		}
	}
	return labels
}

// TestLabelsAreFew: a metric has a partition, or a rule, and one label more at most, so that people can sum over the rest and the number
// of series stays small. The lag is the only histogram by partition.
func TestLabelsAreFew(t *testing.T) {
	for name, labels := range families(t, analyzerprom.New(analyzerOf{full()}.Stats)) {
		if slices.Contains(labels, "partition") && slices.Contains(labels, "rule") || len(labels) > 2 {
			t.Errorf("%s: got labels %v, want two at most, and not both partition and rule", name, labels)
		}
		if slices.ContainsFunc(labels, func(l string) bool {
			return !slices.Contains([]string{"partition", "rule", "mode", "result", "kind", "reason", "state", "action", "type"}, l)
		}) {
			t.Errorf("%s: got labels %v, want none that callers could choose", name, labels)
		}
	}
}
