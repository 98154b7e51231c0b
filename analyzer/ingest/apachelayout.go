package ingest

import (
	"errors"
	"strings"
)

// errApache says that a LogFormat of Apache ends inside of a directive; ErrMapping wraps it.
var errApache = errors.New(`a "%" that no directive follows`)

// apacheField returns the name of a directive's field, and what Apache can write for it. Argument is what stands in its braces.
func apacheField(directive byte, argument string) (field string, k class) {
	switch directive {
	case 'h':
		return "host", wordText
	case 'a':
		if argument == "c" {
			return "peer", addrText
		}
		return "addr", addrText
	case 'A':
		return "local_addr", addrText
	case 't':
		if argument == "" {
			return "time", clfText // its brackets are text around it
		}
		return "time_" + strings.TrimPrefix(strings.TrimPrefix(argument, "begin:"), "end:"), apacheTime(argument)
	case 's':
		return "status", numberText
	case 'b', 'B':
		return "bytes", numberText
	case 'O':
		return "sent", numberText
	case 'I':
		return "received", numberText
	case 'S':
		return "transferred", numberText
	case 'D':
		return "duration_us", numberText
	case 'T':
		return "duration", numberText
	case 'p':
		return "port", numberText
	case 'P':
		return "pid", wordText
	case 'k':
		return "keepalive", numberText
	case 'm':
		return "method", wordText
	case 'H':
		return "protocol", wordText
	case 'v':
		return "vhost", wordText
	case 'X':
		return "connection", wordText
	case 'l':
		return "ident", wordText
	case 'L':
		return "log_id", wordText
	}
	return apacheText(directive, argument), freeText
}

// apacheTime returns the class of %{…}t.
func apacheTime(argument string) class {
	switch strings.TrimPrefix(strings.TrimPrefix(argument, "begin:"), "end:") {
	case "sec", "msec", "usec", "msec_frac", "usec_frac":
		return numberText
	}
	return freeText
}

// apacheText returns the name of a field that a client may have written.
func apacheText(directive byte, argument string) string {
	switch directive {
	case 'u':
		return "user"
	case 'r':
		return "request"
	case 'U':
		return "path"
	case 'q':
		return "query"
	case 'V':
		return "server"
	case 'f':
		return "file"
	case 'R':
		return "handler"
	case 'i':
		return "in_" + strings.ToLower(argument)
	case 'o':
		return "out_" + strings.ToLower(argument)
	case 'C':
		return "cookie_" + argument
	case 'e':
		return "env_" + argument
	case 'n':
		return "note_" + argument
	}
	return string(directive) + "_" + argument
}

// apacheLine returns the text of a LogFormat: s itself, or the quoted part of the directive as it stands in the configuration.
func apacheLine(s string) string {
	s = strings.TrimSpace(s)
	if rest, directive := strings.CutPrefix(s, "LogFormat"); directive {
		s = strings.TrimSpace(rest)
		if end := stringEnd(s, min(1, len(s))); s != "" && s[0] == '"' && end < len(s) {
			s = s[1:end]
		}
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\t`, "\t").Replace(s)
}

// apacheTokens cuts the text of a LogFormat into tokens.
func apacheTokens(s string) (tokens []token, err error) {
	literal := func(text string) {
		if n := len(tokens); n > 0 && tokens[n-1].field == "" {
			tokens[n-1].text += text
		} else {
			tokens = append(tokens, token{text: text})
		}
	}
	for s != "" {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			i = len(s)
		}
		if i > 0 {
			literal(s[:i])
			s = s[i:]
			continue
		}
		if strings.HasPrefix(s, "%%") {
			literal("%")
			s = s[2:]
			continue
		}
		s = strings.TrimLeft(s[1:], "0123456789,!<>")
		argument := ""
		if strings.HasPrefix(s, "{") {
			var found bool
			if argument, s, found = strings.Cut(s[1:], "}"); !found {
				return nil, errApache
			}
		}
		s = strings.TrimLeft(s, "<>")
		if s == "" {
			return nil, errApache
		}
		if strings.HasPrefix(s, "^") && len(s) >= 3 {
			tokens, s = append(tokens, token{field: s[1:3] + "_" + argument}), s[3:]
			continue
		}
		field, k := apacheField(s[0], argument)
		s = s[1:]
		if field == "time" {
			literal("[")
			tokens = append(tokens, token{field: field, class: k}, token{text: "]"})
			continue
		}
		tokens = append(tokens, token{field: field, class: k})
	}
	return joinTexts(tokens), nil
}

// joinTexts makes one token of literals that stand side by side.
func joinTexts(tokens []token) (out []token) {
	for _, t := range tokens {
		if n := len(out); n > 0 && t.field == "" && out[n-1].field == "" {
			out[n-1].text += t.text
			continue
		}
		out = append(out, t)
	}
	return out
}

// apacheStyle returns the style of a LogFormat of Apache.
func apacheStyle(text string) (style, error) {
	s := style{name: prefixApache + "...", dash: true}
	tokens, err := apacheTokens(apacheLine(text))
	if err != nil {
		return s, err
	}
	y, err := newLayout(tokens, quotesEscaped, "request")
	if err != nil {
		return s, err
	}
	has := y.names
	s.defaults = Mapping{
		Client: Client{Address: firstOf(has, "addr", "host", "peer"), Forwarded: firstOf(has, "in_x-forwarded-for")},
		Time:   firstOf(has, "time", "time_usec", "time_msec", "time_sec"), Resource: firstOf(has, "request", "path"),
		Status: firstOf(has, "status"), Cost: firstOf(has, "bytes", "sent"),
	}
	if s.defaults.Time == "time" {
		s.defaults.Layout, s.defaults.TimeAt = TimeCLF, TimeAtStart
	}
	if s.defaults.Resource == "request" {
		s.defaults.Resource, s.defaults.Method = "target", "method"
	} else {
		s.defaults.Method = firstOf(has, "method")
	}
	s.make = func(Mapping) (fieldNames, func() decoder, error) { return y.decoders() }
	return s, nil
}
