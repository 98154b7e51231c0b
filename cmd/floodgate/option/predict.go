package option

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/fold"
	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// maxLagCap bounds --predict-lag-cap, in windows.
const maxLagCap = 10

// Predict are the flags that say how far decisions may come ahead of time.
type Predict struct {
	LagCap float64

	most predictFlag
}

// Add adds the flags to a subcommand.
func (f *Predict) Add(cmd *cobra.Command) {
	f.most = predictFlag(rules.PredictShares)
	cmd.Flags().Var(&f.most, "predict", strings.Join(rules.Predictions(), ", ")+": the most that any rule may predict by; predict in the rules file can say less for a rule")
	cmd.Flags().Float64Var(&f.LagCap, "predict-lag-cap", fold.DefaultPredictLagCap, "the largest lag at which a rule predicts, as a share of its window")
	command.Words(cmd, "predict", rules.Predictions()...)
}

// Check returns a usage error if the flags are invalid.
func (f *Predict) Check() error {
	if !(f.LagCap > 0 && f.LagCap <= maxLagCap) {
		return command.Usagef("--predict-lag-cap: got %v, want more than 0, and at most %d", f.LagCap, maxLagCap)
	}
	return nil
}

// Most is the most that any rule may predict by.
func (f *Predict) Most() rules.Predict { return rules.Predict(f.most) }

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
