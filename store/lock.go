package store

import "io"

// Lock takes a directory of stores for this process until it is closed, or returns ErrLocked, with the process that has it.
// It is for what must not have two users although each of them would have stores of its own in it. On systems without locks
// that end with their process it does nothing.
func Lock(dir string) (io.Closer, error) {
	f, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return io.NopCloser(nil), nil
	}
	return f, nil
}
