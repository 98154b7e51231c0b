package kafkaio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// recordOverhead is the memory that a Record takes in addition to its key and value. It is counted, so that a cap on memory
// also limits many small records.
const recordOverhead = 64

// A batch is unpacked up to unpackFloor bytes and unpackRatio times its own length, with recordOverhead for each record.
// Text is packed to a tenth or a thirtieth of its length. A batch that unpacks to much more was made to waste the reader's
// time.
const (
	unpackFloor = 256 << 20
	unpackRatio = 64
)

// chunk is how many bytes are unpacked at a time.
const chunk = 256 << 10

var errRecord = errors.New("malformed record")

// errLongRecord says that a record was passed over, and the next one can be read.
var errLongRecord = fmt.Errorf("%w: record", ErrDecompressedTooLarge)

// openBatch is a batch of which some records have been read. Its result does not depend on the sizes of the pieces: the
// records before the first one that cannot be read, and one Skip for all from there on. A record that is too long is
// skipped alone.
type openBatch struct {
	header
	in     io.Reader // the part that is not unpacked yet; nil if all is in buf
	err    error     // the error that ended in, or prevented it
	buf    []byte    // unpacked; its first at bytes are read
	at     int       // an index: to write a pointer for each record costs more
	back   []byte    // the array that buf is in; nil where in is
	shared bool      // records alias back

	release   func() // of in
	left      int32  // records that are not read yet
	seen      int64  // delta of the last record + 1
	taken     int64  // bytes of the records that were read, with recordOverhead
	maxTaken  int64
	maxRecord int64
	packed    int // bytes of memory that it keeps alive
}

// openBatch prepares to read a batch, and returns how many bytes of records to read at a time. A batch that fits the limit
// is unpacked here, whole, and read at once. This is the common case, and the fastest.
func (u *unpacker) openBatch(h header, packed []byte) (o *openBatch, budget int) {
	o = &openBatch{
		release: func() {},
		header:  h, left: max(h.count, 0), maxRecord: int64(u.limit), packed: len(packed),
		maxTaken: u.floor + unpackRatio*int64(len(packed)),
	}
	codec := int(h.attrs & attrCodec)
	if overhead := int64(o.left) * recordOverhead; overhead <= int64(u.limit) {
		whole, err := u.decompress(codec, packed, u.limit-int(overhead))
		if err == nil {
			o.buf = whole
			return o, math.MaxInt
		}
	}
	if codec == codecNone {
		o.buf = packed
	} else {
		o.in, o.release, o.err = u.stream(codec, packed)
		o.packed += streamMemory(o.in)
	}
	return o, u.piece()
}

// piece is how many bytes of a batch that is over the limit are returned at a time.
func (u *unpacker) piece() int { return max(u.limit/4, 1) }

// fill appends records to b, from b.Next on, until they take budget bytes or the batch ends. It returns how many bytes they
// take.
func (o *openBatch) fill(b *Batch, budget int) (used int) {
	if b.Records == nil {
		b.Records = make([]Record, 0, min(int(o.left), len(o.buf)/7, budget/recordOverhead+1))
	}
	before := len(b.Records)
	var r Record
	for o.left > 0 && used < budget {
		size, err := o.next(&r)
		switch {
		case err != nil:
			o.passed(b, &r, err)
		case r.Offset >= b.Next:
			b.Records = append(b.Records, r)
			b.Next = r.Offset + 1
			used += int(size)
			o.shared = true
		}
	}
	if len(b.Records) > before {
		b.LastEpoch = o.epoch
		if before == 0 {
			b.FirstEpoch = o.epoch
		}
	}
	if o.left == 0 {
		o.end(b)
	}
	return used
}

// passed skips a record that could not be read: this one alone if it is too long, else all records from it on.
func (o *openBatch) passed(b *Batch, r *Record, err error) {
	if errors.Is(err, errLongRecord) {
		b.Next = max(b.Next, r.Offset)
		b.skip(r.Offset, SkipTooLarge, err)
		return
	}
	o.left = 0
	b.skip(o.last, reasonOf(err), err)
}

// end skips the offsets behind the batch's last record, and frees the batch.
func (o *openBatch) end(b *Batch) {
	if b.Next <= o.last { // compaction left holes, or the count in the header is too low
		if o.need(1) {
			b.skip(o.last, SkipMalformed, fmt.Errorf("%w: got more than the %d of the header", errRecord, o.count))
		} else if err := o.failed(); !errors.Is(err, io.EOF) {
			b.skip(o.last, reasonOf(err), err)
		}
	}
	b.Next = max(b.Next, o.last+1)
	o.release()
	o.in, o.buf, o.back = nil, nil, nil
}

// reasonOf returns the SkipReason of an error of a record.
func reasonOf(err error) SkipReason {
	switch {
	case errors.Is(err, ErrDecompressedTooLarge):
		return SkipTooLarge
	case errors.Is(err, errCodec):
		return SkipCodec
	}
	return SkipMalformed
}

