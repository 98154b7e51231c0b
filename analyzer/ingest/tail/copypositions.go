package tail

import (
	"bytes"
	"errors"
	"fmt"
)

// CopyPositions copies the positions in one directory to another, so that another process goes on from there with the same sources. Nobody
// may use either meanwhile. It does nothing if the other directory has the same positions, and returns an ErrOtherPositions if it has others.
// Without positions in the first directory there is nothing to copy.
func CopyPositions(from, to string) error {
	source, err := OpenPositions(from, nil)
	if err != nil {
		return err
	}
	target, err := OpenPositions(to, nil)
	if err != nil {
		return errors.Join(err, source.lock.Close())
	}
	switch {
	case source.written == nil, bytes.Equal(source.written, target.written):
	case target.written != nil:
		err = fmt.Errorf("%w: %s; want a directory without positions, or with those in %s", ErrOtherPositions, to, from)
	default:
		err = target.write(source.written)
	}
	if err != nil {
		err = fmt.Errorf("copy positions: %w", err)
	}
	return errors.Join(err, source.lock.Close(), target.lock.Close())
}
