package apiv1

import "time"

// Rules is the answer of GET /v1/rules: the rules of this analyzer, or a version that some analyzer has noted.
type Rules struct {
	ID      string `json:"id"` // 16 hexadecimal digits
	Text    string `json:"text"`
	Rules   []Rule `json:"rules"`
	Problem string `json:"problem,omitempty"` // why the text is not that of the id, or cannot be read
}

// Rule is one rule, as the command rules check shows it.
type Rule struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"` // 16 hexadecimal digits
	Callers   string   `json:"callers"`
	Match     string   `json:"match,omitempty"`
	Limit     int64    `json:"limit"`              // of each caller; the capacity, if there is one
	Capacity  int64    `json:"capacity,omitempty"` // of all callers together
	Protect   string   `json:"protect,omitempty"`  // the part of the capacity under which a caller is never closed, such as 0.1%
	Measure   string   `json:"measure"`
	Window    string   `json:"window"`
	Charge    string   `json:"charge,omitempty"` // arrival: a cost counts in the window in which its request arrived
	Hold      string   `json:"hold,omitempty"`   // what requests in flight hold of the limit
	Close     string   `json:"close,omitempty"`
	Mode      string   `json:"mode"`                     // as the file says
	Effective string   `json:"effective_mode,omitempty"` // of the rules that count now: shadow also if people have put the rule into shadow
	Brake     *Action  `json:"brake,omitempty"`          // the record that did that
	Predict   string   `json:"predict"`
	Overrides []string `json:"overrides,omitempty"` // with a capacity, the weights
}

// RulesVersions is the answer of GET /v1/rules/versions: the versions that analyzers have noted, the newest first.
type RulesVersions struct {
	Versions []RulesVersion `json:"versions"`
}

// RulesVersion is one version of the rules, and who has counted by it first.
type RulesVersion struct {
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`
	Author string    `json:"author"`
	Reason string    `json:"reason"` // the name of its file
	Offset int64     `json:"offset"` // in the control topic
	InUse  bool      `json:"in_use"` // by this analyzer

	Partitions []int `json:"partitions,omitempty"` // whose owners count by it, as their newest heartbeats say
}

// RulesDiff is the answer of GET /v1/rules/diff: what differs between two versions.
type RulesDiff struct {
	From      string     `json:"from"` // id of the version that is left, 16 hexadecimal digits
	To        string     `json:"to"`   // id of the version that is taken over
	Same      bool       `json:"same"` // one id: the versions mean the same
	Rules     []RuleDiff `json:"rules"`
	Unchanged int        `json:"unchanged"`           // rules that are in both, and say the same
	Reordered bool       `json:"reordered,omitempty"` // the rules that are in both have another order
}

// What a RuleDiff says in Change.
const (
	DiffAdded   = "added"
	DiffRemoved = "removed"
	DiffChanged = "changed"
)

// What a RuleDiff says in Counts.
const (
	CountsKept       = "kept"             // the rule has the same shape
	CountsOfMatching = "kept_of_matching" // those of callers that its pattern still matches; the others are dropped
	CountsStart      = "start_at_zero"    // the rule is new, or counts something else than before
	CountsDropped    = "dropped"          // and what the rule had closed opens
)

// RuleDiff is a rule that is not the same in both versions.
type RuleDiff struct {
	Rule      string         `json:"rule"`
	Change    string         `json:"change"` // added, removed or changed
	Counts    string         `json:"counts"` // kept, kept_of_matching, start_at_zero or dropped
	Fields    []FieldDiff    `json:"fields,omitempty"`
	Overrides []OverrideDiff `json:"overrides,omitempty"` // sorted by whom they are for
}

// FieldDiff is a field of a rule that differs. Empty is a field that is not set.
type FieldDiff struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// OverrideDiff is an override that differs: a limit, unlimited, or a weight. Empty is an override that is not there.
type OverrideDiff struct {
	Of     string `json:"of"` // the id, or the network
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// RulesCheck is the body of POST /v1/rules/check.
type RulesCheck struct {
	Rules string `json:"rules"` // the text of a rules file
}

// RulesVerdict is the answer of POST /v1/rules/check.
type RulesVerdict struct {
	Valid    bool     `json:"valid"`
	ID       string   `json:"id,omitempty"`
	Rules    []Rule   `json:"rules,omitempty"`
	Errors   []string `json:"errors,omitempty"`   // with line and column
	Warnings []string `json:"warnings,omitempty"` // of what is allowed but seldom meant
}
