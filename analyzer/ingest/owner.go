package ingest

import "strings"

// owner checks what stands between the client and the time of a line in common log format: " ident user ". A user name may hold
// spaces. It reports what is wrong, because a log may have more words there than the format has:
//
//	$host $remote_addr - $remote_user [$time_local] …                  the first word is what the client asked for
//	$http_x_forwarded_for $remote_addr - $remote_user [$time_local] …  the first words are what the client sent
//
// In such a log the client would choose which address is counted. So the ident is "-" or a name without
// dots. A line whose user name holds an address, or ends like "name - -", can be read in both ways. It is refused until a line has shown that the log is of this format: one with three words, "-" for the ident and no
// address for the user. From then on, a user name cannot make a line uncounted.
func (c *combined) owner(s string) Reason {
	if s == " - - " {
		c.proven = !c.strict
		return OK
	}
	if len(s) < len(" - ") || s[0] != ' ' || s[len(s)-1] != ' ' {
		return BadFormat
	}
	ident, user, found := strings.Cut(s[1:len(s)-1], " ")
	switch {
	case !found, !nameOnly(ident): // an address or a host name is no ident
		return BadFormat
	case strings.IndexByte(user, ' ') >= 0:
		if ident != "-" && twoReadings(user) {
			return BadFormat
		}
		if !c.proven && twoReadings(user) {
			return Ambiguous
		}
	case likeAddress(user):
		if !c.proven {
			return Ambiguous
		}
	default:
		c.proven = c.proven || ident == "-" && !c.strict
	}
	return OK
}

// twoReadings reports whether the words of a user name could hold a client with its ident and user.
func twoReadings(user string) bool {
	words, before := 0, ""
	for rest, more := user, true; more; words++ {
		last := before
		before, rest, more = strings.Cut(rest, " ")
		if likeAddress(before) || !more && words > 1 && last == "-" {
			return true
		}
	}
	return false
}

// likeAddress reports whether a server might write s for the other end of a connection. It says yes to some texts that are no
// addresses: it must not miss one.
func likeAddress(s string) bool {
	if strings.HasPrefix(s, "unix:") {
		return true
	}
	s = strings.TrimRight(s, ",")
	separators, digits := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.', c == ':':
			separators++
		case c-'0' <= 9:
			digits++
		case c|0x20 >= 'a' && c|0x20 <= 'f', c == '[', c == ']':
		case c == '%' && separators >= 2:
			return true // a zone follows
		default:
			return false
		}
	}
	return separators >= 2 || separators == 1 && digits > 1
}

// nameOnly reports whether s is letters, digits, "-" and "_".
func nameOnly(s string) bool {
	for i := range len(s) {
		if c := s[i]; c-'0' > 9 && (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// afterVhost returns s behind its first word, which must be NAME:PORT, or "".
func afterVhost(s string) string {
	vhost, rest, found := strings.Cut(s, " ")
	i := strings.LastIndexByte(vhost, ':')
	if !found || i < 1 || i == len(vhost)-1 || strings.Trim(vhost[i+1:], "0123456789") != "" {
		return ""
	}
	return rest
}

// startsIPv6 reports whether the first word of s is an IPv6 address without brackets, whose end may look like a port.
func startsIPv6(s string) bool {
	word, _, _ := strings.Cut(s, " ")
	return word != "" && word[0] != '[' && strings.Count(word, ":") > 1
}

// userOf returns the user of " ident user ", the text between the address and the time. A user may hold spaces.
func userOf(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(s, " "), " ")
	_, user, _ := strings.Cut(s, " ")
	return user
}
