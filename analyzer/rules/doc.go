// Package rules loads the rule file, says exactly what is wrong with it, and watches it for changes.
//
//	rules.yaml ──Parse──▶ Set ──ForKind──▶ []*Rule ──Matches, Weight, LimitFor──▶ what an Entry counts under a Rule
//	           ◀─Error─┘   ▲
//	            line:col   └── Watcher: a change of the file, or a call of Reload
//
// Its nouns: a Rule says which callers are counted, which limit holds over which window, and how long a close lasts. A Set is
// all rules of a file; it does not change. A Watcher reports new versions of a file. A file with an error gives no Set, and
// the rules in use stay. A Set may come with warnings about things that are allowed but rarely intended.
//
// schemas/rules.schema.json describes the format, and editors can use it. Schema and loader agree on every file of
// testdata/rules, except for checks that a schema cannot express (the test lists them). Package document reads the YAML, and
// says which YAML is refused.
//
// Overrides and weights name callers in clear. Where ids are hashed with a secret (schemas.IDs.Hash), the loader hashes them at once, and
// Set.Text, which goes into Kafka, has the hashes. Patterns of such ids are refused.
//
// Everything has a bound: document.MaxFile, MaxRules, maxOverrides, MaxLimit and the others below.
//
// # Chosen input
//
// Operators write rules. Clients choose the ids and resources that are compared with them. That costs:
//   - Exact overrides are in a Go map, which is seeded. Networks are in a trie of bytes: an address is looked up in at most 4 steps,
//     or 16 for IPv6.
//   - Patterns: see package pattern.
//
// BenchmarkChosenInput measures the first.
package rules
