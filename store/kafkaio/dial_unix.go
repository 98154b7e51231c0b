//go:build unix

package kafkaio

import (
	"net"
	"syscall"
)

// peerClosed reports whether a read of conn would return end of file or an error now. It takes nothing from the stream and
// does not wait; about half a microsecond.
func peerClosed(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false // in-memory networks of tests
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == nil:
			closed = n == 0 // end of file
		case err == syscall.EAGAIN, err == syscall.EWOULDBLOCK, err == syscall.EINTR: //nolint:errorlint // Recvfrom returns bare numbers
		default:
			closed = true
		}
	})
	return err != nil || closed
}
