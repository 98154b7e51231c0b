package apiv1

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// types returns a value of each type that the API writes or reads, all zero.
func types() map[string]any {
	all := make(map[string]any)
	for _, v := range []any{
		Action{}, ActionAnswer{}, ActionList{}, At{}, BoardStatus{}, Busy{}, BusyCaller{}, ControlRecord{}, Caller{}, CallerLine{},
		CallerList{}, CallerState{}, CloseRequest{}, Closure{}, ControlStatus{}, DecisionEvent{}, DecisionList{}, DecisionView{}, Event{},
		EarlyClosure{}, Explanation{}, FieldDiff{}, GateComparison{}, Hold{}, KafkaStatus{}, Limit{}, LimitRequest{}, LimitSource(""), Mode{}, ModeRequest{}, OpenRequest{}, OverrideDiff{}, Part{},
		PartitionStatus{}, PartitionView{}, Pool{}, Problem{}, ResetRequest{}, Room{}, Rule{}, RuleDiff{}, RuleExplanation{}, RuleState{}, Rules{}, RulesCheck{}, RulesDiff{},
		RulesStatus{}, RulesVerdict{}, RulesVersion{}, RulesVersions{}, Series{}, Status{}, TryAnswer{}, TryCaller{}, TryRequest{}, TryRule{},
		Uncounted(""), UndoRequest{}, UndoneBy{}, Verdict(""),
	} {
		all[reflect.TypeOf(v).Name()] = v
	}
	return all
}

// source returns the declarations of this package, without its tests.
func source(t *testing.T) (decls []ast.Decl) {
	t.Helper()
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0) //nolint:staticcheck // syntax is all that is wanted
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range packages["apiv1"].Files {
		decls = append(decls, f.Decls...)
	}
	return decls
}

// TestNoTypeIsForgotten: all other tests go over types(), so a type that is not there would not be tested.
func TestNoTypeIsForgotten(t *testing.T) {
	var names []string
	for _, d := range source(t) {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			for _, s := range g.Specs {
				names = append(names, s.(*ast.TypeSpec).Name.Name)
			}
		}
	}
	slices.Sort(names)
	if have := slices.Sorted(maps.Keys(types())); !slices.Equal(have, names) {
		t.Errorf("got tests of %v\nwant those of all types: %v", have, names)
	}
}

// constants returns the values of the constants of a type, as the source has them: reflection cannot list them.
func constants(t *testing.T, of string) (values []string) {
	t.Helper()
	for _, d := range source(t) {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			name, typed := v.Type.(*ast.Ident)
			for i, x := range v.Values {
				if lit, ok := x.(*ast.BasicLit); ok && (typed && name.Name == of || !typed && of != "" && strings.HasPrefix(v.Names[i].Name, of)) {
					values = append(values, strings.Trim(lit.Value, `"`))
				}
			}
		}
	}
	return values
}

// noon is the first time in filled values.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 123_456_789, time.UTC)

// filled returns a value of a type in which each field has something else than zero, and no two fields the same.
func filled(typ reflect.Type) reflect.Value {
	n := int64(0)
	v := reflect.New(typ).Elem()
	fill(v, &n)
	return v
}

func fill(v reflect.Value, n *int64) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(noon.Add(time.Duration(*n) * time.Second)))
		return
	case v.Type() == reflect.TypeFor[[]byte]():
		v.SetBytes([]byte{0xff, byte(*n)})
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.25)
	default:
		panic("no value for " + v.Type().String())
	}
}

// TestEachFieldIsFilled: what the other tests compare has no field that is zero by accident.
func TestEachFieldIsFilled(t *testing.T) {
	var visit func(path string, v reflect.Value)
	visit = func(path string, v reflect.Value) {
		if v.IsZero() {
			t.Errorf("%s is zero", path)
		}
		switch {
		case v.Type() == reflect.TypeFor[time.Time]():
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				visit(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case v.Kind() == reflect.Pointer:
			visit(path, v.Elem())
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				visit(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		}
	}
	for name, v := range types() {
		visit(name, filled(reflect.TypeOf(v)))
	}
}
