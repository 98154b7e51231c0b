package deploy

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/509da70d/floodgate/deploy/testenv"
)

const packagesPage = "../.github/PACKAGES.md"

// packageRow is a line of the table of packages: a package's name, what it is for, and what it imports.
var packageRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\| ([^|]+) \\| ([^|]+) \\|\n")

// tableHead ends what people write on the page. All that follows is the table, as the source has it.
const tableHead = "| package | for | imports, of floodgate |\n|---|---|---|\n"

// TestPackagesNamesEveryPackage compares the whole table of packages with the source, so that nobody adds a package or an
// import without a look at the whole, and no other line gets between them. -update writes the table as the source has it, where a new
// package gets the first sentence of its documentation.
func TestPackagesNamesEveryPackage(t *testing.T) {
	page := readFile(t, packagesPage)
	head, got, found := strings.Cut(page, tableHead)
	if !found {
		t.Fatalf("PACKAGES.md: got no table with the head\n%s", tableHead)
	}
	want := packageTable(t, got)
	if testenv.Update() {
		if err := os.WriteFile(packagesPage, []byte(head+tableHead+want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	gotLines, wantLines := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := lineAt(gotLines, i), lineAt(wantLines, i)
		if g != w {
			t.Fatalf("PACKAGES.md, line %d of the table: got\n%swant\n%s(%s writes it)", i+1, g, w, testenv.UpdateCommand(t))
		}
	}
}

// packageTable returns the rows as the source has them. What a package is for stays as the rows before say it.
func packageTable(t *testing.T, before string) string {
	t.Helper()
	purpose := map[string]string{}
	for _, m := range packageRow.FindAllStringSubmatch(before, -1) {
		purpose[m[1]] = m[2]
	}
	var table strings.Builder
	packages := imports(t)
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		uses := "–"
		if len(packages[name].uses) > 0 {
			uses = "`" + strings.Join(packages[name].uses, "`, `") + "`"
		}
		table.WriteString("| `" + name + "` | " + cmp.Or(purpose[name], packages[name].purpose) + " | " + uses + " |\n")
	}
	return table.String()
}

// lineAt returns a line, or an empty one behind the last.
func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "\n"
}

// TestArchitectureHasFloors holds the picture in ARCHITECTURE.md: which side may know which.
func TestArchitectureHasFloors(t *testing.T) {
	below := func(dir, name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
	never := map[string][]string{
		"analyzer": {"gate", "cmd", "deploy"},
		"gate":     {"analyzer", "store", "cmd", "deploy"},
		"store":    {"analyzer", "gate", "cmd", "deploy"},
		"schemas":  {"analyzer", "gate", "store", "cmd", "deploy"},
	}
	for name, p := range imports(t) {
		top, _, _ := strings.Cut(name, "/")
		for _, use := range p.uses {
			if below("gate/kafkalink", name) && below("store/kafkaio", use) {
				continue // the gate's end of Kafka
			}
			if slices.ContainsFunc(never[top], func(dir string) bool { return below(dir, use) }) {
				t.Errorf("got %s importing %s, want nothing of %s to import any of %v", name, use, top, never[top])
			}
		}
	}
}

// imported is what a package says that it is for, and what it imports of the repository without its tests.
type imported struct {
	purpose string
	uses    []string
}

// imports returns all packages of the repository, by names without the module's.
func imports(t *testing.T) map[string]*imported {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Doc,Imports,Module", "./...")
	c.Dir = ".."
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]*imported{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Doc string
			Imports         []string
			Module          struct{ Path string }
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		i := &imported{purpose: strings.Trim(regexp.MustCompile(`^(Package|Command) \w+ `).ReplaceAllString(p.Doc, ""), ".")}
		for _, path := range p.Imports {
			if name, ok := strings.CutPrefix(path, p.Module.Path+"/"); ok {
				i.uses = append(i.uses, name)
			}
		}
		slices.Sort(i.uses)
		packages[strings.TrimPrefix(p.ImportPath, p.Module.Path+"/")] = i
	}
	if len(packages) < 20 {
		t.Fatalf("got %d packages, want all of them", len(packages))
	}
	return packages
}
