package haproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Bounds of a session.
const (
	answerWithin  = 5 * time.Second // HAProxy's next byte, or that it takes ours
	maxLine       = 16 << 10        // of an answer; HAProxy's buffers have 16 KiB unless tune.bufsize says otherwise
	maxAnswer     = 4096            // lines of an answer that is no dump
	maxDump       = 1 << 22         // lines of a dump
	payloadBytes  = 8 << 10         // of one command: HAProxy holds all of it in a buffer
	pipelineBytes = 8 << 10
)

var (
	errAnswer  = errors.New("HAProxy answers what is not its Runtime API")
	errRefused = errors.New("HAProxy refuses a command")
	errNoMap   = errors.New("HAProxy has no such map")
)

// session is a connection to HAProxy's Runtime API, in interactive mode: each command gets an answer, which an empty line ends.
type session struct {
	conn net.Conn
	r    *bufio.Reader
	stop func() bool // stops waiting for the end of ctx
}

// dialer returns what connects to a socket.
func dialer(socket string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: answerWithin}).DialContext(ctx, "unix", socket)
	}
}

// openSession connects. The caller calls close. The session ends with ctx.
func openSession(ctx context.Context, dial func(context.Context) (net.Conn, error)) (*session, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	s.r = bufio.NewReaderSize(s, maxLine)
	if _, err := s.ask("prompt"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *session) close() {
	s.stop()
	_ = s.conn.Close() // nothing waits in it
}

// Read reads what HAProxy sends. It fails if that takes longer than answerWithin.
func (s *session) Read(b []byte) (int, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return 0, err
	}
	return s.conn.Read(b)
}

func (s *session) send(text []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	_, err := s.conn.Write(text)
	return err
}

// lines calls each for the lines of the next answer.
func (s *session) lines(bound int, each func(line string)) error {
	for n := 0; ; n++ {
		b, err := s.r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || n > bound {
			return fmt.Errorf("%w: got a line or an answer that is too long", errAnswer)
		}
		if err != nil {
			return err
		}
		line := string(b[:len(b)-1])
		if n == 0 {
			for strings.HasPrefix(line, "+ ") { // the prompt for each line of a payload
				line = line[2:]
			}
		}
		if line == "" {
			return s.prompt()
		}
		each(line)
	}
}

// prompt reads what follows each answer.
func (s *session) prompt() error {
	var b [2]byte
	if _, err := io.ReadFull(s.r, b[:]); err != nil {
		return err
	}
	if string(b[:]) != "> " {
		return fmt.Errorf("%w: got %q, want its prompt", errAnswer, b)
	}
	return nil
}

// answer returns the next answer.
func (s *session) answer() (string, error) {
	var text []string
	err := s.lines(maxAnswer, func(line string) { text = append(text, line) })
	return strings.Join(text, "\n"), err
}

// ask sends a command and returns its answer.
func (s *session) ask(command string) (string, error) {
	if err := s.send([]byte(command + "\n")); err != nil {
		return "", err
	}
	return s.answer()
}

// quietly sends commands that have nothing to answer, and waits for their answers.
func (s *session) quietly(commands []byte, n int) error {
	if err := s.send(commands); err != nil {
		return err
	}
	var refused error
	for range n {
		answer, err := s.answer()
		if err != nil {
			return err
		}
		if answer != "" && refused == nil {
			refused = refusal(answer)
		}
	}
	return refused
}

func refusal(answer string) error {
	err := errRefused
	if strings.HasPrefix(answer, "Unknown map") {
		err = errNoMap
	}
	return fmt.Errorf("%w: got the answer %.100q", err, answer)
}

// state is what tells one process of HAProxy and its maps from another.
type state struct {
	pid, started string
	entries      map[string]int // by the name of the map: of all versions
}

// state asks for it.
func (s *session) state() (state, error) {
	st := state{entries: map[string]int{}}
	if err := s.send([]byte("show info\nshow map\n")); err != nil {
		return st, err
	}
	err := s.lines(maxAnswer, func(line string) {
		name, text, _ := strings.Cut(line, ": ")
		switch name {
		case "Pid":
			st.pid = text
		case "Start_time_sec":
			st.started = text
		}
	})
	if err != nil {
		return st, err
	}
	if st.pid == "" {
		return st, fmt.Errorf("%w: got no Pid from show info", errAnswer)
	}
	return st, s.lines(maxAnswer, func(line string) {
		_, line, _ = strings.Cut(line, " (")
		name, line, _ := strings.Cut(line, ") ")
		if _, count, found := strings.Cut(line, "entry_cnt="); found {
			if n, err := strconv.Atoi(strings.TrimSpace(count)); err == nil {
				st.entries[name] = n
			}
		}
	})
}

// dump calls each for the entries of a map.
func (s *session) dump(name string, each func(key, text string)) error {
	if err := s.send([]byte("show map " + name + "\n")); err != nil {
		return err
	}
	var refused error
	err := s.lines(maxDump, func(line string) {
		place, line, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(place, "0x") {
			refused = refusal(place + " " + line)
			return
		}
		key, text, _ := strings.Cut(line, " ")
		each(key, text)
	})
	return errors.Join(err, refused)
}

// prepare makes a new version of a map, and returns its number.
func (s *session) prepare(name string) (string, error) {
	answer, err := s.ask("prepare map " + name)
	if err != nil {
		return "", err
	}
	version, found := strings.CutPrefix(answer, "New version created: ")
	if _, err := strconv.ParseUint(version, 10, 32); err != nil || !found {
		return "", refusal(answer)
	}
	return version, nil
}
