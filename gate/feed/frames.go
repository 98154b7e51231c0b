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
	"github.com/509da70d/floodgate/schemas"
)

// Bounds of Frames.
const (
	maxFrames      = 4096             // that wait for Kafka, or for the rest of their bytes
	maxFrameBytes  = 64 << 20         // of all of them together
	bodyTimeout    = 5 * time.Second  // for all bytes of a frame
	forwardTimeout = 10 * time.Second // for the answer of Kafka
)

// Frames answers POST on PathFrames: it forwards frames of gates without access to Kafka. It answers when Kafka has the frame, and keeps
// nothing between two frames: when this process is killed, nothing is lost that a sender does not know of. New frames are refused while too
// many wait.
//
// NewFrames makes one. It is an http.Handler. Any goroutine may use it. It asks for no key: that is for the server around it.
type Frames struct {
	forward func(context.Context, []byte) error
	buffers sync.Pool // of *bytes.Buffer

	mu    sync.Mutex // protects what follows
	stats FramesStats
}

// FramesStats is a snapshot of Frames.
type FramesStats struct {
	Frames  int               // that wait now
	Bytes   int64             // of these frames
	Sent    uint64            // that Kafka has
	Refused map[string]uint64 // that were not confirmed, by reason: a kafkalink.FrameReason, "too_large", "full" or "slow"
}

// Why frames are refused before they are forwarded. The sender of one that is full or slow sends it again.
const (
	frameTooLarge kafkalink.FrameReason = "too_large" // more than schemas.MaxFrame bytes
	frameFull     kafkalink.FrameReason = "full"      // too many frames wait
	frameSlow     kafkalink.FrameReason = "slow"      // its bytes did not come in time
)

// NewFrames returns a handler that passes frames to a function: Forward of this process's Link.
func NewFrames(forward func(ctx context.Context, frame []byte) error) *Frames {
	f := &Frames{forward: forward}
	f.buffers.New = func() any { return new(bytes.Buffer) }
	f.stats.Refused = make(map[string]uint64)
	for _, reason := range [...]kafkalink.FrameReason{
		kafkalink.FrameMalformed, kafkalink.FrameKey, kafkalink.FramePartitions, kafkalink.FrameMisplaced, kafkalink.FrameTime,
		kafkalink.FrameRefused, frameTooLarge, frameFull, frameSlow, kafkalink.FrameUnsent, kafkalink.FrameUnknown,
	} {
		f.stats.Refused[string(reason)] = 0
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

// ServeHTTP implements http.Handler.
func (f *Frames) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := f.take(w, r)
	if err == nil {
		f.count("")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	reason := kafkalink.FrameUnknown
	if refused, ok := errors.AsType[*kafkalink.FrameError](err); ok {
		reason = refused.Reason
	}
	f.count(reason)
	status := http.StatusBadRequest
	switch reason {
	case frameTooLarge:
		status = http.StatusRequestEntityTooLarge
	case frameFull, frameSlow, kafkalink.FrameUnsent:
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
	case kafkalink.FrameUnknown:
		status = http.StatusGatewayTimeout
	}
	body, _ := json.Marshal(map[string]string{"reason": string(reason), "error": err.Error()}) // strings have no error
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the sender may have left
}

// count counts a frame that was refused for a reason, or for none one that was sent.
func (f *Frames) count(reason kafkalink.FrameReason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reason == "" {
		f.stats.Sent++
		return
	}
	f.stats.Refused[string(reason)]++
}

// take reads the frame of a request, and forwards it. It goes on when the sender has left, because most of the work is done then, and because
// the end of bodyTimeout also ends the request's context.
func (f *Frames) take(w http.ResponseWriter, r *http.Request) error {
	// Of a refused frame, too, because the server reads its rest. A test's writer has no connection.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	size := r.ContentLength
	if size < 0 {
		size = schemas.MaxFrame
	}
	if size > schemas.MaxFrame {
		return refuse(frameTooLarge, "got %d bytes, want at most %d", size, schemas.MaxFrame)
	}
	if err := f.begin(size); err != nil {
		return err
	}
	defer f.end(size)
	b, ok := f.buffers.Get().(*bytes.Buffer)
	if !ok {
		panic("BUG: the pool has something else")
	}
	defer f.buffers.Put(b)
	b.Reset()
	b.Grow(int(size) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, schemas.MaxFrame)); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return refuse(frameTooLarge, "got more than %d bytes, want at most as many", schemas.MaxFrame)
		}
		return refuse(frameSlow, "read it: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), forwardTimeout)
	defer cancel()
	return f.forward(ctx, b.Bytes())
}

func refuse(reason kafkalink.FrameReason, format string, args ...any) error {
	return &kafkalink.FrameError{Reason: reason, Err: fmt.Errorf("frame: "+format, args...)}
}

// begin makes room for a frame of a size.
func (f *Frames) begin(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats.Frames >= maxFrames || f.stats.Bytes+size > maxFrameBytes {
		return refuse(frameFull, "%d frames of %d bytes wait already, want less", f.stats.Frames, f.stats.Bytes)
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
