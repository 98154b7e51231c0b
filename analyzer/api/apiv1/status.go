package apiv1

import "time"

// Status is the answer of GET /v1/status: what all analyzers do, as their heartbeats say, and what this one does.
type Status struct {
	Now        time.Time         `json:"now"`
	Version    string            `json:"version"`
	Who        string            `json:"who"`                      // the name of the token that asks
	Role       string            `json:"role"`                     // the role of that token
	Tokens     bool              `json:"tokens"`                   // false: loopback needs none
	TokensBad  string            `json:"tokens_refused,omitempty"` // why the newest file of tokens is not in use
	API        string            `json:"api,omitempty"`            // the address of this analyzer in its heartbeats
	Kafka      KafkaStatus       `json:"kafka"`
	Brakes     []Action          `json:"brakes"`      // mode records in force, or that soon are: these rules block nobody
	Board      BoardStatus       `json:"board"`       // what this analyzer knows of decisions
	Control    ControlStatus     `json:"control"`     // and of the control topic
	Rules      RulesStatus       `json:"rules"`       // that this analyzer counts by
	RulesAgree bool              `json:"rules_agree"` // all running owners count by the same rules
	Partitions []PartitionStatus `json:"partitions"`
}

// KafkaStatus says whether brokers answer this analyzer. While none does, it counts nothing, and what it decides reaches no gate.
type KafkaStatus struct {
	Reachable bool      `json:"reachable"`
	Since     time.Time `json:"since,omitzero"`    // since when no broker answers
	Brokers   []string  `json:"brokers,omitempty"` // that were tried
	Error     string    `json:"error,omitempty"`
}

// BoardStatus says how much is known of the decisions in force.
type BoardStatus struct {
	Ready      bool  `json:"ready"`
	Decisions  int   `json:"decisions"`
	Incomplete []int `json:"incomplete,omitempty"` // partitions of which decisions may be missing
}

// ControlStatus says how much is known of what was decided by hand.
type ControlStatus struct {
	Ready bool  `json:"ready"`
	Next  int64 `json:"next"` // the offset of the next record
}

// RulesStatus is the rules that one analyzer counts by.
type RulesStatus struct {
	ID      string   `json:"id"` // 16 hexadecimal digits
	Count   int      `json:"count"`
	Refused string   `json:"refused,omitempty"` // why the newest version of the file is not used
	Unused  []string `json:"unused,omitempty"`  // what is said of each rule without effect
	Modes   []Mode   `json:"modes"`             // of each rule
}

// Mode is whether a rule blocks callers: enforce or shadow.
type Mode struct {
	Rule      string `json:"rule"`
	File      string `json:"file"`      // as its file says
	Effective string `json:"effective"` // as holds now: people may have put it into shadow
}

// PartitionStatus is one partition.
type PartitionStatus struct {
	PartitionView

	API       string `json:"api,omitempty"`     // of its owner
	RulesFrom int64  `json:"rules_from"`        // the offset of requests since which RulesID counts
	Here      bool   `json:"here"`              // this analyzer owns it
	Control   int64  `json:"control"`           // the next record of the control topic that its owner applies
	Closed    int64  `json:"closed,omitempty"`  // of an owner here: closures in force
	Counted   uint64 `json:"counted,omitempty"` // of an owner here: requests counted since it started
}
