//go:build linux || darwin || freebsd

package store

import "golang.org/x/sys/unix"

// freeBytes returns how much an unprivileged process may still write to the filesystem of dir.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}
