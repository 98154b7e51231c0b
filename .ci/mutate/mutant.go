package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one change of one operator or constant.
type mutant struct {
	file      string // as go list names it, in the package's folder
	line      int
	from, to  int    // bytes of the file that the change replaces
	was, want string // what stands there, and what replaces it
	text      string // the line without its indentation
}

// name says what the change is. It stays the same while lines above it come and go.
func (m *mutant) name() string {
	return fmt.Sprintf("%s | %s | %s -> %s", m.file, m.text, m.was, m.want)
}

// operators says what replaces an operator: a comparison its neighbour at the boundary and its opposite, others their inverse.
func operators() map[token.Token][]token.Token {
	return map[token.Token][]token.Token{
		token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
		token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
		token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND},
		token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
		token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND}, token.AND_NOT: {token.AND}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
		token.INC: {token.DEC}, token.DEC: {token.INC},
		token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN}, token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
		token.OR_ASSIGN: {token.AND_ASSIGN}, token.AND_ASSIGN: {token.OR_ASSIGN}, token.XOR_ASSIGN: {token.AND_ASSIGN},
		token.SHL_ASSIGN: {token.SHR_ASSIGN}, token.SHR_ASSIGN: {token.SHL_ASSIGN}, token.BREAK: {token.CONTINUE}, token.CONTINUE: {token.BREAK},
	}
}

// finder collects the mutants of one file.
type finder struct {
	fset  *token.FileSet
	file  string
	text  []byte
	lines []string
	found []mutant

	operators map[token.Token][]token.Token
}

// mutants returns those of a file, in their order.
func mutants(dir, file string) ([]mutant, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	f := &finder{fset: token.NewFileSet(), file: file, text: text, lines: strings.Split(string(text), "\n"), operators: operators()}
	tree, err := parser.ParseFile(f.fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(tree, f.visit)
	slices.SortStableFunc(f.found, func(a, b mutant) int { return a.from - b.from })
	return f.found, nil
}

// visit adds the mutants of a node. It passes over what changes no result: imports, tags of fields, and the sizes that make is given.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.CallExpr:
		name, ok := n.Fun.(*ast.Ident)
		return !ok || name.Name != "make" && name.Name != "panic"
	case *ast.BinaryExpr:
		f.operator(n.OpPos, n.Op)
	case *ast.AssignStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.IncDecStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.BranchStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.add(n.OpPos, "!", "")
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
			f.add(n.ValuePos, n.Value, strconv.FormatInt(v+1, 10))
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			f.add(n.NamePos, "true", "false")
		case "false":
			f.add(n.NamePos, "false", "true")
		}
	}
	return true
}

func (f *finder) operator(at token.Pos, op token.Token) {
	for _, other := range f.operators[op] {
		f.add(at, op.String(), other.String())
	}
}

func (f *finder) add(at token.Pos, was, want string) {
	p := f.fset.Position(at)
	f.found = append(f.found, mutant{
		file: f.file, line: p.Line, from: p.Offset, to: p.Offset + len(was), was: was, want: want, text: strings.TrimSpace(f.lines[p.Line-1]),
	})
}

// apply returns the file's text with the change.
func (m *mutant) apply(text []byte) []byte {
	return slices.Concat(text[:m.from], []byte(m.want), text[m.to:])
}
