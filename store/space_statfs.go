//go:build linux || darwin || freebsd

package store

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeBytes returns how many bytes an unprivileged process may still write to the filesystem of dir.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}

// allocated returns how many bytes a file takes on disk. Badger's files have holes: they are shorter than their length.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Blocks) * 512 //nolint:unconvert // the types differ between systems
	}
	return info.Size()
}