// next reads one record into r, and returns how many bytes of maxTaken it takes. Offsets must rise within the batch's
// range. With errLongRecord, r has the record's offset only.
func (o *openBatch) next(r *Record) (int64, error) {
	if len(o.buf)-o.at < binary.MaxVarintLen64 {
		o.need(binary.MaxVarintLen64)
	}
	length, n := binary.Varint(o.buf[o.at:])
	switch {
	case n == 0 && len(o.buf)-o.at < binary.MaxVarintLen64:
		return 0, o.cutShort()
	case n <= 0 || length < 6 || length > math.MaxInt64-recordOverhead-binary.MaxVarintLen64:
		return 0, fmt.Errorf("%w: got a length of %d", errRecord, length)
	}
	size := int64(n) + length + recordOverhead
	if o.in != nil && size > o.maxTaken-o.taken {
		return 0, fmt.Errorf("%w: got %d more records behind %d bytes, want up to %d bytes in all",
			ErrDecompressedTooLarge, o.left, o.taken, o.maxTaken)
	}
	o.taken += size
	if length > o.maxRecord {
		return size, o.passLong(r, n, length)
	}
	whole := n + int(length)
	if len(o.buf)-o.at < whole && !o.need(whole) {
		return 0, o.cutShort()
	}
	if err := o.parse(r, o.buf[o.at+n:o.at+whole], false); err != nil {
		return 0, err
	}
	o.left--
	o.at += whole
	return size, nil
}

// passLong passes over a record of length bytes, whose length field has n bytes. The error is errLongRecord if nothing else
// is wrong with the record.
func (o *openBatch) passLong(r *Record, n int, length int64) error {
	head := int(min(length, 1+2*binary.MaxVarintLen64))
	if !o.need(n + head) {
		return o.cutShort()
	}
	rest := o.buf[o.at+n:]
	if err := o.parse(r, rest[:min(int64(len(rest)), length)], true); err != nil {
		return err
	}
	o.left--
	if !o.discard(int64(n) + length) {
		return o.cutShort()
	}
	return fmt.Errorf("%w of %d bytes, want up to %d", errLongRecord, length, o.maxRecord)
}

// parse reads a record's fields; of a long one, only its offset.
func (o *openBatch) parse(r *Record, b []byte, long bool) error {
	f := fields{b: b}
	f.skip(1) // attributes: none are defined
	timeDelta, offsetDelta := f.varint(), f.varint()
	r.Offset, r.Time = o.base+offsetDelta, nanos(o.baseTime+timeDelta)
	if !long {
		r.Key, r.Value = f.nullable(), f.nullable()
	}
	if f.bad { // headers follow, which are not read here
		return fmt.Errorf("%w: cut short", errRecord)
	}
	if offsetDelta < o.seen || r.Offset > o.last {
		return fmt.Errorf("%w: got offset delta %d, want %d to %d", errRecord, offsetDelta, o.seen, o.last-o.base)
	}
	o.seen = offsetDelta + 1
	if o.attrs&attrAppendTime != 0 {
		r.Time = nanos(o.maxTime)
	}
	return nil
}

// need unpacks until buf has n bytes that are not read yet, and reports whether there are that many. The buffer grows only
// with the bytes that have come.
func (o *openBatch) need(n int) bool {
	for len(o.buf)-o.at < n && o.in != nil && o.err == nil {
		rest := o.buf[o.at:]
		if o.shared || len(rest) == cap(o.back) {
			o.back = make([]byte, max(chunk, min(n, 4*len(rest))))
			o.shared = false
		}
		o.buf, o.at = o.back[:copy(o.back, rest)], 0
		o.read()
	}
	return len(o.buf)-o.at >= n
}

// read fills the free room behind buf.
func (o *openBatch) read() {
	for idle := 0; len(o.buf) < len(o.back) && o.err == nil; idle++ {
		var n int
		n, o.err = o.in.Read(o.back[len(o.buf):])
		o.buf = o.back[:len(o.buf)+n]
		if n > 0 {
			idle = 0
		} else if idle > 100 && o.err == nil {
			o.err = io.ErrNoProgress
		}
	}
}

// discard passes over n bytes, and reports whether there were as many.
func (o *openBatch) discard(n int64) bool {
	for n > int64(len(o.buf)-o.at) {
		n -= int64(len(o.buf) - o.at)
		o.at = len(o.buf)
		if !o.need(1) {
			return false
		}
	}
	o.at += int(n)
	return true
}

// failed returns the error that ended the unpacking; io.EOF is the normal end.
func (o *openBatch) failed() error {
	switch {
	case o.err == nil || errors.Is(o.err, io.EOF):
		return io.EOF
	case errors.Is(o.err, errCodec), errors.Is(o.err, ErrDecompressedTooLarge):
		return o.err
	}
	return fmt.Errorf("%w: %w", errCodec, o.err)
}

// cutShort is the error of a record that is incomplete.
func (o *openBatch) cutShort() error {
	if err := o.failed(); !errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%w: got %d bytes, %d records before the last", errRecord, len(o.buf)-o.at, max(o.left-1, 0))
}

// fields reads the fields of one record; bad says that one was out of bounds.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) skip(n int) {
	if n > len(f.b) {
		f.b, f.bad = nil, true
		return
	}
	f.b = f.b[n:]
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad = true
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) nullable() []byte {
	n := f.varint()
	if f.bad || n < 0 {
		return nil
	}
	if n > int64(len(f.b)) {
		f.bad = true
		return nil
	}
	v := f.b[:n:n]
	f.b = f.b[n:]
	return v
}
