package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// Accuracy is the overshoot of the closes in one half of the demo that have ended, as shares of the limit.
type Accuracy struct {
	Predict string  `json:"predict"` // by what means decisions came ahead of time
	Closes  int     `json:"closes"`
	Mean    float64 `json:"mean"`
	Largest float64 `json:"largest"`
}

// add adds a close that has ended.
func (a *Accuracy) add(overshoot float64) {
	a.Mean = (a.Mean*float64(a.Closes) + overshoot) / float64(a.Closes+1)
	a.Closes++
	a.Largest = max(a.Largest, overshoot)
}

// String returns the figures in a few words.
func (a *Accuracy) String() string {
	return fmt.Sprintf("%.1f %% with predict: %s (%d closes)", 100*a.Mean, a.Predict, a.Closes)
}

// printAccuracy prints a line about each half that had closes.
func printAccuracy(out io.Writer, halves []Accuracy) {
	for i := range halves {
		if halves[i].Closes > 0 {
			fmt.Fprintf(out, "overshoot, mean of all closes: %s\n", &halves[i])
		}
	}
}

// predictedFrom says that closes from at on were predicted by the given means.
func (w *closeWatch) predictedFrom(at time.Time, by rules.Predict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halves = append(w.halves, half{from: at.UnixNano(), Accuracy: Accuracy{Predict: by.String()}})
}

// half is a part of the demo.
type half struct {
	Accuracy

	from int64 // Unix nanoseconds
}

// ended notes a close that has ended: when it began, and its overshoot. The caller holds w.mu.
func (w *closeWatch) ended(closeAt int64, overshoot float64) {
	for i := len(w.halves) - 1; i >= 0; i-- {
		if closeAt >= w.halves[i].from {
			w.halves[i].add(overshoot)
			return
		}
	}
}

// accuracy returns what is known of each half, together with the last closes, whose ends were never reported.
func (w *closeWatch) accuracy(last map[string]lastClose) (list []Accuracy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range last {
		w.ended(c.at, c.overshoot)
	}
	for _, h := range w.halves {
		list = append(list, h.Accuracy)
	}
	return list
}

// predictHalfway lets the analyzer predict from now on: it gets other rules, as when their file changes.
func (d *installation) predictHalfway(view *view) error {
	set, err := d.config.rulesWith(d.config.Predict)
	if err != nil {
		return err
	}
	d.rules = set
	d.closes.predictedFrom(time.Now(), d.config.Predict)
	d.analyzer.SetRules(set)
	view.say("from now on decisions come ahead of time: predict: %v instead of off", d.config.Predict)
	return nil
}
