package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/509da70d/floodgate/store/rows"
)

// formatFile is the file that says in which format a store is written. It stands beside Badger's files, because another format may mean
// another version of Badger. Every version of floodgate writes it in this one way:
//
//	floodgate store FORMAT SINCE CHECKSUM
//
// SINCE is the first release that reads the format; CHECKSUM is the XXH64 of all before it, as 16 hexadecimal digits, and a line end
// follows. So damage does not look like a newer format.
const formatFile = "FORMAT"

// checkFormat reads the format of the store in dir, and writes it for a new store. The error is rows.ErrNewer if a newer version wrote the
// store, and ErrCorrupt if the file is damaged or missing.
func checkFormat(dir string, noSync bool) error {
	b, err := os.ReadFile(filepath.Join(dir, formatFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !Exists(dir):
		return writeFormat(dir, noSync)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return damage("read format", err)
	}
	var format uint32
	var since string
	if _, err := fmt.Sscanf(string(b), "floodgate store %d %s", &format, &since); err != nil || string(b) != formatLine(format, since) {
		return fmt.Errorf("%w: file %s: got %.64q, want a line such as %q", ErrCorrupt, formatFile, b, formatLine(rows.Format, rows.Since))
	}
	return rows.Check(format, since)
}

func formatLine(format uint32, since string) string {
	line := fmt.Sprintf("floodgate store %d %s ", format, since)
	return fmt.Sprintf("%s%016x\n", line, xxhash.Sum64String(line))
}

// writeFormat writes the file, so that a crash leaves all of it or none.
func writeFormat(dir string, noSync bool) error {
	path := filepath.Join(dir, formatFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return damage("write format", err)
	}
	_, err = f.WriteString(formatLine(rows.Format, rows.Since))
	if err == nil && !noSync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil && !noSync {
		err = syncDir(dir)
	}
	if err != nil {
		return damage("write format", err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
