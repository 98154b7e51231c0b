package document

import (
	"fmt"
	"io"
	"os"
)

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 1 << 20

// Document is a file while it is read. It collects everything that is wrong with the file instead of stopping at the first
// error.
type Document struct {
	name     string
	root     Value // invalid where the file is not plain YAML
	errs     []*Error
	warnings []*Error
}

// ReadFile returns the file at path, but at most one byte more than Parse takes. Its errors are those of package os.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// Parse reads data as plain YAML. The name is the file's, for messages, and want says what a file holds, for the message
// about an empty one. What is wrong is in Err; there is no Top then.
func Parse(name string, data []byte, want string) *Document {
	d := &Document{name: name}
	d.root = Value{d.parse(data, want)}
	return d
}

// Root returns the value of the whole file. It is invalid where the file is not plain YAML.
func (d *Document) Root() Value { return d.root }

// Top returns the mapping that the file is, whose fields must all be known, and whether it is one.
func (d *Document) Top(known ...string) (m Mapping, ok bool) {
	if !d.root.Valid() {
		return m, false
	}
	return d.Mapping("file", d.root, known...)
}

// List returns the mapping that the file is, and the list that it holds: a file has version: 1, the list, and nothing else. It reports
// what is wrong, and whether there is a list.
func (d *Document) List(field string) (top Mapping, list []Value, ok bool) {
	if top, ok = d.Top("version", field); !ok {
		return top, nil, false
	}
	if top.Lacks("version") {
		top.Fail("version", "missing, want 1")
	} else if top.Has("version") {
		if v, ok := top.Value("version").Integer(); !ok || v != 1 {
			top.Wrong("version", "1")
		}
	}
	if top.Lacks(field) {
		top.Fail(field, "missing, want a list")
	}
	if !top.Has(field) {
		return top, nil, false
	}
	if list, ok = top.Value(field).List(); !ok {
		top.Wrong(field, "a list")
	}
	return top, list, ok
}

// Err returns what was reported so far as Errors, in the order of the file, or nil. Of more than 50 errors it returns the
// first 50 and the number of the others.
func (d *Document) Err() error {
	if len(d.errs) == 0 {
		return nil
	}
	return Errors(sorted(d.errs))
}

// Warnings returns the warnings that were reported so far, in the order of the file, and at most 50 as Err does.
func (d *Document) Warnings() []*Error { return sorted(d.warnings) }

// Errorf reports an error at a position.
func (d *Document) Errorf(at Position, format string, args ...any) {
	d.errs = append(d.errs, d.locate(at, format, args...))
}

// Warnf reports a warning at a position.
func (d *Document) Warnf(at Position, format string, args ...any) {
	d.warnings = append(d.warnings, d.locate(at, format, args...))
}

func (d *Document) locate(at Position, format string, args ...any) *Error {
	return &Error{File: d.name, Line: max(at.Line, 1), Column: max(at.Column, 1), Msg: fmt.Sprintf(format, args...)}
}
