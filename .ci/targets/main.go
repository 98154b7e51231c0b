// Command targets type-checks a program, with all that it links, for each target that it is given: windows/arm64, say. It takes three
// seconds for a target; compiling takes a minute and a half. What it does not see is what a linker would say.
//
//	go run ./.ci/targets ./cmd/floodgate linux/amd64 windows/arm64
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: targets PACKAGE OS/ARCH...")
		os.Exit(2)
	}
	for _, target := range os.Args[2:] {
		n, err := check(".", os.Args[1], target)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", target, err)
			os.Exit(1)
		}
		fmt.Printf("%s: %d packages have the right types\n", target, n)
	}
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Standard        bool
}

// check type-checks a package of dir and its dependencies, which go list prints first. It returns how many they are. What the functions
// of the standard library do is not looked at.
func check(dir, pkg, target string) (packages int, err error) {
	goos, goarch, _ := strings.Cut(target, "/")
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Standard", pkg) //nolint:gosec // a package of this repository
	list.Dir, list.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	var said bytes.Buffer
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, &said)
	}
	c := checked{fset: token.NewFileSet(), sizes: types.SizesFor("gc", goarch), types: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return len(c.types) - 1, nil
		case err != nil:
			return 0, err
		}
		if err := c.add(p); err != nil {
			return 0, err
		}
	}
}

// checked is the packages that were checked, by their import paths.
type checked struct {
	fset  *token.FileSet
	sizes types.Sizes
	types map[string]*types.Package
}

func (c *checked) add(p listed) error {
	if p.ImportPath == "unsafe" {
		return nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	find := importer(func(path string) (*types.Package, error) {
		if to, ok := p.ImportMap[path]; ok {
			path = to
		}
		if found := c.types[path]; found != nil {
			return found, nil
		}
		return nil, fmt.Errorf("go list has not listed %s before %s", path, p.ImportPath)
	})
	config := types.Config{Sizes: c.sizes, IgnoreFuncBodies: p.Standard, Importer: find}
	var err error
	c.types[p.ImportPath], err = config.Check(p.ImportPath, c.fset, files, nil)
	return err
}

type importer func(path string) (*types.Package, error)

// Import implements types.Importer.
func (i importer) Import(path string) (*types.Package, error) { return i(path) }
