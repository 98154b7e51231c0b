package store

import "io"

// Lock locks a directory of stores for this process, until the result is closed. If another process has the lock, the error is
// ErrLocked and names that process. Two processes that use different stores of one directory need it: Open locks single stores
// only. On systems without locks that end with their process, Lock does nothing.
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
