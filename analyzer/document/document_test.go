package document

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFileTakesOneByteMoreThanParse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 3*MaxFile), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := ReadFile(path)
	if err != nil || len(data) != MaxFile+1 {
		t.Fatalf("got %d bytes and %v", len(data), err)
	}
	if err := readText(string(data)); err == nil || err.Error() != "f:1:1: got more than 1048576 bytes, want at most that" {
		t.Errorf("got %v", err)
	}
	if _, err := ReadFile(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want os.ErrNotExist", err)
	}
	if _, err := ReadFile(t.TempDir()); err == nil {
		t.Error("got no error from a directory")
	}
}

// TestErrorsAreInTheOrderOfTheFile, however a reader reads the fields; errors.As finds the first.
func TestErrorsAreInTheOrderOfTheFile(t *testing.T) {
	err := readText("statuses: [1, 2]\nlimit: 0\nname: 5\n")
	want := "f:1:12: statuses: got 1, want 100 to 599, or 1xx to 5xx\nf:1:15: statuses: got 2, want 100 to 599, or 1xx to 5xx\n" +
		"f:2:8: limit: got 0, want 1 or more\nf:3:7: name: got 5, want a name"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	var one *Error
	if !errors.As(err, &one) || one.Line != 1 || one.Column != 12 || one.File != "f" {
		t.Errorf("got %+v", one)
	}
}

// TestAFileIsAVersionAndAList, and each mistake about that is named with its place.
func TestAFileIsAVersionAndAList(t *testing.T) {
	for text, want := range map[string]struct {
		things int // -1: no list
		err    string
	}{
		"version: 1\nthings: [a, b]\n":          {2, ""},
		"version: 1\nthings: []\n":              {0, ""},
		"things: [a, b]\n":                      {2, "f:1:1: version: missing, want 1"},
		"version: 2\nthings: [a, b]\n":          {2, "f:1:10: version: got 2, want 1"},
		"version: one\nthings: [a]\n":           {1, `f:1:10: version: got "one", want 1`},
		"version: 1\n":                          {-1, "f:1:1: things: missing, want a list"},
		"version: 1\nthings: a\n":               {-1, `f:2:9: things: got "a", want a list`},
		"version: 1\nthings: [a]\nthing: [b]\n": {1, "f:3:1: thing: unknown field, did you mean things?"},
	} {
		d := Parse("f", []byte(text), "things")
		_, list, ok := d.List("things")
		got, things := "", -1
		if d.Err() != nil {
			got = d.Err().Error()
		}
		if ok {
			things = len(list)
		}
		if got != want.err || things != want.things {
			t.Errorf("%q: got %d things and %q, want %d and %q", text, things, got, want.things, want.err)
		}
	}
}

func TestNoMoreThanFiftyErrors(t *testing.T) {
	d := Parse("f", []byte("a: 1\n"), "anything")
	for i := range 450 {
		d.Errorf(Position{Line: 450 - i, Column: 1}, "error %d", i)
		d.Warnf(Position{Line: i + 1}, "warning %d", i)
	}
	var errs Errors
	if !errors.As(d.Err(), &errs) || len(errs) != 50 || errs[0].Line != 1 || errs[49].Msg != "error 400 (and 400 more errors)" {
		t.Errorf("got %d errors, the last: %v", len(errs), errs[len(errs)-1])
	}
	if w := d.Warnings(); len(w) != 50 || w[0].Msg != "warning 0" || w[0].Column != 1 {
		t.Errorf("got %d warnings, the first: %v", len(w), w[0])
	}
}

// fail2ban's CVE-2013-2178 was log text that did something: what a file says comes out of an error as text.
func TestErrorsCarryNoControlCharacters(t *testing.T) {
	for _, text := range []string{
		"\"\\x1b[2J\": 1\n", "name: [\"\\x1b[2J\\n\"]\n", "\"a\\nb\": 1\n", "kind: \"\\e[31m\"\nwait: \"\\x07\"\nwords: [[\"\\x1b\"]]\nstatuses: \"\\x1b\"\n" +
			"networks: \"\\x1b\"\neach: {\"\\x9b\": 1, \"\\x9b\": 1}\n", "networks: \"\\x1b/24\"\n", "\x1b: [", "a: \x1b\n b: c",
	} {
		err := readText(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }) || !strings.HasPrefix(line, "f:") {
				t.Errorf("%q: got error %q", text, line)
			}
		}
	}
}

// FuzzParse: no file makes a reader panic; each error has a place in the file and a message of one printable line.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("../../testdata/[mr][au][pl]*/*.yaml")
	if err != nil || len(paths) < 50 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("name: n\nlimit: 5\nwait: 1d\nstatuses: [1xx, 404]\nnetworks: ['::1', 10.0.0.0/8]\neach: {a: b}\nitems: [{n: 1}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, d := readSample(data)
		err := d.Err()
		if err == nil {
			if s.Name == "" && !strings.Contains(string(data), "name") || s.Limit < 1 || s.Share < 0.5 || s.Share > 2 || s.Wait <= 0 {
				t.Fatalf("accepted %+v", s)
			}
			return
		}
		var errs Errors
		if !errors.As(err, &errs) || len(errs) == 0 || len(errs) > maxErrors {
			t.Fatalf("got %v", err)
		}
		for _, e := range errs {
			if e.Line < 1 || e.Column < 1 || e.Msg == "" || strings.ContainsAny(e.Msg, "\n\r\x1b") || e.Error() != fmt.Sprintf("f:%d:%d: %s", e.Line, e.Column, e.Msg) {
				t.Fatalf("got error %q", e)
			}
		}
	})
}
