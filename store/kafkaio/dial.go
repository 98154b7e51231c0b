package kafkaio

import (
	"context"
	"net"
)

// checkedDial makes connections that notice, before each write, that the other side has closed them. Pools hand out such
// connections after a broker's restart: the write would succeed and the answer be end of file, which leaves a produce
// unknown. Found before the write, it is known to be unsent and can be sent again.
func checkedDial(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &checkedConn{Conn: conn}, nil
	}
}

// checkedConn is a net.Conn whose Write returns errStale, with nothing written, once the peer has closed.
type checkedConn struct {
	net.Conn
}

func (c *checkedConn) Write(b []byte) (int, error) {
	if peerClosed(c.Conn) {
		return 0, errStale
	}
	return c.Conn.Write(b)
}
