package document

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Position is a place in a file. The zero value is its beginning.
type Position struct {
	Line   int // from 1
	Column int // from 1, in characters
}

func positionOf(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{Line: t.Position.Line, Column: t.Position.Column}
}

// Value is a node of a file. The zero value is no node, and only Valid and Position may be called on it.
type Value struct{ node ast.Node }

// Pair is a key of a mapping and its value.
type Pair struct {
	Key   string
	Value Value
	At    Position // of the key
}

// Valid reports whether there is a value.
func (v Value) Valid() bool { return v.node != nil }

// Position returns where the value begins.
func (v Value) Position() Position {
	switch n := v.node.(type) {
	case nil:
		return Position{}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return Value{n.Values[0]}.Position()
		}
	case *ast.MappingValueNode:
		return positionOf(n.Key.GetToken())
	}
	return positionOf(v.node.GetToken())
}

// Pairs returns the keys and values of a mapping, in the order of the file, and whether the value is a mapping. A key that
// is there twice is returned twice.
func (v Value) Pairs() ([]Pair, bool) {
	var nodes []*ast.MappingValueNode
	switch n := v.node.(type) {
	case *ast.MappingNode:
		nodes = n.Values
	case *ast.MappingValueNode:
		nodes = []*ast.MappingValueNode{n}
	default:
		return nil, false
	}
	pairs := make([]Pair, len(nodes))
	for i, n := range nodes {
		key := n.Key.GetToken()
		pairs[i] = Pair{Key: key.Value, Value: Value{n.Value}, At: positionOf(key)}
	}
	return pairs, true
}

// List returns the values in a list, and whether the value is a list.
func (v Value) List() ([]Value, bool) {
	n, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return nil, false
	}
	list := make([]Value, len(n.Values))
	for i, node := range n.Values {
		list[i] = Value{node}
	}
	return list, true
}

// Text returns a string, and whether the value is one. A number or true is none, unless it is quoted.
func (v Value) Text() (string, bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// Integer returns a decimal integer, and whether the value is one. One with a leading zero is refused: YAML reads 010 as 8,
// and a person means 10.
func (v Value) Integer() (int64, bool) {
	n, ok := v.node.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	text := strings.ReplaceAll(n.GetToken().Value, "_", "")
	if digits := strings.TrimLeft(text, "+-"); len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	i, err := strconv.ParseInt(text, 10, 64)
	return i, err == nil
}

// Number returns a decimal number, and whether the value is one. It is finite: .inf and .nan are refused.
func (v Value) Number() (float64, bool) {
	if i, ok := v.Integer(); ok {
		return float64(i), true
	}
	if n, ok := v.node.(*ast.FloatNode); ok {
		return n.Value, true
	}
	return 0, false
}

// Boolean returns true or false, and whether the value is one of them.
func (v Value) Boolean() (b, ok bool) {
	n, ok := v.node.(*ast.BoolNode)
	return ok && n.Value, ok
}

// Source returns a value that is neither a mapping nor a list as the file has it, without quotes.
func (v Value) Source() string { return v.node.GetToken().Value }

// String returns what the value is, for a message that says "got …". It is short and has no control characters.
func (v Value) String() string {
	switch n := v.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return strconv.Quote(Clip(n.Value))
	case *ast.LiteralNode:
		return strconv.Quote(Clip(n.Value.Value))
	default:
		return printable(v.Source())
	}
}

// printable returns a text of the file in a form that does nothing to a terminal or a log.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		text = strings.Trim(strconv.Quote(text), `"`)
	}
	return Clip(text)
}

// Clip returns the beginning of a text that is too long for a message: at most 120 bytes, and no character is cut in two.
func Clip(text string) string {
	const maxBytes = 120
	if len(text) <= maxBytes {
		return text
	}
	end := maxBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
