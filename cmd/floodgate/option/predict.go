package option

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
)

// Predict is --predict: how far decisions may come ahead of time.
type Predict struct{ maxWay predictFlag }

// Add adds the flag to a subcommand.
func (f *Predict) Add(cmd *cobra.Command) {
	f.maxWay = predictFlag(rules.PredictShares)
	cmd.Flags().Var(&f.maxWay, "predict", strings.Join(rules.Predictions(), ", ")+": the most that any rule may predict by; predict in the rules file can say less for a rule")
	command.Words(cmd, "predict", rules.Predictions()...)
}

// MaxWay returns the strongest means of prediction that any rule may use.
func (f *Predict) MaxWay() rules.Predict { return rules.Predict(f.maxWay) }

// predictFlag is --predict.
type predictFlag rules.Predict

func (p *predictFlag) String() string { return rules.Predict(*p).String() }

func (p *predictFlag) Set(s string) error {
	way, err := rules.ParsePredict(s)
	if err == nil {
		*p = predictFlag(way)
	}
	return err
}

func (p *predictFlag) Type() string { return "means" }
