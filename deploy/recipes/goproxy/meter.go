package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
)

// maxLine bounds what a meter keeps of an answer: one event of a stream, or all of another answer. A longer one is passed on, and what
// it says of usage is not read.
const maxLine = 4 << 20

// meter reads the usage of an answer while it passes: the last event that has one, or the JSON of the whole answer.
type meter struct {
	io.ReadCloser
	call   *call
	events bool   // the answer is a stream of server-sent events
	line   []byte // the part of the line, or of the answer, that has come
	long   bool   // it is longer than maxLine
}

func newMeter(body io.ReadCloser, c *call, events bool) *meter {
	return &meter{ReadCloser: body, call: c, events: events}
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.pass(p[:n])
	return n, err
}

// Close implements io.Closer. The proxy calls it however the answer ends.
func (m *meter) Close() error {
	m.end()
	return m.ReadCloser.Close()
}

// pass takes what has come.
func (m *meter) pass(text []byte) {
	for m.events {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			break
		}
		m.keep(text[:i])
		m.end()
		text = text[i+1:]
	}
	m.keep(text)
}

func (m *meter) keep(text []byte) {
	if m.long = m.long || len(m.line)+len(text) > maxLine; !m.long {
		m.line = append(m.line, text...)
	}
}

// usage is what models say of the tokens of a request.
type usage struct {
	Total int64 `json:"total_tokens"`
}

// end reads the line that is complete, or the answer.
func (m *meter) end() {
	text, long := m.line, m.long
	m.line, m.long = m.line[:0], false
	if m.events {
		var isData bool
		if text, isData = bytes.CutPrefix(text, []byte("data:")); !isData && !long {
			return
		}
		if text = bytes.TrimSpace(text); bytes.Equal(text, []byte("[DONE]")) {
			return
		}
	}
	var said struct {
		Usage    *usage `json:"usage"`
		Response struct {
			Usage *usage `json:"usage"`
		} `json:"response"` // of the events of /v1/responses
	}
	if !long {
		_ = json.Unmarshal(text, &said) // what is no JSON says nothing of usage
	}
	switch u := cmp.Or(said.Usage, said.Response.Usage); {
	case u != nil:
		m.call.usage = max(m.call.usage, u.Total)
	case m.events:
		m.call.streamed++
	}
}
