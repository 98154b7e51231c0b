package gateprom_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/gateprom"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
)

// A server that shows its gates beside its other metrics.
func Example() {
	set := gate.New(gate.Options{Logger: slog.New(slog.DiscardHandler)})
	rec := record.New(record.Options{})
	link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: []string{"127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)}) // there is none
	if err != nil {
		fmt.Println(err)
		return
	}
	defer link.Close()

	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(gateprom.New(gateprom.Options{Set: set, Link: link}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	now := time.Now()
	set.Apply([]schemas.Decision{{ // as the link does
		Rule: "per-key", Caller: schemas.Caller{Kind: "key", ID: "abc"}, Mode: schemas.ModeEnforce,
		CloseAt: now.UnixNano(), Until: now.Add(time.Minute).UnixNano(),
	}})
	scrape(mux, "floodgate_gate_closed_callers", "floodgate_gate_mode", "floodgate_link_up")
	// Output:
	// floodgate_gate_closed_callers{kind="key",mode="enforce"} 1
	// floodgate_gate_closed_callers{kind="key",mode="shadow"} 0
	// floodgate_gate_mode{mode="enforce"} 1
	// floodgate_gate_mode{mode="off"} 0
	// floodgate_gate_mode{mode="shadow"} 0
	// floodgate_link_up{} 0
}

// scrape prints the series of some gauges as Prometheus would read them.
func scrape(h http.Handler, names ...string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		fmt.Println(err)
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		for _, m := range families[name].GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += fmt.Sprintf(",%s=%q", l.GetName(), l.GetValue())
			}
			fmt.Printf("%s{%s} %v\n", name, labels[min(1, len(labels)):], m.GetGauge().GetValue())
		}
	}
}
