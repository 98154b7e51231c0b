package tail

import (
	"bytes"
	"errors"
	"fmt"
)

// CopyPositions copies the positions in directory from to directory to, so that another process goes on from there with the same sources. It
// locks both. It does nothing if to has the same positions, or from has none, and returns an ErrOtherPositions if to has other ones.
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
