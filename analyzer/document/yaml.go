package document

import (
	"bytes"
	"errors"
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

// parse returns the node of the one document in data, or reports why there is none and returns nil.
func (d *Document) parse(data []byte, want string) ast.Node {
	if len(data) > MaxFile {
		d.Errorf(Position{}, "got more than %d bytes, want at most that", MaxFile)
		return nil
	}
	text := string(bytes.TrimPrefix(data, []byte("\ufeff"))) // some editors write it
	if d.checkEncoding(text); len(d.errs) > 0 {
		return nil
	}
	text = strings.ReplaceAll(text, "\r\n", "\n") // the lexer counts such a line end behind a comment twice
	tokens := lexer.Tokenize(text)
	if d.checkTokens(tokens); len(d.errs) > 0 {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var at Position
		msg := "not YAML"
		if known := yaml.Error(nil); errors.As(err, &known) {
			msg = known.GetMessage()
			at = positionOf(known.GetToken())
		}
		d.Errorf(at, "%s", printable(msg))
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			d.Errorf(Value{doc.Body}.Position(), "got a second document, want one")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		d.Errorf(Position{}, "got nothing, want %s", want)
	}
	return body
}

// checkEncoding reports the first byte that is not UTF-8. The lexer would put another character in its place, and the text
// would then not be what the file says.
func (d *Document) checkEncoding(text string) {
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
	at := Position{Line: 1 + strings.Count(before, "\n"), Column: 1 + utf8.RuneCountInString(before[line:])}
	d.Errorf(at, "got byte 0x%02x, want UTF-8", text[bad])
}

// checkTokens reports YAML that is not plain. It runs before the parser, which would follow any nesting.
func (d *Document) checkTokens(tokens token.Tokens) {
	if len(tokens) > maxTokens {
		d.Errorf(positionOf(tokens[maxTokens]), "got more than %d tokens of YAML, want at most that", maxTokens)
		return
	}
	var flow, dashes, line int
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType:
			d.Errorf(positionOf(t), "got %s, want plain YAML: no anchors, aliases, tags, merges, complex keys or directives", t.Value)
			return
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType:
			dashes++
		}
		if flow > maxFlow || dashes > maxDashes {
			d.Errorf(positionOf(t), "nested too deeply")
			return
		}
	}
}
