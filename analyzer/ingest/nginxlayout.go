package ingest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// nginxClass returns what nginx can write for a variable. What is not known here may be a client's.
func nginxClass(variable string) class {
	switch variable {
	case "remote_addr", "realip_remote_addr", "proxy_protocol_addr", "server_addr":
		return addrText
	case "time_local":
		return clfText
	case "time_iso8601", "request_method", "scheme", "server_protocol", "request_id", "pipe", "ssl_protocol", "ssl_cipher", "ssl_session_reused",
		"upstream_cache_status", "limit_req_status", "limit_conn_status", "hostname", "http2", "http3", "https", "binary_remote_addr":
		return wordText
	case "host":
		return nameText
	case "status", "bytes_sent", "body_bytes_sent", "request_length", "request_time", "msec", "pid", "connection", "connection_requests",
		"connection_time", "remote_port", "server_port", "realip_remote_port", "proxy_protocol_port", "gzip_ratio", "content_length":
		return numberText
	}
	return freeText
}

// Errors about log formats of nginx; ErrMapping wraps them.
var (
	errNginxNone = errors.New(`escape=none lets clients write quotes, so that their text can look like any other field: use escape=default or escape=json`)
	errNginxName = errors.New(`a "$" that no variable follows`)
)

// nginxText returns the text of a log_format: s itself, or the quoted parts of the directive as it stands in the configuration.
func nginxText(s string) (text, escape string) {
	s = strings.TrimSpace(s)
	rest, directive := strings.CutPrefix(s, "log_format")
	if directive {
		_, s, _ = strings.Cut(strings.TrimSpace(rest), " ") // its name
		s = strings.TrimSpace(s)
	}
	if rest, found := strings.CutPrefix(s, "escape="); found {
		escape, s, _ = strings.Cut(rest, " ")
		s = strings.TrimSpace(s)
	}
	if s == "" || s[0] != '\'' && (s[0] != '"' || !directive) {
		return s, escape
	}
	var out strings.Builder
	for s = strings.TrimRight(s, "; \n"); s != "" && (s[0] == '\'' || s[0] == '"'); {
		quote := s[0]
		end := 1
		for end < len(s) && s[end] != quote {
			if s[end] == '\\' && end+1 < len(s) {
				end++
			}
			out.WriteByte(s[end])
			end++
		}
		s = strings.TrimLeft(s[min(end+1, len(s)):], " \t\r\n")
	}
	return out.String(), escape
}

// nginxTokens cuts the text of a log_format into tokens.
func nginxTokens(s string) (tokens []token, err error) {
	for s != "" {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			i = len(s)
		}
		if i > 0 {
			tokens, s = append(tokens, token{text: s[:i]}), s[i:]
			continue
		}
		s = s[1:]
		braces := strings.HasPrefix(s, "{")
		s = strings.TrimPrefix(s, "{")
		n := 0
		for n < len(s) && (s[n]-'0' <= 9 || s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z' || s[n] == '_') {
			n++
		}
		if n == 0 || braces && !strings.HasPrefix(s[n:], "}") {
			return nil, errNginxName
		}
		tokens = append(tokens, token{field: s[:n], class: nginxClass(s[:n])})
		if s = s[n:]; braces {
			s = s[1:]
		}
	}
	return tokens, nil
}

// nginxStyle returns the style of a log_format of nginx.
func nginxStyle(text string) (style, error) {
	s := style{name: prefixNginx + "...", dash: true}
	text, escape := nginxText(text)
	if escape == "none" {
		return s, errNginxNone
	}
	if strings.HasPrefix(text, "{") {
		return nginxJSON(s, text)
	}
	tokens, err := nginxTokens(text)
	if err != nil {
		return s, err
	}
	q := quotesAsHex
	if escape == "json" {
		q = quotesEscaped
	}
	y, err := newLayout(tokens, q, "request")
	if err != nil {
		return s, err
	}
	y.unescape = escape == "json"
	s.make = func(Mapping) (fieldNames, func() decoder, error) { return y.decoders() }
	s.defaults = nginxDefaults(y.names)
	return s, nil
}

// nginxDefaults returns the mapping of the fields that a log_format has.
func nginxDefaults(has []string) Mapping {
	m := Mapping{
		Client: Client{Address: firstOf(has, "remote_addr", "realip_remote_addr"), Forwarded: firstOf(has, "http_x_forwarded_for", "proxy_add_x_forwarded_for")},
		Time:   firstOf(has, "time_iso8601", "time_local", "msec"), TimeAt: TimeAtEnd, Resource: firstOf(has, "request", "request_uri", "uri"),
		Status: firstOf(has, "status"), Cost: firstOf(has, "body_bytes_sent", "bytes_sent"),
	}
	if m.Resource == "request" {
		m.Resource, m.Method = "target", "method"
	} else {
		m.Method = firstOf(has, "request_method")
	}
	if m.Time == "time_local" {
		m.Layout = TimeCLF
	}
	return m
}

// firstOf returns the first of the names that the fields have, or "".
func firstOf(has []string, names ...string) string {
	for _, n := range names {
		if slices.Contains(has, n) {
			return n
		}
	}
	return ""
}

// nginxMember is a member of a JSON object whose value is one variable.
var nginxMember = regexp.MustCompile(`"([^"\\]+)"\s*:\s*"?\$\{?([a-zA-Z0-9_]+)\}?"?\s*[,}]`)

// nginxJSON returns the style of a log_format that writes one JSON object a line. Its fields are the names of the members.
func nginxJSON(s style, text string) (style, error) {
	members := make(map[string]string) // by variable
	var has []string
	for _, m := range nginxMember.FindAllStringSubmatch(text, -1) {
		if _, twice := members[m[2]]; !twice {
			members[m[2]] = m[1]
			has = append(has, m[2])
		}
	}
	if len(has) == 0 {
		return s, fmt.Errorf("%w: want members such as \"ip\":\"$remote_addr\"", errLayoutEmpty)
	}
	d := nginxDefaults(has)
	if d.Resource == "target" {
		d.Resource, d.Method = "request", ""
	}
	for _, f := range []*string{&d.Client.Address, &d.Client.Forwarded, &d.Time, &d.Resource, &d.Method, &d.Status, &d.Cost} {
		*f = members[*f]
	}
	s.json, s.make, s.defaults = true, newJSON, d
	return s, nil
}
