package rules

import "fmt"

// Predict says by what means decisions come ahead of time, so that they are in force at the gates when the window is full and
// not one lag later. Each includes those before it: the lower of two is their minimum.
type Predict uint8

// The means of prediction. The zero value is PredictOff; rules of a file have PredictShares unless they say otherwise.
const (
	PredictOff    Predict = iota // a close is published when the limit was reached
	PredictEarly                 // a close is published before, for the time at which the window will be full
	PredictShares                // and callers that stay over their limit get a share of it at each gate
)

// Predictions returns the names of all means, in their order.
func Predictions() []string {
	return []string{PredictOff.String(), PredictEarly.String(), PredictShares.String()}
}

// String returns off, early or shares.
func (p Predict) String() string {
	switch p {
	case PredictOff:
		return "off"
	case PredictEarly:
		return "early"
	default:
		return "shares"
	}
}

// ParsePredict is the reverse of String. The error says which names there are.
func ParsePredict(name string) (Predict, error) {
	for p := PredictOff; p <= PredictShares; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	return PredictOff, fmt.Errorf("got %q, want one of %q", name, Predictions())
}
