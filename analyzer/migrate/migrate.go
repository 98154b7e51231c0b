package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"

	"github.com/509da70d/floodgate/analyzer"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// Errors of Run. Test with errors.Is.
var (
	// ErrNotFresh says that the topics of the target hold something that this migration has not written, or have another number of
	// partitions. Nothing was written.
	ErrNotFresh = errors.New("the topics are not fresh")
	// ErrCountedOn says that the source has counted since an earlier call of Run took its counts.
	ErrCountedOn = errors.New("the source has counted on")
	// ErrDiffers says that the snapshot of the target does not have what the source has counted.
	ErrDiffers = errors.New("the counts of the target differ from those of the source")
)

// Target is where the counts go. A *kafkaio.Client is one.
type Target interface {
	kafkaio.Log
	Partitions(ctx context.Context, topic string) (int, error)
}

var _ Target = (*kafkaio.Client)(nil)

// Config configures a migration.
type Config struct {
	Source kafkaio.Log // the log of the source, which nobody else reads or writes meanwhile
	Target Target
	// Owner is as the owners of the source have it. Partition, Dir and Lease are set for each; Fold.Partitions says how many partitions there
	// are. Rules are those that count next: the source changes to them, as at any start.
	Owner  analyzer.OwnerConfig
	Data   string             // has the stores of the source: Data/0 and on. Nobody else has them open
	Dir    string             // for a note and the stores of the target: Dir/0 and on
	Topics schemas.TopicNames // of the target. Rejects is not used; Events may be empty
	Logger *slog.Logger       // nil discards

	// Progress, if set, is called before each step of each partition, in the goroutine of Run. A migration has Steps of them for each
	// partition, or fewer if it goes on from an interrupted one.
	Progress func(partition int, step Step)
}

// Step is a step that a migration takes with each partition.
type Step int

// The steps, in their order.
const (
	Counting   Step = iota // the rest of the log of the source
	Storing                // the counts, in Dir
	Publishing             // closures and snapshot, and comparing them
	Steps      int  = iota
)

// String says what a step does.
func (s Step) String() string { return [...]string{"counting", "storing", "publishing"}[s] }

// Report says what was migrated.
type Report struct {
	Partitions []Partition
	Again      bool // an earlier call of Run had migrated all: this one did nothing
}

// Partition is the counts of one partition.
type Partition struct {
	From    int64 // the offset behind what was counted in the log of the source, …
	Base    int64 // … and the offset of the target that it became
	Rows    int64 // of rules and callers, and all others
	Records int   // control records that are remembered
}

// migration is one call of Run.
type migration struct {
	Config

	partitions int
	note       note
	report     Report
	copies     map[schemas.ControlID]int64 // the offsets of the control records of the source in the control topic of the target
}

// Run brings the counts of all partitions to the target, and waits for as long as the brokers are away. If ctx ends before it has done so,
// the error is that of ctx, and Run can be called again.
func Run(ctx context.Context, c Config) (Report, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Owner.Logger == nil {
		c.Owner.Logger = c.Logger
	}
	if c.Progress == nil {
		c.Progress = func(int, Step) {}
	}
	m := &migration{Config: c, partitions: max(1, c.Owner.Fold.Partitions)}
	found, err := m.readNote()
	if err != nil {
		return Report{}, err
	}
	if found && m.note.Done {
		m.report.Again = true
		for p := range m.partitions {
			m.report.Partitions = append(m.report.Partitions, m.note.Sources[p].partition())
		}
		return m.report, nil
	}
	if err := m.checkDirs(found); err != nil {
		return Report{}, err
	}
	if err := m.checkTarget(ctx); err != nil {
		return Report{}, fmt.Errorf("check the topics of the target: %w", err)
	}
	if !found {
		err = m.finishSources(ctx)
	} else {
		err = m.checkSources()
	}
	if err != nil {
		return Report{}, err
	}
	if err := m.bring(ctx); err != nil {
		return Report{}, err
	}
	m.note.Done = true
	return m.report, m.writeNote()
}

// checkDirs checks which stores there are.
func (m *migration) checkDirs(begun bool) error {
	for p := range m.partitions {
		if dir := m.sourceDir(p); !store.Exists(dir) {
			return fmt.Errorf("got no store in %s, want that of partition %d of the source", dir, p)
		}
		if dir := m.targetDir(p); !begun && store.Exists(dir) {
			return fmt.Errorf("got a store in %s, and no %s beside it: want a directory of its own for the migration", dir, NoteName)
		}
	}
	return nil
}

// bring writes what the target needs, after the note is written.
func (m *migration) bring(ctx context.Context) error {
	if err := m.markTopics(ctx); err != nil {
		return fmt.Errorf("mark the topics of the target: %w", err)
	}
	if err := m.copyRecords(ctx); err != nil {
		return fmt.Errorf("copy control records: %w", err)
	}
	for p := range m.partitions {
		m.Progress(p, Storing)
		if err := m.stage(ctx, p); err != nil {
			return fmt.Errorf("make the store of partition %d: %w", p, err)
		}
		m.Progress(p, Publishing)
		if err := m.publish(ctx, p); err != nil {
			return fmt.Errorf("publish partition %d: %w", p, err)
		}
		s := &m.note.Sources[p]
		m.report.Partitions = append(m.report.Partitions, s.partition())
		m.Logger.Info("migrated", "partition", p, "rows", s.Rows, "from", s.Next, "base", s.Base)
	}
	return nil
}

// owner returns the configuration of an owner of the source.
func (m *migration) owner(p int) analyzer.OwnerConfig {
	c := m.Owner
	c.Fold.Partition, c.Dir, c.Lease, c.API = p, m.sourceDir(p), nil, ""
	return c
}

func (m *migration) sourceDir(p int) string { return filepath.Join(m.Data, strconv.Itoa(p)) }

func (m *migration) targetDir(p int) string { return filepath.Join(m.Dir, strconv.Itoa(p)) }
