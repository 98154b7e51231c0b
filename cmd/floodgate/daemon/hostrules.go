package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/509da70d/floodgate/analyzer/rules"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/cmd/floodgate/option"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/atomicfile"
)

// proposal is the rules that a host starts with.
const proposal = `# These rules are a proposal: they count each address, and block nobody. "floodgate rules" checks a change, and serve reads the
# file again when it changes. When you have seen whom they would close, remove "mode: shadow".
version: 1
rules:
  - {name: per-minute, callers: ip, limit: 300, window: 1m, mode: shadow}
  - {name: per-hour, callers: ip, limit: 3000, window: 1h, mode: shadow}
`

// openRules reads the rules. Without a file in the data directory, it writes a proposal there.
func (c *serveConfig) openRules(logger *slog.Logger) (*rules.Set, error) {
	if c.rules == option.LocalRules(c.data) {
		if _, err := os.Stat(c.rules); errors.Is(err, fs.ErrNotExist) {
			if err := atomicfile.Write(c.rules, []byte(proposal)); err != nil {
				return nil, fmt.Errorf("write a proposal of rules: %w", err)
			}
			logger.Warn("wrote a proposal of rules, which block nobody: edit it", "file", c.rules)
		}
	}
	set, err := c.mapping.IDs.Rules(c.rules)
	if err != nil {
		return nil, command.Usagef("--rules: %w", err)
	}
	return set, nil
}

// changeRules makes the analyzer count by other rules.
func (h *host) changeRules(set *rules.Set) {
	h.warnOfKinds(set)
	h.analyzer.SetRules(set)
}

// warnOfKinds warns of rules that count nobody, because no log has callers of their kind.
func (h *host) warnOfKinds(set *rules.Set) {
	kinds := *h.kinds.Load()
	for _, r := range set.Rules {
		if !slices.Contains(kinds, r.Kind) {
			h.logger.Warn("a rule counts nobody: nothing that is read has such callers; "+h.config.wayToCount(r.Kind), "rule", r.Name, "callers", r.Kind, "read", kinds)
		}
	}
}

// wayToCount says what lets logs and proxies have callers of a kind that they do not have.
func (c *serveConfig) wayToCount(kind string) string {
	switch {
	case kind == schemas.KindASN && !c.mapping.IDs.HasASN():
		return "see --asn-file"
	case c.mapping.Path == "" && (kind == schemas.KindNet || kind == schemas.KindASN):
		return "start serve again, and they have"
	}
	return "see callers in the file of --mapping, or --callers with --record"
}

// countNetworks lets logs and proxies have callers of kinds net and asn if rules count them.
func (c *serveConfig) countNetworks(set *rules.Set) {
	for _, kind := range c.mapping.Count(set) {
		if !slices.Contains(c.recordedKinds(), kind) {
			c.callers = append(c.callers, kind+"="+kind)
		}
	}
}

// recordedKinds returns the kinds of the callers that proxies ask about.
func (c *serveConfig) recordedKinds() []string {
	kinds := []string{schemas.KindIP}
	for _, text := range c.callers {
		kind, _, _ := strings.Cut(text, "=")
		kinds = append(kinds, kind)
	}
	return kinds
}
