package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
)

// maxLagCap bounds --predict-lag-cap, in windows.
const maxLagCap = 10

// predictFlags are the flags that say how far decisions may come ahead of time.
type predictFlags struct {
	most   predictFlag
	lagCap float64
}

func (f *predictFlags) add(flags *pflag.FlagSet) {
	f.most = predictFlag(rules.PredictShares)
	flags.Var(&f.most, "predict", strings.Join(rules.Predictions(), ", ")+": the most that any rule may predict by; predict in the rules file can say less for a rule")
	flags.Float64Var(&f.lagCap, "predict-lag-cap", fold.DefaultPredictLagCap, "the largest lag at which a rule predicts, as a share of its window")
}

func (f *predictFlags) check() error {
	if !(f.lagCap > 0 && f.lagCap <= maxLagCap) {
		return usagef("--predict-lag-cap: got %v, want more than 0, and at most %d", f.lagCap, maxLagCap)
	}
	return nil
}

// set sets what the flags say of a fold.
func (f *predictFlags) set(o *fold.Options) {
	o.Predict, o.PredictLagCap = rules.Predict(f.most), f.lagCap
}

// predictFlag is --predict.
type predictFlag rules.Predict

func (p *predictFlag) String() string { return rules.Predict(*p).String() }

func (p *predictFlag) Set(s string) error {
	most, err := rules.ParsePredict(s)
	if err == nil {
		*p = predictFlag(most)
	}
	return err
}

func (p *predictFlag) Type() string { return "means" }
