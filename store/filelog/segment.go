package filelog

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	nameDigits = 20     // of the name of a segment
	nameEnd    = ".log" // as Kafka's
)

// segment is a file of record batches. The partition's lock guards its fields; what lies before size never changes.
type segment struct {
	path    string
	base    int64 // offset of the first record
	next    int64 // behind the last record
	size    int64 // bytes
	synced  int64 // bytes that are on disk for sure
	listed  bool  // its name is on disk for sure
	changed time.Time

	file  file // nil: closed
	users int  // calls that use the file

	index index
}

func segmentName(base int64) string { return fmt.Sprintf("%0*d%s", nameDigits, base, nameEnd) }

// baseOf returns the offset in the name of a segment; -1 for other files.
func baseOf(name string) int64 {
	digits, ok := strings.CutSuffix(name, nameEnd)
	base, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || base < 0 || segmentName(base) != name {
		return -1
	}
	return base
}

func newSegment(dir string, base int64) *segment {
	return &segment{path: filepath.Join(dir, segmentName(base)), base: base, next: base}
}

// close closes the file, if it is open. The caller holds the partition's lock.
func (s *segment) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}
