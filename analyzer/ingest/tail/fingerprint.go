package tail

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// window is how many bytes before a place are summed.
	window = 4 << 10
	// enough is how many bytes two files must have in common for one to be a copy of the other, if nothing is known of what logs begin with.
	enough = window
	// step is the distance of the first marks, in bytes.
	step      = 16
	fineMarks = 64 // marks that are a step apart; each further one is twice as far from the start as the one before
)

// sum is a checksum of up to window bytes.
type sum [8]byte

func sumOf(b []byte) (s sum) {
	full := sha256.Sum256(b)
	copy(s[:], full[:])
	return s
}

// markAt returns the place of a mark, in bytes from the start of a log.
func markAt(i int) int64 {
	if i < fineMarks {
		return int64(i+1) * step
	}
	return fineMarks * step << (i - fineMarks + 1)
}

// marks are the sums before the places markAt(0), markAt(1), ... of a log, as far as it was read.
type marks []sum

// MarshalText implements encoding.TextMarshaler.
func (m marks) MarshalText() ([]byte, error) {
	var b []byte
	for _, s := range m {
		b = hex.AppendEncode(b, s[:])
	}
	return b, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *marks) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b)%len(sum{}) != 0 || len(b)/len(sum{}) > maxMarks {
		return fmt.Errorf("got marks %.40q, want up to %d times %d hexadecimal digits", text, maxMarks, 2*len(sum{}))
	}
	*m = nil
	for s := range slices.Chunk(b, len(sum{})) {
		*m = append(*m, sum(s))
	}
	return nil
}

// maxMarks reach as far as int64 does.
const maxMarks = fineMarks + 52

// place is what a log has before a place: the sum of up to window bytes.
type place struct {
	End int64 `json:"end"` // bytes from the start
	Sum sum   `json:"sum"`
}

// MarshalText implements encoding.TextMarshaler.
func (s sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *sum) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("got checksum %.40q, want %d hexadecimal digits", text, 2*len(s))
	}
	copy(s[:], b)
	return nil
}

// places returns the places of the marks, in order.
func (m marks) places() (all []place) {
	for i, s := range m {
		all = append(all, place{markAt(i), s})
	}
	return all
}

// content is a file as it is now.
type content struct {
	file io.ReaderAt
	size int64
}

// before returns the sum of what stands before a place, and ok if the file reaches so far.
func (c content) before(end int64) (s sum, ok bool, err error) {
	b := make([]byte, min(end, window))
	n, err := c.file.ReadAt(b, end-int64(len(b)))
	if err != nil && !errors.Is(err, io.EOF) {
		return s, false, fmt.Errorf("read log: %w", err)
	}
	return sumOf(b[:n]), n == len(b), nil
}

// agreement says how far a file agrees with what is known of a log: up to the last of the places that it reaches. It is −1 if it differs
// at one of them. places are in order.
func (c content) agreement(places []place) (int64, error) {
	var last int64
	for _, p := range places {
		if p.End > c.size {
			break
		}
		s, ok, err := c.before(p.End)
		if err != nil {
			return 0, err
		}
		if !ok || s != p.Sum {
			return -1, nil
		}
		last = p.End
	}
	return last, nil
}

// begins reports whether one of two files begins as the other does, as far as the shorter one goes: it compares the end of the shorter
// one. The caller has compared what is before that.
func (c content) begins(other content) (bool, error) {
	end := min(c.size, other.size)
	mine, ok, err := c.before(end)
	if err != nil || !ok {
		return false, err
	}
	theirs, ok, err := other.before(end)
	return ok && mine == theirs, err
}
