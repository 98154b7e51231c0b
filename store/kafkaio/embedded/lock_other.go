//go:build !unix

package embedded

// lock does nothing on this system: the embedded broker is for demos and tests, and those run on unix.
func lock(dir string) (unlock func() error, err error) {
	f, err := openLock(dir)
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}
