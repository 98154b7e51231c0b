package option

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/509da70d/floodgate/schemas"
)

// Key is --partition-key-file: the secret that spreads callers over partitions.
type Key struct{ Path string }

// Add adds the flag to a subcommand.
func (k *Key) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.Path, "partition-key-file", "",
		"`file` with 32 hexadecimal digits, the secret that spreads callers over partitions; the same for all servers (default: a public one)")
}

// Load returns the key in the file, or the public one if no file is named.
func (k *Key) Load() (schemas.PartitionKey, error) {
	if k.Path == "" {
		return schemas.DefaultPartitionKey(), nil
	}
	key, err := readKey(k.Path)
	if err != nil {
		return key, fmt.Errorf("read partition key: %w", err)
	}
	return key, nil
}

// maxKeyFile is how many bytes of a key file are read: the digits, and a generous amount of white space.
const maxKeyFile = 4 << 10

func readKey(path string) (schemas.PartitionKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return schemas.PartitionKey{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return schemas.PartitionKey{}, err
	}
	key, err := schemas.ParsePartitionKey(string(text))
	if err != nil {
		return schemas.PartitionKey{}, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// Secret returns the key in the file, which must not be the public one. If create is set and there is no file, Secret makes
// one with a random key, and returns true. It never changes a file.
func (k *Key) Secret(create bool) (key schemas.PartitionKey, made bool, err error) {
	key, err = readKey(k.Path)
	if create && errors.Is(err, os.ErrNotExist) {
		if made, err = makeKey(k.Path); err == nil {
			key, err = readKey(k.Path)
		}
	}
	switch {
	case !create && errors.Is(err, os.ErrNotExist):
		return key, false, fmt.Errorf("read partition key: %w; --create makes it", err)
	case err != nil:
		return key, false, fmt.Errorf("read partition key: %w", err)
	case key == schemas.DefaultPartitionKey():
		return key, false, fmt.Errorf("read partition key: %s: got the public key, want a random one: remove the file, and --create makes it", k.Path)
	}
	return key, made, nil
}

// makeKey makes a file with a random key that only its owner can read, and the directories that lead to it. The file appears
// whole or not at all. If there is a file already, nothing is changed and made is false.
func makeKey(path string) (made bool, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as /etc is: the file in it is its owner's alone
		return false, fmt.Errorf("make partition key: %w", err)
	}
	f, err := os.CreateTemp(dir, ".partition-key-*") // with mode 0600
	if err != nil {
		return false, fmt.Errorf("make partition key: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	var key schemas.PartitionKey
	_, _ = rand.Read(key[:]) // never fails
	_, werr := f.WriteString(hex.EncodeToString(key[:]) + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return false, fmt.Errorf("make partition key: %w", err)
	}
	err = os.Link(f.Name(), path) // fails if there is a file; a rename would replace it
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("make partition key: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return true, fmt.Errorf("make partition key: %w", err)
	}
	return true, nil
}

// syncDir syncs a directory, so that the names in it survive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
