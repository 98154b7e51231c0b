package bouncer

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// What all items have.
const (
	Origin  = "floodgate" // of all items
	banType = "ban"

	shortestDuration = time.Second // a shorter one may become a time-out of 0, which firewalls take for none
)

// item is a decision as CrowdSec's API shows it.
type item struct {
	id       uint64
	addr     netip.Addr
	until    int64
	scenario string
}

// itemOf returns the item of an entry that is closed, or was.
func itemOf(e *entry) item { return item{e.closedAt, e.address(), e.until, e.rule.Value()} }

// prefix returns the addresses that an item is about.
func (s *Server) prefix(addr netip.Addr) netip.Prefix { return prefixOf(addr, s.options.IDs) }

// prefixOf returns the addresses of a caller: all of its network if the caller is one, else its own.
func prefixOf(addr netip.Addr, ids schemas.IDs) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() && ids.Addr(addr) == addr {
		bits = ids.Prefix()
	}
	return netip.PrefixFrom(addr, bits)
}

// passes reports whether an item is of a scope that is asked for.
func (q *query) passes(p netip.Prefix) bool {
	if p.IsSingleIP() {
		return q.addrs
	}
	return q.ranges
}

// append appends the item as JSON. The duration is what remains at now, a second at least.
func (i *item) append(b []byte, p netip.Prefix, now int64) []byte {
	left := max(time.Duration(i.until-now).Truncate(time.Millisecond), shortestDuration)
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, i.id, 10)
	b = append(b, `,"origin":"`+Origin+`","type":"`+banType+`","scope":"`...)
	if p.IsSingleIP() {
		b = append(b, `Ip","value":"`...)
		b = i.addr.AppendTo(b)
	} else {
		b = append(b, `Range","value":"`...)
		b = p.AppendTo(b)
	}
	b = append(b, `","duration":"`...)
	b = appendDuration(b, left)
	b = append(b, `","scenario":`...)
	return append(appendText(b, i.scenario), '}')
}

// appendDuration appends a duration of whole milliseconds, a second at least, as time.Duration.String writes it.
func appendDuration(b []byte, d time.Duration) []byte {
	if hours := int64(d / time.Hour); hours > 0 {
		b = append(strconv.AppendInt(b, hours, 10), 'h')
	}
	if d >= time.Minute {
		b = append(strconv.AppendInt(b, int64(d%time.Hour/time.Minute), 10), 'm')
	}
	b = strconv.AppendInt(b, int64(d%time.Minute/time.Second), 10)
	if thousandths := int64(d % time.Second / time.Millisecond); thousandths > 0 {
		digits := strconv.AppendInt(nil, 1000+thousandths, 10)[1:]
		b = append(append(b, '.'), bytes.TrimRight(digits, "0")...)
	}
	return append(b, 's')
}

// appendText appends a text as JSON.
func appendText(b []byte, text string) []byte {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		return append(append(append(b, '"'), text...), '"')
	}
	quoted, err := json.Marshal(text)
	if err != nil { // strings have none
		return append(b, `""`...)
	}
	return append(b, quoted...)
}
