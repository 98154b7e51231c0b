// Package document reads small YAML files that people write: rules and mappings. It is strict, and it reports everything
// that is wrong with a file at once, each with its line and column.
//
//	bytes ──Parse──▶ Document ──Top──▶ Mapping ──Text, Integer, List …──▶ Go values
//	                     ▲                │
//	                     └────Errors──────┘  rules.yaml:7:12: limit: got 0, want 1 or more
//
// Its nouns: a Document is a file while it is read; it collects errors and warnings. A Mapping is a mapping in it, of which
// the caller names the fields that are known. A Value is one node. Each method of a Mapping reads one field. If the field
// is wrong, the method reports that to the Document and returns the value for an absent field. So the caller reads all
// fields in turn and calls Document.Err once at the end.
//
// The YAML is plain: UTF-8, one document, no anchors, aliases, tags, merge keys, complex keys or directives. Integers are
// decimal. A field stands in a mapping once. So the text of a file shows its whole meaning, and no small file expands to a
// large one. MaxFile bounds the bytes of a file; bounds on tokens and nesting keep the parser's time and stack small.
//
// One goroutine uses a Document and its Mappings.
package document
