// Package rules loads the rule file, says exactly what is wrong with it, and watches it for changes.
//
//	rules.yaml ──Parse──▶ Set ──ForKind──▶ []*Rule ──Matches, Weight, LimitFor──▶ what an Entry counts under a Rule
//	           ◀─Error─┘   ▲
//	            line:col   └── Watcher: a change of the file, or a call of Reload
//
// Its nouns: a Rule says which callers, what limit over what window, and what closing does; a Set is all the rules of a
// file, immutable once parsed; an Error is one thing that is wrong, at a line and a column. A file with an error gives
// no Set: the rules that run stay. Warnings come with a Set; they point at what is allowed but may not be meant.
//
// The format is described by schemas/rules.schema.json, which editors can use. Schema and loader agree on every file of
// testdata/rules, but for checks that a schema can't express (the test lists them).
//
// The YAML is plain: no anchors, aliases, tags, merge keys or complex keys, one document, decimal integers. What a rule
// does can be read where it stands, and no file can be small and its meaning large.
//
// Everything has a limit: MaxFile, MaxRules, MaxOverrides, MaxLimit and the others below.
package rules
