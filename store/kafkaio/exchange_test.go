package kafkaio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// answer is what a broker sends: a size, the id of the request, and a body.
func answer(id int32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	return append(b, body...)
}

func TestReadAnswer(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 3<<20)) // over the first allocation
	for name, c := range map[string]struct {
		in   []byte
		want string
		err  error
	}{
		"whole":                 {answer(7, "body"), "body", nil},
		"empty body":            {answer(7, ""), "", nil},
		"long":                  {answer(7, long), long, nil},
		"more behind it":        {append(answer(7, "body"), "next"...), "body", nil},
		"nothing":               {nil, "", io.EOF},
		"cut in the size":       {answer(7, "body")[:3], "", io.ErrUnexpectedEOF},
		"cut in the body":       {answer(7, "body")[:10], "", io.ErrUnexpectedEOF},
		"cut in a long body":    {answer(7, long)[:2<<20], "", io.ErrUnexpectedEOF},
		"another's answer":      {answer(8, "body"), "", errWrongAnswer},
		"a size of 2 GiB":       {[]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 7}, "", ErrTooLarge},
		"a negative size":       {[]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 7}, "", errWrongAnswer},
		"a size of less than 4": {[]byte{0, 0, 0, 3, 0, 0, 0, 7}, "", errWrongAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			got, cut, err := (&exchange{correlationID: 7}).readAnswer(bytes.NewReader(c.in))
			if string(got) != c.want || cut && err == nil || !errors.Is(err, c.err) {
				t.Errorf("got %d bytes, cut %v, and %v, want %d and %v", len(got), cut, err, len(c.want), c.err)
			}
		})
	}
}

// TestReadAnswerKeepsTheBeginning reads of an answer of 2 GiB only what it is asked to keep.
func TestReadAnswerKeepsTheBeginning(t *testing.T) {
	in := append([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 7}, make([]byte, 1<<20)...)
	copy(in[8:], "head")
	for _, c := range []struct{ ask, want int64 }{
		{0, peekBytes}, {-1, peekBytes}, {peekBytes, peekBytes}, {peekBytes + 1, peekBytes + 1}, {1 << 20, 1 << 20},
	} {
		r := bytes.NewReader(in)
		x := &exchange{correlationID: 7, version: 9, keep: func(head []byte, version int16) int64 {
			if len(head) != peekBytes || string(head[:4]) != "head" || version != 9 {
				t.Errorf("got a head of %d bytes, version %d, want %d and 9", len(head), version, peekBytes)
			}
			return c.ask
		}}
		body, cut, err := x.readAnswer(r)
		if err != nil || !cut || int64(len(body)) != c.want || int64(len(in)-r.Len()) != c.want+8 {
			t.Errorf("keep %d: got %d bytes, cut %v, %v, and %d read; want %d", c.ask, len(body), cut, err, len(in)-r.Len(), c.want)
		}
	}
	x := &exchange{correlationID: 7, keep: func([]byte, int16) int64 { return math.MaxInt64 }}
	if _, _, err := x.readAnswer(bytes.NewReader(in)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want the end of what is there", err)
	}
}

// TestReadAnswerBelievesNoSize claims maxResponse, sends 8 bytes, and looks at the memory.
func TestReadAnswerBelievesNoSize(t *testing.T) {
	in := binary.BigEndian.AppendUint32(nil, maxResponse)
	in = append(in, 0, 0, 0, 7)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := (&exchange{correlationID: 7}).readAnswer(bytes.NewReader(in)); err == nil {
		t.Error("got no error")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
		t.Errorf("got %d bytes allocated for 8 received, want about 1 MiB", got)
	}
}

// fakeExchange is of the smallest thing that kafka-go can write.
func fakeExchange() *exchange {
	r := FetchRequest{Topic: "t"}
	return &exchange{request: r.message(100), minVersion: 4, version: 11, correlationID: 7, finished: make(chan struct{})}
}

