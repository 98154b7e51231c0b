package httpd

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Listen listens on host:port, or on the Unix socket of unix:PATH. The socket of a process that has ended is replaced. An error names
// the flag that the address is from.
func Listen(flag, address string) (net.Listener, error) {
	l, err := listen(address)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return l, nil
}

func listen(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return net.Listen("tcp", address)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close() // the connection only tested whether another process listens
		return nil, fmt.Errorf("listen: %s is in use by another process", path)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	return net.Listen("unix", path)
}
