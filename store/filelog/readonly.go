package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// Reader reads the log in a directory and changes nothing there, also while another process has the log open. It has what was there when
// it was opened: the log ends before the first batch that is not whole, where Open would end it too, and what is appended later is not seen.
// A segment that is trimmed meanwhile may be lost for the Reader: Fetch returns a kafkaio.RangeError then, and a Cursor passes over it as
// kafkaio.SkipLost. The methods are safe for concurrent use, and return the errors that those of Log return.
type Reader struct{ log *Log }

var _ kafkaio.Fetcher = (*Reader)(nil)

// openTries is how often OpenReadOnly begins anew because a segment was trimmed between its listing and its opening.
const openTries = 100

// OpenReadOnly opens the log in a directory, which exists, with all topics that are there. A test of the error for fs.ErrNotExist says
// whether there is none.
func OpenReadOnly(dir string) (*Reader, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	for try := 1; ; try++ {
		l, err := Open(dir, Options{disk: readOnlyDisk{}})
		if err == nil {
			return &Reader{l}, nil
		}
		if try == openTries || !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// Partitions returns how many partitions a topic has.
func (r *Reader) Partitions(ctx context.Context, topic string) (int, error) {
	return r.log.Partitions(ctx, topic)
}

// Range returns the first offset that a partition has for this Reader, and the one behind the last.
func (r *Reader) Range(ctx context.Context, topic string, partition int) (start, end int64, err error) {
	return r.log.Range(ctx, topic, partition)
}

// Fetch returns records from f.Offset on. At the end it waits for as long as the request says, though none will come.
func (r *Reader) Fetch(ctx context.Context, f kafkaio.FetchRequest) (kafkaio.Batch, error) {
	for {
		b, err := r.log.Fetch(ctx, f)
		if !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
		_, p, missing := r.log.find(f.Topic, f.Partition)
		if missing != nil || !p.forget(f.Offset) {
			return b, err
		}
	}
}

// Close ends the calls in flight and closes all files.
func (r *Reader) Close() error { return r.log.Close() }

// forget takes the segment that holds an offset, which was trimmed, and those before it out of the list. It returns false if it took none.
// The last segment stays: it is open since the log was, so that it can be read although it was trimmed.
func (p *partition) forget(offset int64) (some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.segments) > 1 && p.segments[0].base <= offset {
		p.segments, some = p.segments[1:], true
	}
	return some
}

// readOnlyDisk is that of the operating system, without changes. What a Log would cut off or remove when it opens is missing in its memory
// only.
type readOnlyDisk struct{ osDisk }

// readOnlyFile is a segment that others may append to.
type readOnlyFile struct{ osFile }

func (readOnlyFile) Truncate(int64) error                   { return nil }
func (readOnlyFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (readOnlyFile) Sync() error                            { return nil }

func (readOnlyDisk) open(path string, _ bool) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return readOnlyFile{osFile{f}}, nil
}

func (readOnlyDisk) makeDir(path string) error {
	_, err := os.Stat(path)
	return err
}

func (readOnlyDisk) remove(string) error         { return nil }
func (readOnlyDisk) rename(string, string) error { return nil }
func (readOnlyDisk) syncDir(string) error        { return nil }
