package failpoint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEachPointHasANameOfItsOwn(t *testing.T) {
	seen := make(map[string]Point)
	for _, p := range All() {
		name := p.String()
		if other, ok := seen[name]; ok {
			t.Errorf("%s: got it for %d and %d", name, other, p)
		}
		seen[name] = p
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(name) {
			t.Errorf("point %d: got the name %q, want lower case and dashes", p, name)
		}
	}
	if points, named := len(All()), len(names)-1; points != named {
		t.Errorf("got %d points and %d names, want as many", points, named)
	}
	if got := Point(200).String(); got != "point-200" {
		t.Errorf("a point that is none: got %q", got)
	}
}

// TestEachPointIsInTheCode finds in the analyzer's source exactly one Here for each point but one: a point that is nowhere
// would only be missed by the test that crashes there, and one that is twice would be ambiguous.
func TestEachPointIsInTheCode(t *testing.T) {
	found := make(map[string]int)
	here := regexp.MustCompile(`failpoint\.Here\(failpoint\.(\w+)\)`)
	files, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob("../*/*.go") // an owner has parts of its own package
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, parts...)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range here.FindAllStringSubmatch(string(text), -1) {
			found[dashed(m[1])]++
		}
	}
	for _, p := range All() {
		want := 1
		if p == InsideCommit {
			want = 0
		}
		if got := found[p.String()]; got != want {
			t.Errorf("%v: got it in %d places, want %d", p, got, want)
		}
		delete(found, p.String())
	}
	if len(found) > 0 {
		t.Errorf("points that are not in All: got %v", found)
	}
}

// dashed turns SomeName into some-name.
func dashed(name string) string {
	return strings.ToLower(strings.Trim(regexp.MustCompile(`[A-Z]`).ReplaceAllString(name, "-$0"), "-"))
}

func TestRestoringIsAllBeforePublishing(t *testing.T) {
	var during []Point
	for _, p := range All() {
		if p.Restoring() {
			during = append(during, p)
		}
	}
	if want := All()[:slices.Index(All(), CycleRepeated)]; !slices.Equal(during, want) {
		t.Errorf("got %v, want %v", during, want)
	}
}
