package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Bounds of Frames.
const (
	maxFrames      = 4096             // that wait for Kafka, or for the rest of their bytes
	maxFrameBytes  = 64 << 20         // of all of them together
	bodyTimeout    = 5 * time.Second  // for all bytes of a frame
	produceTimeout = 10 * time.Second // for the answer of Kafka
)

// FramesOptions are the options of Frames. All fields are needed.
type FramesOptions struct {
	Log        kafkaio.Producer     // where frames are appended, such as the client of this process's Link
	Topic      string               // of requests
	Key        schemas.PartitionKey // that the frames must be made with
	Partitions func() int           // how many the topic has; 0 while that is not known. Any goroutine calls it
}

// Frames answers POST on PathFrames: it appends frames of gates without access to Kafka to the topic of requests, as they are. All of them
// use one client of Kafka, which joins what goes to one broker in one request. It answers when Kafka has the frame. New frames are refused
// while too many wait.
//
// A frame keeps the producer and the sequence number that its sender gave it. So a sender that has got no answer sends the same frame
// again, here or to another process, and the analyzer counts it once. Nothing is kept between two frames: when this process is killed,
// nothing is lost that a sender does not know of.
//
// NewFrames makes one. It is an http.Handler. Any goroutine may use it. It asks for no key: that is for the server around it.
type Frames struct {
	options     FramesOptions
	fingerprint uint64
	buffers     sync.Pool // of *buffer

	mu    sync.Mutex // protects what follows
	stats FramesStats
}

// buffer is what is needed to check a frame. The bytes are needed until Kafka has them.
type buffer struct {
	bytes bytes.Buffer
	frame schemas.Frame
}

// FramesStats is a snapshot of Frames.
type FramesStats struct {
	Frames  int               // that wait now
	Bytes   int64             // of these frames
	Sent    uint64            // that Kafka has
	Refused map[string]uint64 // that were not confirmed, by reason; every reason has an element
}

// Why frames are not confirmed. The sender of a frame that is full, slow, unsent or unknown sends it again; it drops the others.
const (
	malformed   = "malformed"  // no frame, or not of a gate
	otherKey    = "key"        // made with another partition key
	otherNumber = "partitions" // made for another number of partitions
	misplaced   = "misplaced"  // entries of several partitions
	clockAhead  = "time"       // Kafka refuses the message's time
	refused     = "refused"    // Kafka refuses the message for another reason
	tooLarge    = "too_large"  // more than schemas.MaxFrame bytes
	full        = "full"       // too many frames wait
	slow        = "slow"       // its bytes did not come in time
	unsent      = "unsent"     // Kafka cannot be reached, and does not have it
	unknown     = "unknown"    // Kafka may have it
)

// NewFrames returns a handler that does nothing yet.
func NewFrames(o FramesOptions) *Frames {
	f := &Frames{options: o, fingerprint: o.Key.Fingerprint()}
	f.buffers.New = func() any { return new(buffer) }
	f.stats.Refused = make(map[string]uint64)
	for _, reason := range [...]string{malformed, otherKey, otherNumber, misplaced, clockAhead, refused, tooLarge, full, slow, unsent, unknown} {
		f.stats.Refused[reason] = 0
	}
	return f
}

// Stats returns a snapshot.
func (f *Frames) Stats() FramesStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Refused = maps.Clone(s.Refused)
	return s
}

// refusal is why a frame was not confirmed.
type refusal struct {
	reason string
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }

