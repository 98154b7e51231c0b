package kafkaio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/509da70d/floodgate/store/filelock"
)

// memberFile keeps the id that a member has in its group, so that the next process in its place can remove that member from
// the group. Otherwise the member of a killed process would keep its partitions, and delay every rebalance, until its
// session ends. A process keeps the file locked while it lives: so an id in an unlocked file is that of a dead process. A
// nil *memberFile stores nothing.
type memberFile struct{ file *os.File }

// maxMemberID bounds what is read of a file, in bytes. Ids of Apache Kafka are the client's id and 37 more.
const maxMemberID = 1024

// openMemberFile opens and locks the file, and returns the id in it. It returns nil and no id in three cases: path is empty; another
// process has locked the file; the system has no locks, so that nobody knows whether the process that wrote the id is dead.
func openMemberFile(path string) (m *memberFile, former string, err error) {
	if path == "" || !filelock.Supported {
		return nil, "", nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, "", fmt.Errorf("open member file: %w", err)
	}
	f, err := filelock.Open(path)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("open member file: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxMemberID))
	if err != nil {
		_ = f.Close() // the read error is the cause
		return nil, "", fmt.Errorf("read member file: %w", err)
	}
	return &memberFile{f}, strings.TrimSpace(string(b)), nil
}

// save replaces the id. It does not sync: only a crash of the machine can lose the id, and a restart of the machine takes
// as long as a session.
func (m *memberFile) save(id string) error {
	if m == nil {
		return nil
	}
	if err := m.file.Truncate(0); err != nil {
		return fmt.Errorf("write member file: %w", err)
	}
	if _, err := m.file.WriteAt([]byte(id), 0); err != nil {
		return fmt.Errorf("write member file: %w", err)
	}
	return nil
}

// close forgets the id and unlocks the file.
func (m *memberFile) close() error {
	if m == nil {
		return nil
	}
	err := m.save("")
	if closeErr := m.file.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close member file: %w", closeErr)
	}
	return err
}
