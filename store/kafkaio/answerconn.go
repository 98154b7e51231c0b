package kafkaio

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/segmentio/kafka-go/protocol"
)

// answerConn is a connection to a broker that shows kafka-go no answer whose lengths do not fit. kafka-go allocates an array
// or a string by the length in the answer, before it reads the elements: one bit that flips on the network, or a server
// that does not speak Kafka, makes it ask for terabytes, and the process ends. So Read takes each answer that kafka-go will
// decode whole, walks over it, and returns errWrongAnswer if a length is beyond its end. Answers that this package decodes
// itself pass as they come.
//
// One request is in flight at a time, as kafka-go has it. Read and Write are called by one goroutine.
type answerConn struct {
	net.Conn
	head    []byte // of the request that is being written, up to requestHead bytes
	left    int64  // of that request, to be written
	pending layout // of the answer that comes next, if it is to be checked
	answer  []byte // checked, and not yet read
	err     error  // of the last Read: kafka-go reads once more after an error, and nothing more will come
}

// requestHead is the length of a request's size, API, and version, in bytes.
const requestHead = 8

// Write passes b on, and notes which answer to expect.
func (c *answerConn) Write(b []byte) (int, error) {
	if err := c.note(b); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// note reads the heads of the requests in b.
func (c *answerConn) note(b []byte) error {
	for len(b) > 0 {
		if c.left == 0 {
			n := min(requestHead-len(c.head), len(b))
			c.head = append(c.head, b[:n]...)
			if b = b[n:]; len(c.head) < requestHead {
				return nil
			}
			if err := c.expect(); err != nil {
				return err
			}
		}
		n := min(c.left, int64(len(b)))
		b, c.left = b[n:], c.left-n
		if c.left == 0 {
			c.head = c.head[:0]
		}
	}
	return nil
}

// expect notes which answer follows the request whose head is complete.
func (c *answerConn) expect() error {
	api, version := int16(binary.BigEndian.Uint16(c.head[4:])), int16(binary.BigEndian.Uint16(c.head[6:]))
	if api == int16(protocol.SaslHandshake) && version == 0 {
		// What follows it has no head, and kafka-go trusts its length.
		return fmt.Errorf("%w: %w: got a SASL handshake of version 0, want 1 (Kafka 1.0)", errWrongAnswer, ErrVersion)
	}
	c.left = int64(binary.BigEndian.Uint32(c.head)) - (requestHead - 4)
	c.pending = answerLayouts()[layoutKey{api, version}]
	return nil
}

// Read returns the next bytes of an answer, or an error before any byte of a wrong one. The connection is of no use after that error.
func (c *answerConn) Read(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.pending != nil {
		if c.answer, c.err = readChecked(c.Conn, c.pending); c.err != nil {
			return 0, c.err
		}
		c.pending = nil
	}
	if c.answer == nil {
		return c.Conn.Read(b)
	}
	n := copy(b, c.answer)
	if c.answer = c.answer[n:]; len(c.answer) == 0 {
		c.answer = nil // an idle connection keeps no memory
	}
	return n, nil
}

// readChecked reads an answer with its size and correlation id, and checks the lengths in the rest.
func readChecked(r io.Reader, fields layout) ([]byte, error) {
	const idBytes = 4
	answer, err := readUpTo(r, make([]byte, 0, 4+idBytes), 4)
	if err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(answer)))
	if size < idBytes || size > maxResponse {
		return nil, fmt.Errorf("read answer: %w: got a size of %d bytes%s, want %d to %d", errWrongAnswer, size, otherProtocol(answer), idBytes, maxResponse)
	}
	if answer, err = readUpTo(r, answer, 4+size); err != nil {
		return nil, err
	}
	w := &wire{b: answer[4+idBytes:]}
	if fields(w); w.err != nil {
		return nil, fmt.Errorf("read answer: %w", w.err)
	}
	return answer, nil
}

// otherProtocol returns a hint for people if the first bytes of an answer are HTTP or TLS.
func otherProtocol(head []byte) string {
	switch {
	case string(head[:4]) == "HTTP":
		return " (it is HTTP: the address is not one of a Kafka listener)"
	case head[0] == 0x15 && head[1] == 3: // an alert of TLS (RFC 8446, appendix B)
		return " (it is TLS: the listener wants an encrypted connection)"
	}
	return ""
}