// TestExchangeStates walks through the ways in which a caller and a connection meet.
func TestExchangeStates(t *testing.T) {
	t.Run("given up before it starts", func(t *testing.T) {
		x := fakeExchange()
		if err := x.abandon(); !errors.Is(err, errAborted) {
			t.Fatalf("got %v, want errAborted", err)
		}
		var wire bytes.Buffer
		if _, err := x.RawExchange(&wire); !errors.Is(err, errAborted) || wire.Len() != 0 || x.sent {
			t.Errorf("got %v and %d bytes written, want errAborted and none", err, wire.Len())
		}
	})
	t.Run("answered", func(t *testing.T) {
		x := fakeExchange()
		if _, err := x.RawExchange(&duplex{in: bytes.NewReader(answer(7, "body"))}); err != nil {
			t.Fatal(err)
		}
		if err := x.abandon(); err != nil || string(x.body) != "body" || !x.sent {
			t.Errorf("got %q, sent %v and %v, want the body", x.body, x.sent, err)
		}
	})
	t.Run("sent but not answered", func(t *testing.T) {
		x := fakeExchange()
		if _, err := x.RawExchange(&duplex{in: bytes.NewReader(nil)}); !errors.Is(err, io.EOF) {
			t.Fatalf("got %v, want EOF", err)
		}
		if err := x.abandon(); !errors.Is(err, io.EOF) || !x.sent {
			t.Errorf("got sent %v and %v, want sent and EOF", x.sent, err)
		}
	})
	t.Run("cut while it is written", func(t *testing.T) {
		x := fakeExchange()
		_, err := x.RawExchange(&duplex{in: bytes.NewReader(nil), room: 10})
		if !errors.Is(err, io.ErrShortWrite) || x.sent {
			t.Errorf("got %v, sent %v, want a short write and not sent", err, x.sent)
		}
	})
	t.Run("an old broker", func(t *testing.T) {
		x := fakeExchange()
		x.version = 3
		var wire bytes.Buffer
		if _, err := x.RawExchange(&wire); !errors.Is(err, kafka.UnsupportedVersion) || x.sent || wire.Len() != 0 {
			t.Errorf("got %v, sent %v, want UnsupportedVersion and not sent", err, x.sent)
		}
	})
	t.Run("given up while it waits", func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		x := fakeExchange()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := x.RawExchange(ours); err == nil {
				t.Error("got no error: the connection would be used again")
			}
		})
		if _, err := io.ReadFull(theirs, make([]byte, 20)); err != nil { // it is under way
			t.Fatal(err)
		}
		within(t, time.Second, "abandon", func() {
			if err := x.abandon(); err == nil {
				t.Error("got no error")
			}
		})
		wg.Wait()
	})
	t.Run("answered in the moment it is given up", func(t *testing.T) {
		x := fakeExchange()
		conn := &duplex{in: bytes.NewReader(answer(7, "body"))}
		conn.onRead = func() {
			x.mu.Lock()
			x.broken = true // as abandon does, and then the answer comes all the same
			x.mu.Unlock()
		}
		if _, err := x.RawExchange(conn); !errors.Is(err, errAborted) {
			t.Errorf("got %v, want errAborted: the connection must not be used again", err)
		}
		if err := x.abandon(); err != nil || string(x.body) != "body" {
			t.Errorf("got %q and %v, want the answer", x.body, err)
		}
	})
}

// duplex is a connection in memory, without deadlines.
type duplex struct {
	in     io.Reader
	room   int // bytes that can be written; 0 is all
	onRead func()
}

func (d *duplex) Read(b []byte) (int, error) {
	if d.onRead != nil {
		d.onRead()
	}
	return d.in.Read(b)
}

func (d *duplex) Write(b []byte) (int, error) {
	if d.room > 0 && len(b) > d.room {
		return d.room, io.ErrShortWrite
	}
	return len(b), nil
}

// TestExchangeIsRouted checks what kafka-go's pool asks of an exchange.
func TestExchangeIsRouted(t *testing.T) {
	x := fakeExchange()
	if x.ApiKey() != protocol.Fetch {
		t.Errorf("got %v, want Fetch", x.ApiKey())
	}
	if !x.Required(map[protocol.ApiKey]int16{protocol.Fetch: 9, protocol.Produce: 8}) || x.version != 9 {
		t.Errorf("got version %d, want 9", x.version)
	}
	cluster := protocol.Cluster{
		Brokers: map[int32]protocol.Broker{5: {ID: 5, Host: "h"}},
		Topics:  map[string]protocol.Topic{"t": {Partitions: map[int32]protocol.Partition{0: {Leader: 5}}}},
	}
	if b, err := x.Broker(cluster); err != nil || b.ID != 5 {
		t.Errorf("got broker %+v and %v, want the leader", b, err)
	}
	if _, err := x.Broker(protocol.Cluster{}); !errors.Is(err, protocol.ErrNoTopic) {
		t.Errorf("got %v, want ErrNoTopic", err)
	}
}

func TestPeerClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := checkedDial((&net.Dialer{}).DialContext, nil)(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Write([]byte("hello")); n != 5 || err != nil {
		t.Fatalf("open: got %d and %v", n, err)
	}
	if _, err := peer.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Write([]byte("hello")); n != 5 || err != nil {
		t.Fatalf("open, with something unread: got %d and %v", n, err)
	}
	buf := make([]byte, 6)
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "unread" {
		t.Fatalf("got %q and %v: the check took something", buf, err)
	}
	if _, err := io.ReadFull(peer, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for {
		n, err := conn.Write([]byte("hello"))
		if errors.Is(err, errStale) {
			if n != 0 {
				t.Errorf("got %d bytes written, want 0", n)
			}
			break
		}
		if Sleep(ctx, time.Millisecond) != nil {
			t.Fatalf("got %d and %v, want errStale", n, err)
		}
	}
	conn.Close()
	if n, err := conn.Write([]byte("hello")); n != 0 || !errors.Is(err, errStale) {
		t.Errorf("closed by us: got %d and %v, want errStale", n, err)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if peerClosed(a) {
		t.Error("a connection in memory: got closed, want don't know")
	}
}
