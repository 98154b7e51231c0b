package analyzer

import (
	"fmt"
	"time"

	"github.com/509da70d/floodgate/analyzer/failpoint"
	"github.com/509da70d/floodgate/analyzer/histogram"
	"github.com/509da70d/floodgate/store"
)

// checkpointer is what a committer needs of a store; *store.Store implements it.
type checkpointer interface {
	Commit(c store.Checkpoint, changes []store.Change) error
	MaxChanges() int
	MaxBytes() int
}

// committer writes checkpoints, one at a time, so that the fold does not wait for an fsync.
type committer struct {
	store     checkpointer
	sync      func() error         // makes durable what the log has
	took      *histogram.Histogram // how long checkpoints took, in seconds
	jobs      chan checkpointJob
	done      chan result   // one for each job
	busy      bool          // owned by the owner's goroutine
	unwritten checkpointJob // owned by the owner's goroutine: what could not be written because the disk is full
}

type checkpointJob struct {
	at      store.Checkpoint
	changes []store.Change
}

// result is the error of a job, and the part of the job that was not written.
type result struct {
	unwritten checkpointJob
	err       error
}

func newCommitter(s checkpointer, sync func() error, took *histogram.Histogram) *committer {
	return &committer{store: s, sync: sync, took: took, jobs: make(chan checkpointJob, 1), done: make(chan result, 1)}
}

// start gives the committer a job; it must not be busy.
func (c *committer) start(j checkpointJob) {
	c.busy, c.unwritten = true, checkpointJob{}
	c.jobs <- j
}

func (c *committer) close() { close(c.jobs) }

func (c *committer) run() {
	for j := range c.jobs {
		began := time.Now()
		unwritten, err := c.write(j)
		c.took.Observe(time.Since(began).Seconds())
		c.done <- result{unwritten, err}
	}
}

// write makes the log durable, and then writes a checkpoint. Otherwise a power loss could leave a store that counts what the log has lost.
func (c *committer) write(j checkpointJob) (unwritten checkpointJob, err error) {
	if err := c.sync(); err != nil {
		return j, fmt.Errorf("sync the log: %w", err)
	}
	return commit(c.store, j)
}

// commit writes a checkpoint. What fits goes into one transaction. Deletions that do not fit follow in further transactions: until then the
// store holds rows that have expired, which changes no count. A checkpoint whose other changes do not fit, as after a change of rules, is
// split. The store is marked as incomplete until the last part of it is written, so that after a crash in between all is counted again from
// the log. commit returns the part that an error has left to do.
func commit(s checkpointer, j checkpointJob) (unwritten checkpointJob, err error) {
	for first := true; first || len(j.changes) > 0; first = false {
		n := fitting(s, j.changes)
		at := j.at
		if n < len(j.changes) && j.changes[n].Value != nil { // deletions come last
			at.Next = store.Incomplete
		}
		failpoint.Here(failpoint.CommitBegins)
		if err := s.Commit(at, j.changes[:n]); err != nil {
			return j, fmt.Errorf("commit %d rows: %w", n, err)
		}
		failpoint.Here(failpoint.CommitEnds)
		j.changes = j.changes[n:]
		if len(j.changes) > 0 {
			failpoint.Here(failpoint.PartCommits)
		}
	}
	return checkpointJob{}, nil
}

// fitting returns how many of the changes fit one transaction.
func fitting(s checkpointer, changes []store.Change) int {
	rows, bytes := s.MaxChanges(), s.MaxBytes()
	for i := range changes {
		bytes -= store.Bytes(&changes[i])
		if i == rows || bytes < 0 {
			return i
		}
	}
	return len(changes)
}
