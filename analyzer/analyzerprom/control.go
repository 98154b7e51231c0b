package analyzerprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/override"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/metric"
)

// newInForce describes the control records in force.
func newInForce() *prometheus.Desc {
	return metric.Desc("control_in_force", "Control records in force in the partitions of this analyzer, by action. Those of action mode hold in every partition, and are counted once.", "action")
}

// collectInForce sends the control records in force in all partitions together, and nothing if there are no partitions.
func collectInForce(out chan<- prometheus.Metric, desc *prometheus.Desc, owners []stats) {
	var all override.Counts
	for i := range owners {
		for action, n := range owners[i].Fold.InForceBy {
			if schemas.ControlAction(action) == schemas.ControlMode {
				all[action] = max(all[action], n)
			} else {
				all[action] += n
			}
		}
	}
	for _, a := range []schemas.ControlAction{schemas.ControlClose, schemas.ControlOpen, schemas.ControlLimit, schemas.ControlMode} {
		if len(owners) > 0 {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(all[a]), a.String())
		}
	}
}

// newBrakes describes the rules that people have put into shadow mode.
func newBrakes() *prometheus.Desc {
	return metric.Desc("brake_since_seconds", "Unix time since which a control record of action mode has the rule in shadow, whatever its file says. Only rules with such a record have it.", "rule")
}

// collectBrakes sends the rules that people have put into shadow mode. Of several partitions, the one that knew it first counts.
func collectBrakes(out chan<- prometheus.Metric, desc *prometheus.Desc, owners []stats) {
	since := make(map[string]int64)
	for i := range owners {
		for _, r := range owners[i].Fold.Rules {
			if before, ok := since[r.Rule]; r.ByHand != 0 && (!ok || r.ByHand < before) {
				since[r.Rule] = r.ByHand
			}
		}
	}
	for rule, at := range since {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(at/1e6)/1e3, rule)
	}
}

// controlNumbers are the metrics about control records without a further label.
func controlNumbers() metric.Numbers[stats] {
	return metric.Numbers[stats]{
		counter("control_read_again_total", "How often the topic of control was made anew or lost its end, and was read from its start.",
			func(s *stats) uint64 { return s.Control.Again }),
		gauge("control_lag_records", "Records of the topic of control that are not applied yet.",
			func(s *stats) float64 { return float64(max(0, s.Control.End-s.Control.Next)) }),
		gauge("control_unreadable", "1 while the topic of control cannot be read: nobody can close or open callers by hand.",
			func(s *stats) float64 { return metric.Truth(s.Control.Trouble != nil) }),
	}
}

// eventNumbers are the metrics about the topic of events without a further label.
func eventNumbers() metric.Numbers[stats] {
	return metric.Numbers[stats]{
		gauge("events_pending", "Events that the topic of events has not acknowledged.",
			func(s *stats) float64 { return float64(s.Events.Pending) }),
		counter("events_lost_total", "Events that did not fit while the topic of events took none: a gap event stands for them.",
			func(s *stats) uint64 { return s.Events.Lost }),
	}
}
