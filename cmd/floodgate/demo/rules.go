package demo

import (
	"fmt"

	"github.com/509da70d/floodgate/analyzer/rules"
)

// Names of the rules.
const (
	keyRule     = "per-key"
	addressRule = "per-ip"
	auditRule   = "all-requests"
)

// rulesFile limits each key, or all keys together. A second rule limits addresses, which the demo's servers do not report: it is for people who ask what
// would pass. A third one counts every request, also blocked ones, for the audit; it is in shadow mode and nothing reaches its limit,
// so it closes nothing.
const rulesFile = `version: 1
rules:
  - {name: ` + keyRule + `, callers: key, %s}
  - {name: ` + addressRule + `, callers: ip, limit: 100, window: 1m}
  - {name: ` + auditRule + `, callers: key, limit: 1000000000000, window: 8760h, algorithm: fixed, count_blocked: true, mode: shadow}
`

// Rules returns the rules by which the analyzer counts at first, or what is wrong with Limit or Window.
func (c *Config) Rules() (*rules.Set, error) { return c.rulesWith(rules.PredictOff) }

func (c *Config) rulesWith(predict rules.Predict) (*rules.Set, error) {
	key := fmt.Sprintf("limit: %d, window: %s, predict: %v", c.Limit, c.Window, predict)
	if c.Fair {
		key = fmt.Sprintf("capacity: %d, window: %s", c.capacity(), c.Window)
	}
	return rules.Parse("demo", fmt.Appendf(nil, rulesFile, key))
}
