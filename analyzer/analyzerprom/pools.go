package analyzerprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/pool"
	"github.com/509da70d/floodgate/schemas/metric"
)

// poolGauge is a number of a pool, which only its home knows.
type poolGauge struct {
	desc  *prometheus.Desc
	value func(p *fold.PoolStats) float64
}

type poolGauges []poolGauge

func newPools() poolGauges {
	of := func(name, help string, value func(p *fold.PoolStats) float64) poolGauge {
		return poolGauge{metric.Desc(name, help, "rule"), value}
	}
	return poolGauges{
		of("pool_demand", "Requests that all callers of a rule with a capacity asked for in the last window.",
			func(p *fold.PoolStats) float64 { return float64(p.Level.Asked) }),
		of("pool_capacity", "Requests that all callers of a rule may make in a window.",
			func(p *fold.PoolStats) float64 { return float64(p.Capacity) }),
		of("pool_level", "How many requests a caller of weight 1 may make in a window. It is 0 while nobody is limited.",
			func(p *fold.PoolStats) float64 { return float64(p.Level.Level) / pool.Unit }),
		of("pool_callers_above", "How many callers ask for more than the level, approximately. It is 0 while nobody is limited.",
			func(p *fold.PoolStats) float64 { return float64(p.Level.Above) }),
		of("pool_protected", "It is 1 while the level is the lowest that the field protect of the rule allows.",
			func(p *fold.PoolStats) float64 { return metric.Truth(p.Protected) }),
		of("pool_tally_age_seconds", "The age, in log time, of the oldest tally. Each partition with callers has one.",
			func(p *fold.PoolStats) float64 { return time.Duration(p.TallyAge).Seconds() }),
	}
}

func (g poolGauges) descs() (list []*prometheus.Desc) {
	for i := range g {
		list = append(list, g[i].desc)
	}
	return list
}

// collect sends the pools whose homes are here.
func (g poolGauges) collect(out chan<- prometheus.Metric, owners []stats) {
	for i := range owners {
		for j := range owners[i].Fold.Pools {
			p := &owners[i].Fold.Pools[j]
			for k := range g {
				out <- prometheus.MustNewConstMetric(g[k].desc, prometheus.GaugeValue, g[k].value(p), p.Rule)
			}
		}
	}
}
