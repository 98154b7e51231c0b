package kafkaio

import (
	"context"
	"crypto/tls"
	"net"
)

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// checkedDial makes connections for kafka-go's pool: a checkedConn, then TLS if config is not nil, then an answerConn, which
// must see what the broker says and not its encryption.
func checkedDial(dial dialFunc, config *tls.Config) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn = &checkedConn{Conn: conn}
		if config != nil {
			encrypted := tls.Client(conn, forServer(config, address))
			if err := encrypted.HandshakeContext(ctx); err != nil {
				_ = conn.Close() // the handshake's error says more
				return nil, err
			}
			conn = encrypted
		}
		return &answerConn{Conn: conn}, nil
	}
}

// forServer returns config with the name that the certificate of the server at address must have.
func forServer(config *tls.Config, address string) *tls.Config {
	if config.ServerName != "" {
		return config
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	config = config.Clone()
	config.ServerName = host
	return config
}

// checkedConn is a net.Conn whose Write returns errStale, with nothing written, once the peer has closed. After a broker's
// restart, pools return such connections. A write on one would succeed, and the answer would be end of file: the outcome of
// a produce would be unknown. If the closed connection is found before the write, the request is unsent and can be sent
// again.
type checkedConn struct {
	net.Conn
}

func (c *checkedConn) Write(b []byte) (int, error) {
	if peerClosed(c.Conn) {
		return 0, errStale
	}
	return c.Conn.Write(b)
}
