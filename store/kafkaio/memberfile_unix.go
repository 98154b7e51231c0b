//go:build unix

package kafkaio

import (
	"os"
	"syscall"
)

// lockFile locks a file for this process, and reports whether that was possible. The lock ends when the process ends, for
// whatever reason.
func lockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
