package keyfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Bounds of a file.
const (
	MaxEntries = 1000
	MaxSize    = 256 << 10 // bytes
	MaxName    = 64        // bytes
)

// Entry is a line of a file.
type Entry[T any] struct {
	Name  string
	Value T // of the words between name and sum
	Sum   [sha256.Size]byte
}

// Format says what the lines of a file look like.
type Format[T any] struct {
	Err    error                           // what errors.Is finds in errors about the contents
	Secret string                          // what a secret is called in errors and in the log, such as "token"
	Words  string                          // the words of a line, for errors: "NAME ROLE SHA256". Their number is how many a line has
	Value  func(words []string) (T, error) // reads the words between name and sum; nil where there are none
	Name   func(name string) error         // refuses a name of the right form; nil refuses none. Its error must not repeat the name
	Lower  func(before, now T) T           // returns the value that allows less; nil: an entry keeps its value of before
}

// Parse reads the lines of a file. White space separates words. Empty lines and lines that begin with # are left out. Two lines
// may have one name, so that secrets can be replaced one after the other. Errors name the line.
func (f Format[T]) Parse(text []byte) ([]Entry[T], error) {
	list, err := f.lines(text)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// lines returns the valid lines, and an error about the first invalid one. It returns no lines of a file that is too long, or that has
// too many.
func (f Format[T]) lines(text []byte) (list []Entry[T], err error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%w: got more than %d bytes", f.Err, MaxSize)
	}
	known := make(map[[sha256.Size]byte]string)
	for n, line := range bytes.Split(text, []byte("\n")) {
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		e, wrong := f.entry(words)
		if name, twice := known[e.Sum]; wrong == nil && twice {
			wrong = fmt.Errorf("the %s of %s has a line already", f.Secret, name)
		}
		switch {
		case wrong == nil && len(list) == MaxEntries:
			return nil, fmt.Errorf("%w: line %d: got more than %d %ss", f.Err, n+1, MaxEntries, f.Secret)
		case wrong == nil:
			list, known[e.Sum] = append(list, e), e.Name
		case err == nil:
			err = fmt.Errorf("%w: line %d: %w", f.Err, n+1, wrong)
		}
	}
	return list, err
}

// stillNamed returns the entries of before that a file with a mistake still names, each with the lower value of both. Nothing is added,
// and nothing may do more, until the file has no mistake.
func (f Format[T]) stillNamed(before, file []Entry[T]) (left []Entry[T]) {
	values := make(map[[sha256.Size]byte]T, len(file))
	for _, e := range file {
		values[e.Sum] = e.Value
	}
	for _, e := range before {
		value, ok := values[e.Sum]
		if !ok {
			continue
		}
		if f.Lower != nil {
			e.Value = f.Lower(e.Value, value)
		}
		left = append(left, e)
	}
	return left
}

func (f Format[T]) entry(words []string) (e Entry[T], err error) {
	if len(words) != len(strings.Fields(f.Words)) {
		return e, fmt.Errorf("got %d words, want %s", len(words), f.Words)
	}
	e.Name = words[0]
	if len(e.Name) > MaxName || strings.Trim(e.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-") != "" {
		return e, fmt.Errorf("got name %.80q, want 1 to %d of letters, digits and . _ @ -", e.Name, MaxName)
	}
	if f.Name != nil {
		if err := f.Name(e.Name); err != nil {
			return e, err
		}
	}
	last := len(words) - 1
	if f.Value != nil {
		if e.Value, err = f.Value(words[1:last]); err != nil {
			return e, err
		}
	}
	// The error must not repeat the text: somebody may have put the secret itself there.
	sum, err := hex.DecodeString(words[last])
	if err != nil || len(sum) != len(e.Sum) {
		return e, fmt.Errorf("got a sum of %d characters, want the SHA-256 of a %s in 64 hexadecimal digits", len(words[last]), f.Secret)
	}
	copy(e.Sum[:], sum)
	return e, nil
}
