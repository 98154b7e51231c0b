package kafkaio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
)

// script is a connection that takes what is written and answers with fixed bytes.
type script struct {
	net.Conn
	written bytes.Buffer
	answers io.Reader
}

func (s *script) Write(b []byte) (int, error) { return s.written.Write(b) }
func (s *script) Read(b []byte) (int, error)  { return s.answers.Read(b) }

// ask writes a request in pieces of the given size.
func ask(t *testing.T, c net.Conn, version int16, request protocol.Message, piece int) error {
	t.Helper()
	var b bytes.Buffer
	if err := protocol.WriteRequest(&b, version, 7, "test", request); err != nil {
		t.Fatal(err)
	}
	for b.Len() > 0 {
		if _, err := c.Write(b.Next(piece)); err != nil {
			return err
		}
	}
	return nil
}

func framed(body []byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), 0, 0, 0, 7), body...)
}

// TestAnswersPassAsTheyCame has one request after the other on one connection, written and read in pieces of any size.
func TestAnswersPassAsTheyCame(t *testing.T) {
	versions := framed(encodeAnswer(t, &apiversions.Response{ApiKeys: []apiversions.ApiKeyResponse{{ApiKey: 3, MaxVersion: 8}}}, 0))
	topics := framed(encodeAnswer(t, &metadata.Response{ClusterID: "c", Topics: []metadata.ResponseTopic{{Name: "t"}}}, 8))
	unknown := []byte("\x7f\xff\xff\xffwhat this package decodes itself")
	for piece := 1; piece < 60; piece++ {
		s := &script{answers: bytes.NewReader(bytes.Join([][]byte{versions, unknown, topics, versions}, nil))}
		c := &answerConn{Conn: s}
		for i, step := range []struct {
			version int16
			request protocol.Message
			want    []byte
		}{
			{0, &apiversions.Request{}, versions},
			{9, nil, unknown},
			{8, &metadata.Request{TopicNames: []string{"t"}}, topics},
			{0, &apiversions.Request{}, versions},
		} {
			if step.request == nil {
				if _, err := c.Write([]byte{0, 0, 0, 6, 0, 1, 0, 11, 1, 2}); err != nil { // a fetch
					t.Fatal(err)
				}
			} else if err := ask(t, c, step.version, step.request, piece); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 0, len(step.want))
			for len(got) < len(step.want) {
				n, err := c.Read(got[len(got):min(len(got)+piece, cap(got))])
				if err != nil {
					t.Fatalf("pieces of %d, answer %d: %v after %d bytes", piece, i, err, len(got))
				}
				got = got[:len(got)+n]
			}
			if !bytes.Equal(got, step.want) {
				t.Fatalf("pieces of %d, answer %d: got %x, want %x", piece, i, got, step.want)
			}
		}
	}
}

// TestWrongAnswersAreNotShown gives no byte of an answer whose lengths are beyond its end, or beyond any answer.
func TestWrongAnswersAreNotShown(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		want   string
	}{
		"an array without its elements": {"\x00\x00\x00\x0e\x00\x00\x00\x07\x00\x00\x61\x74\x65\x00\x00\x00\x00\x00", "got an array of 1635017984 in 4 bytes"},
		"no answer":                     {"", "EOF"},
		"half an answer":                {"\x00\x00\x00\x0e\x00\x00\x00\x07\x00\x00", "unexpected EOF"},
		"a negative size":               {"\xff\xff\xff\xff\x00\x00\x00\x07", "got a size of -1 bytes, want 4 to"},
		"no room for the id":            {"\x00\x00\x00\x03\x00\x00\x00\x07", "got a size of 3 bytes, want 4 to"},
		"a size of 2 GB":                {"\x7f\xff\xff\xff\x00\x00\x00\x07", "got a size of 2147483647 bytes"},
		"HTTP":                          {"HTTP/1.1 400 Bad Request\r\n", "it is HTTP"},
		"TLS":                           {"\x15\x03\x01\x00\x02\x02\x46", "it is TLS"},
	} {
		c := &answerConn{Conn: &script{answers: strings.NewReader(test.answer)}}
		if err := ask(t, c, 0, &apiversions.Request{}, 64); err != nil {
			t.Fatal(err)
		}
		for range 2 { // kafka-go reads again after an error
			n, err := c.Read(make([]byte, 64))
			if n != 0 || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %d bytes and %v, want %q", name, n, err, test.want)
			}
		}
	}
}

// TestNoSASLWithoutHeads refuses the handshake of brokers before Kafka 1.0: a flipped bit may make a new one look like that.
func TestNoSASLWithoutHeads(t *testing.T) {
	s := &script{}
	if err := ask(t, &answerConn{Conn: s}, 0, &saslhandshake.Request{Mechanism: "PLAIN"}, 64); !errors.Is(err, ErrVersion) || s.written.Len() != 0 {
		t.Errorf("got %v and %d bytes written, want a refusal before the first", err, s.written.Len())
	}
	if err := ask(t, &answerConn{Conn: s}, 1, &saslhandshake.Request{Mechanism: "PLAIN"}, 64); err != nil {
		t.Error(err)
	}
}

// TestABrokerThatIsNone connects to servers that answer as nginx and a listener with TLS do. The error says what they are.
func TestABrokerThatIsNone(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nConnection: close\r\n\r\n": "it is HTTP",
		"\x15\x03\x03\x00\x02\x02\x50":                                           "it is TLS",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return // the test is over
				}
				_, _ = conn.Read(make([]byte, 64))
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		c := startClient(t, Config{Brokers: []string{listener.Addr().String()}, Timeout: 2 * time.Second})
		if _, err := c.Partitions(t.Context(), "t"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want that %s", err, want)
		}
	}
}

// TestAWrongAnswerIsKnownAtOnce, although the broker keeps the connection open: no time-out passes.
func TestAWrongAnswerIsKnownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker := func() net.Conn {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				if _, err := theirs.Read(make([]byte, 256)); err == nil {
					_, _ = io.WriteString(theirs, "\x00\x00\x00\x0e\x00\x00\x00\x01\x00\x00\x61\x74\x65\x00\x00\x00\x00\x00")
				}
				_, _ = theirs.Read(make([]byte, 256)) // until the client hangs up
			}()
			return ours
		}
		c := New(Config{Brokers: []string{"broker:9092"}, Dial: func(context.Context, string, string) (net.Conn, error) { return broker(), nil }})
		defer c.Close()
		began := time.Now()
		_, err := c.Partitions(t.Context(), "t")
		if took := time.Since(began); !errors.Is(err, errWrongAnswer) || took > time.Second {
			t.Errorf("got %v after %v, want that the answer is wrong, after the pauses between three attempts", err, took)
		}
	})
}
