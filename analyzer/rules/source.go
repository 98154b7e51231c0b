package rules

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on the YAML itself, which keep the parser's time and stack small.
const (
	maxErrors = 50
	maxTokens = 100_000
	maxFlow   = 8 // brackets within brackets
	maxDashes = 4 // sequences within sequences on a line
)

// source is a file while it is read. It collects all that is wrong instead of stopping at the first.
type source struct {
	file     string
	errs     []*Error
	warnings []*Error
}

func (s *source) errorf(at *token.Position, format string, args ...any) {
	s.errs = append(s.errs, s.locate(at, format, args...))
}

func (s *source) warnf(at *token.Position, format string, args ...any) {
	s.warnings = append(s.warnings, s.locate(at, format, args...))
}

func (s *source) locate(at *token.Position, format string, args ...any) *Error {
	e := &Error{File: s.file, Line: 1, Column: 1, Msg: fmt.Sprintf(format, args...)}
	if at != nil {
		e.Line, e.Column = max(at.Line, 1), max(at.Column, 1)
	}
	return e
}

// document parses data into the node of its one document, or returns nil.
func (s *source) document(data []byte) ast.Node {
	if len(data) > MaxFile {
		s.errorf(nil, "got more than %d bytes, want at most that", MaxFile)
		return nil
	}
	text := string(bytes.TrimPrefix(data, []byte("\ufeff"))) // as some editors begin a file
	if s.encoding(text); len(s.errs) > 0 {
		return nil
	}
	tokens := lexer.Tokenize(text)
	if s.refuse(tokens); len(s.errs) > 0 {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at *token.Position
		msg := "not YAML"
		if known := yaml.Error(nil); errors.As(err, &known) {
			msg = known.GetMessage()
			if t := known.GetToken(); t != nil {
				at = t.Position
			}
		}
		s.errorf(at, "%s", printable(msg))
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			s.errorf(position(doc.Body), "got a second document, want one")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		s.errorf(nil, "got nothing, want version and rules")
	}
	return body
}

// encoding reports the first byte that is not UTF-8. The lexer would put another character in its place, and an id with it
// would be nobody's.
func (s *source) encoding(text string) {
	if utf8.ValidString(text) {
		return
	}
	bad := 0
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			bad = i
			break
		}
	}
	before := text[:bad]
	line := strings.LastIndexByte(before, '\n') + 1
	at := &token.Position{Line: 1 + strings.Count(before, "\n"), Column: 1 + utf8.RuneCountInString(before[line:])}
	s.errorf(at, "got byte 0x%02x, want UTF-8", text[bad])
}

// refuse reports the YAML that rule files don't have. It runs before the parser, which follows any nesting.
func (s *source) refuse(tokens token.Tokens) {
	if len(tokens) > maxTokens {
		s.errorf(tokens[maxTokens].Position, "got more than %d tokens of YAML, want at most that", maxTokens)
		return
	}
	var flow, dashes, line int
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType:
			s.errorf(t.Position, "got %s, want plain YAML: no anchors, aliases, tags, merges, complex keys or directives", t.Value)
			return
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType:
			dashes++
		}
		if flow > maxFlow || dashes > maxDashes {
			s.errorf(t.Position, "nested too deeply")
			return
		}
	}
}

// pairs returns the keys and values of a mapping.
func pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// position returns where a node begins.
func position(n ast.Node) *token.Position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return position(n.Values[0])
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken().Position
	}
	if t := n.GetToken(); t != nil {
		return t.Position
	}
	return nil
}

// describe returns what a node is, for "got …".
func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return strconv.Quote(clip(n.Value))
	case *ast.LiteralNode:
		return strconv.Quote(clip(n.Value.Value))
	default:
		return printable(n.GetToken().Value)
	}
}

// printable returns a text from the file so that it does nothing to a terminal or a log.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		text = strings.Trim(strconv.Quote(text), `"`)
	}
	return clip(text)
}

// clip returns the beginning of a text that is too long for a message.
func clip(text string) string {
	const most = 120
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) { // no character is cut in two
		end--
	}
	return text[:end] + "…"
}
