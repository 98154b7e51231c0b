//go:build unix

package tail

import (
	"os"
	"syscall"
)

// inode returns the device and the inode of a file.
func inode(info os.FileInfo) (device, inode uint64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return uint64(s.Dev), uint64(s.Ino) //nolint:unconvert // their types differ between systems
}