func refuse(reason string, format string, args ...any) error {
	return &refusal{reason, fmt.Errorf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (f *Frames) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	no, ok := errors.AsType[*refusal](f.take(w, r))
	f.count(no)
	if ok {
		no.answer(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// count counts a frame that was refused, or for nil one that was sent.
func (f *Frames) count(no *refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if no == nil {
		f.stats.Sent++
		return
	}
	f.stats.Refused[no.reason]++
}

// answer tells the sender.
func (r *refusal) answer(w http.ResponseWriter) {
	status := http.StatusBadRequest
	switch r.reason {
	case tooLarge:
		status = http.StatusRequestEntityTooLarge
	case full, slow, unsent:
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	case unknown:
		status = http.StatusGatewayTimeout
	}
	body, _ := json.Marshal(map[string]string{"reason": r.reason, "error": r.Error()}) // strings have no error
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the sender may have left
}

// take reads the frame of a request, checks it, and appends it to the log. The error is a refusal.
func (f *Frames) take(w http.ResponseWriter, r *http.Request) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // of a refused frame, too: its rest is read; a test's writer has no connection
	size := r.ContentLength
	if size < 0 {
		size = schemas.MaxFrame
	}
	if size > schemas.MaxFrame {
		return refuse(tooLarge, "frame: got %d bytes, want at most %d", size, schemas.MaxFrame)
	}
	if err := f.begin(size); err != nil {
		return err
	}
	defer f.end(size)
	b, ok := f.buffers.Get().(*buffer)
	if !ok {
		panic("BUG: the pool has something else")
	}
	defer f.buffers.Put(b)
	if err := b.read(w, r, int(size)); err != nil {
		return err
	}
	_ = rc.SetReadDeadline(time.Time{}) // the connection lives on while Kafka is asked
	partition, err := f.check(b)
	if err != nil {
		return err
	}
	return f.append(r.Context(), partition, kafkaio.Message{Time: b.frame.Flushed, Value: b.bytes.Bytes()})
}

// begin makes room for a frame of a size.
func (f *Frames) begin(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats.Frames >= maxFrames || f.stats.Bytes+size > maxFrameBytes {
		return refuse(full, "too many frames: got %d of %d bytes that wait for Kafka, want less", f.stats.Frames, f.stats.Bytes)
	}
	f.stats.Frames++
	f.stats.Bytes += size
	return nil
}

func (f *Frames) end(size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Frames--
	f.stats.Bytes -= size
}

// read reads the body of a request, of about size bytes.
func (b *buffer) read(w http.ResponseWriter, r *http.Request, size int) error {
	b.bytes.Reset()
	b.bytes.Grow(size + bytes.MinRead)
	if _, err := b.bytes.ReadFrom(http.MaxBytesReader(w, r.Body, schemas.MaxFrame)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return refuse(tooLarge, "frame: got more than %d bytes, want at most as many", schemas.MaxFrame)
		}
		return refuse(slow, "read the frame: %w", err)
	}
	return nil
}

// check decodes a frame, and returns the partition that all of its entries belong to.
func (f *Frames) check(b *buffer) (partition int, err error) {
	n := f.options.Partitions()
	if n <= 0 {
		return 0, refuse(unsent, "the number of partitions is not known yet")
	}
	fr := &b.frame
	if err := fr.Decode(b.bytes.Bytes()); err != nil {
		return 0, refuse(malformed, "frame: %w", err)
	}
	switch {
	case fr.Source || len(fr.Entries) == 0:
		return 0, refuse(malformed, "frame: got source %v and %d entries, want the entries of a server's requests", fr.Source, len(fr.Entries))
	case fr.Fingerprint != f.fingerprint:
		return 0, refuse(otherKey, "frame: got a partition key with fingerprint %016x, want that of this process", fr.Fingerprint)
	case int64(fr.Partitions) != int64(n):
		return 0, refuse(otherNumber, "frame: got %d partitions, want %d", fr.Partitions, n)
	}
	for i := range fr.Entries {
		e := &fr.Entries[i]
		p := schemas.Partition(f.options.Key.Hash(e.Kind, e.ID), n)
		switch {
		case e.Kind == schemas.KindCanary:
			return 0, refuse(malformed, "frame: entry %d: got a canary, want none: a feed has no answer to it", i)
		case i > 0 && p != partition:
			return 0, refuse(misplaced, "frame: entry %d: got one of partition %d after those of %d, want one partition", i, p, partition)
		}
		partition = p
	}
	return partition, nil
}

// append appends a frame to the log. It goes on when its sender has left, because most of the work is done.
func (f *Frames) append(ctx context.Context, partition int, m kafkaio.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), produceTimeout)
	defer cancel()
	_, err := f.options.Log.Produce(ctx, f.options.Topic, partition, m)
	if err == nil {
		return nil
	}
	reason, final := kafkalink.Rejection(err)
	switch {
	case final && reason == record.ClockAhead:
		return refuse(clockAhead, "%w", err)
	case final:
		return refuse(refused, "%w", err)
	case kafkaio.OutcomeOf(err) == kafkaio.Unknown:
		return refuse(unknown, "%w", err)
	}
	return refuse(unsent, "%w", err)
}
