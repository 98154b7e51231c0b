package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/509da70d/floodgate/analyzer/api"
	"github.com/509da70d/floodgate/analyzer/ingest/tail"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/store"
	"github.com/509da70d/floodgate/store/atomicfile"
)

// What is in the --data of serve, beside what package option names.
const (
	layoutName       = "serve.json"
	layoutVersion    = 1
	servePartitions  = 4 // the default of --partitions: a host that moves to Kafka needs as many there
	apiTokenName     = "api-token"
	apiTokensName    = "api-tokens"
	offsetsName      = "offsets.json"
	positionsDirName = "files"
)

// layout is the file that says what a data directory is.
type layout struct {
	Version    int `json:"version"`
	Partitions int `json:"partitions"`
}

// readLayout returns how many partitions the data in a directory has. In a new directory it makes the file.
func readLayout(dir string) (partitions int, err error) {
	path := filepath.Join(dir, layoutName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, clusterNoteName)); err == nil {
			return 0, command.Usagef("--data: got %s, which has the counts of an analyzer that reads Kafka; want a directory of its own for serve", dir)
		}
		data, err = json.Marshal(layout{layoutVersion, servePartitions})
		if err != nil {
			return 0, err
		}
		return servePartitions, atomicfile.Write(path, append(data, '\n'))
	}
	var l layout
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	switch {
	case err != nil:
		return 0, command.Usagef("--data: %s: %w", path, err)
	case l.Version != layoutVersion:
		return 0, command.Usagef("--data: %s: got version %d, want %d: another version of floodgate has written it", path, l.Version, layoutVersion)
	case l.Partitions < 1:
		return 0, command.Usagef("--data: %s: got %d partitions, want 1 or more", path, l.Partitions)
	}
	return l.Partitions, nil
}

// openData makes the directory and locks it.
func openData(dir string) (io.Closer, error) {
	if err := prepareData(dir); err != nil {
		return nil, command.Usagef("--data: %w", err)
	}
	lock, err := store.Lock(dir)
	if err != nil {
		return nil, fmt.Errorf("--data: %w; want a directory for each process", err)
	}
	return lock, nil
}

// openPositions opens the positions in files.
func openPositions(dir string, sync func() error) (*tail.Positions, error) {
	p, err := tail.OpenPositions(filepath.Join(dir, positionsDirName), sync)
	if errors.Is(err, tail.ErrPositions) {
		return nil, command.Usagef("--data: %w", err)
	}
	return p, err
}

// openTokens returns the path of the file of tokens, with one for this host. The token itself is in a file beside it.
func openTokens(dir string) (path string, err error) {
	path, own := filepath.Join(dir, apiTokensName), filepath.Join(dir, apiTokenName)
	_, err = os.Stat(path)
	_, missing := os.Stat(own)
	if err == nil && missing == nil {
		return path, nil
	}
	text, sum := api.NewToken()
	if err := atomicfile.Write(own, []byte(text+"\n")); err != nil {
		return "", err
	}
	return path, atomicfile.Write(path, fmt.Appendf(nil, "host admin %s\n", sum))
}
