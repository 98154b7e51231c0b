package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/509da70d/floodgate/analyzer/ingest"
	"github.com/509da70d/floodgate/analyzer/ingest/unpack"
	"github.com/509da70d/floodgate/analyzer/printable"
)

// Sizes of blocks. A block holds at least one line of ingest.MaxLine bytes.
const (
	blockSize    = 1 << 20
	minBlockSize = 2 * ingest.MaxLine
	blockBudget  = 32 << 20 // bytes of all inputs together, unless minBlockSize needs more
	blockDepth   = 4        // blocks of one input: one is read, one scanned, one merged, and one is spare
)

// block is a stretch of whole lines of one input, with the result of scanning them.
type block struct {
	text  []byte // lines, each with its newline; the input's last one may lack it
	last  []byte // the line before: this one may go on with it
	err   error  // why the input ends behind this block; io.EOF at its normal end
	from  *source
	first bool // it is the first block of the input
	ready chan struct{}

	lines    []ingest.Line // the lines that could be read: the first used elements
	used     int
	total    int64
	rejected [ingest.Reasons]int64
	samples  ingest.Samples // of the lines that were rejected
}

// source is one input, cut into blocks. Three goroutines use each block in turn: read fills it, a worker scans it, and the
// merge reads its lines and gives it back.
type source struct {
	input Input
	head  []byte // the first bytes of the input: see ingest.Format.Headed; set before the first block is queued
	free  chan *block
	queue chan *block // in the order of the input; a block is ready when its channel ready has a value

	block *block // the block whose lines are being merged
	next  int    // its next line
}

func newSource(in Input, size int) *source {
	s := &source{input: in, free: make(chan *block, blockDepth), queue: make(chan *block, blockDepth)}
	for range blockDepth {
		s.free <- &block{from: s, text: make([]byte, 0, size), ready: make(chan struct{}, 1)}
	}
	return s
}

// read cuts the input into blocks, queues them, and has work scan them. It returns when the input or ctx ends. The error of
// an input is in its last block.
func (s *source) read(ctx context.Context, work chan<- *block, progress func(int64)) {
	r, err := open(s.input.Reader, progress)
	if err != nil {
		r = failing{err}
	}
	var last []byte   // the last line of the block before
	var carry []byte  // the start of a line whose end is not read yet
	skipping := false // inside a line that was too long for a block; its start is queued already
	for done := false; !done; {
		var b *block
		select {
		case b = <-s.free:
		case <-ctx.Done():
			return
		}
		b.fill(r, carry)
		if skipping {
			skipping = b.skipLine()
		}
		if !skipping {
			carry, skipping = b.cut(carry[:0])
		}
		b.last = append(b.last[:0], last...)
		last = lastLine(last[:0], b.text)
		if b.first = s.head == nil; b.first {
			s.head = bytes.Clone(b.text[:min(len(b.text), ingest.MaxLine)])
		}
		done = b.err != nil
		select {
		case s.queue <- b:
		case <-ctx.Done():
			return
		}
		select {
		case work <- b:
		case <-ctx.Done():
			return
		}
	}
}

// lastLine appends the last line of text to to, as far as a scan reads it.
func lastLine(to, text []byte) []byte {
	text = bytes.TrimSuffix(text, []byte("\n"))
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	return append(to, text[:min(len(text), ingest.MaxLine)]...)
}

// fill reads text until the block is full or the input ends.
func (b *block) fill(r io.Reader, carry []byte) {
	b.text, b.err = append(b.text[:0], carry...), nil
	for b.err == nil && len(b.text) < cap(b.text) {
		var n int
		n, b.err = r.Read(b.text[len(b.text):cap(b.text)])
		b.text = b.text[:len(b.text)+n]
	}
}

// skipLine drops text up to the end of the current line, and reports whether that end is still to come.
func (b *block) skipLine() bool {
	i := bytes.IndexByte(b.text, '\n')
	if i < 0 {
		b.text = b.text[:0]
		return b.err == nil
	}
	b.text = b.text[:copy(b.text, b.text[i+1:])]
	return false
}

// cut moves the unfinished line at the end of the block to carry. If that line is the whole block, its start stays in the
// block, and the caller must skip the rest of the line.
func (b *block) cut(carry []byte) (rest []byte, skip bool) {
	if b.err != nil {
		return carry, false
	}
	i := bytes.LastIndexByte(b.text, '\n')
	if i < 0 && len(b.text) > ingest.MaxLine {
		b.text = b.text[:ingest.MaxLine+1] // one byte too long, so that the scan refuses it
		return carry, true
	}
	carry = append(carry, b.text[i+1:]...)
	b.text = b.text[:i+1]
	return carry, false
}

// prime passes the first bytes of the input to a new scanner.
func (s *source) prime(scanner ingest.Scanner) {
	var l ingest.Line
	for line := range bytes.Lines(s.head) {
		ingest.Scan(scanner, bytes.TrimSuffix(line, []byte("\n")), &l)
	}
}

// follow shows a scanner the line before the block.
func (b *block) follow(s ingest.Scanner) {
	var l ingest.Line
	if len(b.last) > 0 {
		ingest.Scan(s, b.last, &l)
	}
}

// scan reads the block's lines.
func (b *block) scan(s ingest.Scanner) {
	b.used, b.total, b.rejected, b.samples = 0, 0, [ingest.Reasons]int64{}, ingest.Samples{}
	for text := b.text; len(text) > 0; {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		b.total++
		if b.used == len(b.lines) {
			b.lines = append(b.lines, ingest.Line{})
			b.lines = b.lines[:cap(b.lines)]
		}
		reason := ingest.Scan(s, line, &b.lines[b.used])
		if reason == ingest.OK && b.lines[b.used].Part == ingest.Arrival {
			reason = ingest.Dropped // the line of its end says when the request arrived
		}
		if reason != ingest.OK {
			b.rejected[reason]++
			b.samples.Add(reason, line)
			continue
		}
		b.used++
	}
}

// advance makes the source's next line its head and returns it, or nil at the end of the input. It adds the counts of
// finished blocks to sum. The line before is no longer valid. If an input cannot be read to its end, advance returns nil
// and an error there.
func (s *source) advance(ctx context.Context, sum *Summary) (*ingest.Line, error) {
	for {
		if s.block != nil {
			if s.next < s.block.used {
				s.next++
				return &s.block.lines[s.next-1], nil
			}
			err := s.block.err
			s.free <- s.block // never blocks: the channel has room for all
			s.block = nil
			if errors.Is(err, io.EOF) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", printable.Of(s.input.Name), err)
			}
		}
		select {
		case s.block = <-s.queue:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		select {
		case <-s.block.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.next = 0
		sum.add(s.block)
	}
}

// failing is a reader that returns an error only.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Input is one log. Reader gives its bytes, plain or compressed by gzip, bzip2, xz or zstd (also several streams in a row);
// Run reads it from one goroutine and does not close it.
type Input struct {
	Name   string // for errors
	Reader io.Reader
}

// open returns a reader of the plain text of r. Each read of r is reported to progress, if there is one.
func open(r io.Reader, progress func(int64)) (io.Reader, error) {
	if progress != nil {
		r = &meter{r, progress}
	}
	return unpack.NewReader(r)
}

// meter reports the number of bytes of each read of a reader.
type meter struct {
	r        io.Reader
	progress func(int64)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.progress(int64(n))
	return n, err
}
