package haproxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// fake is HAProxy's Runtime API, in version 2.6, as far as a Writer uses it.
type fake struct {
	mu       sync.Mutex
	pid      int
	maps     map[string]*fakeMap
	asked    []string      // commands, without those that ask for the state
	slow     time.Duration // before each answer
	away     bool          // connections are refused
	silent   bool          // nothing is answered
	breakIn  int           // after so many commands a connection breaks, once; 0: never
	answered func(command string) (answer string, ok bool)
}

type fakeMap struct {
	curr, next int
	entries    []fakeEntry
}

type fakeEntry struct {
	version   int
	key, text string
}

func newFake(names ...string) *fake {
	f := &fake{pid: 100, maps: map[string]*fakeMap{}}
	for _, name := range names {
		f.maps[name] = &fakeMap{}
	}
	return f
}

// restart starts HAProxy again: its maps have what their files have, which is one entry for each text "key value".
func (f *fake) restart(file ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pid++
	for name := range f.maps {
		f.maps[name] = &fakeMap{}
		for _, line := range file {
			key, text, _ := strings.Cut(line, " ")
			f.maps[name].entries = append(f.maps[name].entries, fakeEntry{0, key, text})
		}
	}
}

// set changes the fake.
func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// has returns the entries of the current version of a map, as "key value", sorted.
func (f *fake) has(name string) (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.maps[name]
	for _, e := range m.entries {
		if e.version == m.curr {
			all = append(all, e.key+" "+e.text)
		}
	}
	slices.Sort(all)
	return all
}

var errAway = errors.New("connection refused")

func (f *fake) dial(context.Context) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errAway
	}
	ours, theirs := net.Pipe()
	go f.serve(theirs) // it ends with the connection
	return ours, nil
}

func (f *fake) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	answers := make(chan string, 4096) // as the buffer of a socket
	defer close(answers)
	go func() {
		for a := range answers {
			if _, err := io.WriteString(c, a); err != nil {
				return
			}
		}
	}()
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSuffix(line, "\n")
		var payload []string
		prompts := ""
		if command, found := strings.CutSuffix(line, " <<"); found {
			line = command
			for {
				next, err := r.ReadString('\n')
				if err != nil {
					return
				}
				prompts += "+ "
				if next == "\n" {
					break
				}
				payload = append(payload, strings.TrimSuffix(next, "\n"))
			}
		}
		f.mu.Lock()
		slow, silent := f.slow, f.silent
		if f.breakIn > 0 {
			if f.breakIn--; f.breakIn == 0 {
				f.mu.Unlock()
				return
			}
		}
		f.mu.Unlock()
		time.Sleep(slow)
		if silent {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		answers <- prompts + f.answer(line, payload) + "\n> "
	}
}

// answer does what a command says.
func (f *fake) answer(line string, payload []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answered != nil {
		if answer, ok := f.answered(line); ok {
			return answer
		}
	}
	if line != "prompt" && line != "show info" && line != "show map" {
		f.asked = append(f.asked, line)
	}
	words := strings.Fields(line)
	switch line {
	case "prompt":
		return ""
	case "show info":
		return fmt.Sprintf("Name: HAProxy\nPid: %d\nStart_time_sec: 7\n", f.pid)
	case "show map":
		answer := "# id (file) description\n"
		for name, m := range f.maps {
			answer += fmt.Sprintf("0 (%s) pattern loaded from file '%s' used by map at file 'h.cfg' line 1. curr_ver=%d next_ver=%d entry_cnt=%d\n",
				name, name, m.curr, m.next, len(m.entries))
		}
		return answer
	}
	version := -1
	if len(words) > 2 && strings.HasPrefix(words[2], "@") {
		_, _ = fmt.Sscanf(words[2], "@%d", &version)
		words = slices.Delete(words, 2, 3)
	}
	if len(words) < 3 || words[1] != "map" {
		return "Unknown command: '" + line + "'\n"
	}
	m := f.maps[words[2]]
	if m == nil {
		return "Unknown map identifier. Please use #<id> or <file>.\n"
	}
	return m.answer(words[0], version, words[3:], payload)
}

func (m *fakeMap) answer(command string, version int, words, payload []string) string {
	switch {
	case command == "show":
		answer := ""
		for i, e := range m.entries {
			if e.version == m.curr {
				answer += fmt.Sprintf("0x%x %s %s\n", 4096+i, e.key, e.text)
			}
		}
		return answer
	case command == "add" && len(words) == 0:
		if version < 0 {
			version = m.curr
		}
		for _, line := range payload {
			key, text, ok := strings.Cut(line, " ")
			if !ok {
				return "Missing value for key '" + key + "'.\n"
			}
			m.entries = append(m.entries, fakeEntry{version, key, text})
		}
		return ""
	case command == "set" && len(words) == 2, command == "del" && len(words) == 1:
		before := len(m.entries)
		found := false
		for i := range m.entries {
			if e := &m.entries[i]; e.key == words[0] && command == "set" {
				e.text, found = words[1], true
			}
		}
		if command == "del" {
			m.entries = slices.DeleteFunc(m.entries, func(e fakeEntry) bool { return e.key == words[0] })
			found = len(m.entries) < before
		}
		if !found {
			return "entry not found.\n"
		}
		return ""
	case command == "prepare":
		m.next++
		return fmt.Sprintf("New version created: %d\n", m.next)
	case command == "commit":
		m.curr = version
		m.entries = slices.DeleteFunc(m.entries, func(e fakeEntry) bool { return e.version < m.curr })
		return ""
	}
	return "Unknown command\n"
}
