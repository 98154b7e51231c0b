package kafkaio

import (
	"context"
	"net"
)

// checkedDial makes connections that notice, before each write, that the other side has closed them. After a broker's
// restart, pools return such connections. A write on one would succeed, and the answer would be end of file: the outcome of
// a produce would be unknown. If the closed connection is found before the write, the request is unsent and can be sent
// again.
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
