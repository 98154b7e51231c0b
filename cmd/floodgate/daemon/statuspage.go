package daemon

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// statusPage answers GET /status of an analyzer, for people and scripts.
type statusPage struct {
	of atomic.Pointer[analyzer.Analyzer]
}

// analyzerStatus is the answer, as JSON.
type analyzerStatus struct {
	Ready      bool              `json:"ready"`
	Rules      rulesStatus       `json:"rules"`
	Partitions []partitionStatus `json:"partitions"`
}

type rulesStatus struct {
	ID      string   `json:"id"` // as rules check prints it
	Count   int      `json:"count"`
	Refused string   `json:"refused,omitempty"` // why the newest version of the file is not used
	Unused  []string `json:"unused,omitempty"`  // what is said of each rule without effect
}

type partitionStatus struct {
	Partition int    `json:"partition"`
	State     string `json:"state"`
	Next      int64  `json:"next"`
	Requests  uint64 `json:"requests"`
	Closed    int64  `json:"closed"`
	InForce   int    `json:"controls_in_force"`    // control records in force
	Control   int64  `json:"control"`              // the next record of the topic of control to be applied
	Trouble   string `json:"no_control,omitempty"` // why the topic of control cannot be read
}

// show makes the page show an analyzer, in place of the one before.
func (p *statusPage) show(a *analyzer.Analyzer) { p.of.Store(a) }

// ServeHTTP implements http.Handler.
func (p *statusPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a := p.of.Load()
	if a == nil {
		http.Error(w, "waiting for Kafka", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = printable.JSON(w).Encode(statusOf(a, time.Now())) // fails if the client does not wait any more
}

// statusOf returns the status of an analyzer at now.
func statusOf(a *analyzer.Analyzer, now time.Time) analyzerStatus {
	in := a.RulesStatus(now)
	s := analyzerStatus{Ready: a.Ready(now), Rules: rulesStatus{ID: fmt.Sprintf("%016x", in.Set.ID()), Count: len(in.Set.Rules)}}
	if in.Refused != nil {
		s.Rules.Refused = in.Refused.Error()
	}
	for _, u := range in.Unused {
		s.Rules.Unused = append(s.Rules.Unused, u.String())
	}
	for _, o := range a.Stats() {
		p := partitionStatus{
			Partition: o.Partition, State: o.State.String(), Next: o.Next, Requests: o.Fold.Requests, Closed: o.Publish.InForce,
			InForce: o.Fold.InForce, Control: o.Control.Next,
		}
		if o.Control.Trouble != nil {
			p.Trouble = o.Control.Trouble.Error()
		}
		s.Partitions = append(s.Partitions, p)
	}
	return s
}
