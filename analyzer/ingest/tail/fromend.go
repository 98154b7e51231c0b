package tail

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
)

// ended returns the log at the path, as one whose lines so far were all read and acknowledged. It returns nil if there is no log, or if the
// log has no line.
func (s *scan) ended() (*logFile, error) {
	if s.at == nil {
		return nil, nil //nolint:nilnil // there is nothing to skip
	}
	c := s.at
	info, err := c.file.Stat()
	if err != nil {
		return nil, err
	}
	c.size = info.Size()
	end, err := c.lastLineEnd()
	if err != nil || end == 0 {
		return nil, err
	}
	l := &logFile{
		Path: filePath(s.f.Path), Name: filePath(s.f.realName(c.path)), Own: min(enough, end), Modified: c.info.ModTime(), Changed: c.info.ModTime(),
	}
	_, _ = rand.Read(l.Source[:]) // never fails
	for i := 0; markAt(i) <= end; i++ {
		sum, ok, err := c.before(markAt(i))
		if err != nil || !ok {
			return nil, cmp.Or(err, errChanged)
		}
		l.Marks = append(l.Marks, sum)
	}
	sum, ok, err := c.before(end)
	if err != nil || !ok {
		return nil, cmp.Or(err, errChanged)
	}
	l.Acked = place{end, sum}
	l.Read = l.Acked
	return l, nil
}

// lastLineEnd returns the place behind the last line end; 0 if there is none.
func (c content) lastLineEnd() (int64, error) {
	b := make([]byte, bufferSize)
	for end := c.size; end > 0; {
		from := max(0, end-int64(len(b)))
		n, err := c.file.ReadAt(b[:end-from], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read log: %w", err)
		}
		if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		end = from
	}
	return 0, nil
}
